"""The journal of one attempt: commits of tasks that work side by side, and of one that is cancelled."""

from __future__ import annotations

import asyncio

import pytest
from deep_sessions import Commit, Lease, MemoryStore, NewEntry
from deep_sessions.fold import Fold
from deep_sessions.journal import Journal

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Slow(MemoryStore):
    """A commit waits for `go`. `commit_now` works at once, except the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.go, self.began = asyncio.Event(), asyncio.Event()
        self.under_way = self.most = self.asked = 0

    async def commit(self, lease: Lease, commit: Commit) -> int:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.began.set()
        await self.go.wait()
        self.under_way -= 1
        return await super().commit(lease, commit)


class SlowAtFirst(Slow):
    """As a file that is in use by another process for a moment."""

    def commit_now(self, lease: Lease, commit: Commit) -> int | None:
        self.asked += 1
        if self.asked == 1:
            return None
        commit_at_once = MemoryStore.commit(self, lease, commit)
        with pytest.raises(StopIteration) as ended:
            commit_at_once.send(None)
        return ended.value.value


async def journal_of(store: MemoryStore) -> Journal:
    lease = await store.acquire("s")
    return Journal(store, lease, Fold(await store.info("s")), "r")


def note(text: bytes) -> NewEntry:
    return NewEntry("note", text)


@pytest.mark.parametrize("kind", [Slow, SlowAtFirst])
async def test_commits_wait_for_one_that_is_under_way(kind: type[Slow]) -> None:
    store = kind()
    journal = await journal_of(store)
    tasks = [asyncio.ensure_future(journal.write(note(b"first")))]
    await store.began.wait()
    tasks += [asyncio.ensure_future(journal.write(note(text))) for text in (b"second", b"third")]
    for _ in range(20):
        await asyncio.sleep(0)
    store.go.set()
    await asyncio.gather(*tasks)
    assert [entry.data for entry in await store.entries("s")] == [b"first", b"second", b"third"]
    assert (journal.state.seq, store.most) == (3, 1)


async def test_a_commit_of_a_task_that_is_cancelled_is_in_the_state_too() -> None:
    store = Slow()
    journal = await journal_of(store)
    task = asyncio.ensure_future(journal.write(note(b"one")))
    await store.began.wait()
    task.cancel()
    for _ in range(20):
        await asyncio.sleep(0)
    store.go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await store.info("s")).seq == journal.state.seq == 1
