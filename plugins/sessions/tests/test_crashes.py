"""A process that loses its power before or after any write: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from deep_sessions import Commit, Lease, MemoryStore, SessionStore, journal
from deep_sessions.fold import fold
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturnPart

from plugins.sessions.tests.longrun import EFFECTS, finish
from tests.drawn import many


class PowerCut(BaseException):
    """The process is gone: no handler sees it."""


class CutStore(MemoryStore):
    """Loses its power at one write.

    Args:
        cut: the number of the write, from 1; None never.
        after: whether the write still arrives.
    """

    def __init__(self, cut: int | None = None, *, after: bool = False) -> None:
        super().__init__()
        self.cut, self.after = cut, after
        self.writes = 0
        self.is_dead = False

    async def commit(self, lease: Lease, commit: Commit) -> int:
        if self.is_dead:
            raise PowerCut
        self.writes += 1
        hit = self.writes == self.cut
        if hit and not self.after:
            self.is_dead = True
            raise PowerCut
        seq = await super().commit(lease, commit)
        if hit:
            self.is_dead = True
            raise PowerCut
        return seq

    def restarted(self) -> MemoryStore:
        """The same sessions, after the lease of the dead process has ended."""
        store = MemoryStore()
        vars(store).update({name: value for name, value in vars(self).items() if name.startswith("_")})
        for session in self._sessions.values():
            session.holder = None
        return store


def assert_valid(messages: list[ModelMessage]) -> None:
    """Every call has its result, after it."""
    open_calls: Counter[str] = Counter()
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                open_calls[part.tool_call_id] += 1
            elif isinstance(part, ToolReturnPart):
                assert open_calls[part.tool_call_id] > 0, "a result without its call"
                open_calls[part.tool_call_id] -= 1
    assert not +open_calls, f"calls without results: {+open_calls}"


def run_once(store: SessionStore, ran: list[int]) -> None:
    async def record(n: int) -> None:
        ran.append(n)

    asyncio.run(finish(store, record))  # its end cancels what is left in the loop, as a process does


def writes_of_a_run() -> int:
    store, ran = CutStore(), list[int]()
    run_once(store, ran)
    assert sorted(ran) == sorted(EFFECTS)
    return store.writes


def cut_and_resume(cut: int, *, after: bool) -> tuple[list[int], MemoryStore]:
    store, ran = CutStore(cut, after=after), list[int]()
    try:
        run_once(store, ran)
    except PowerCut:
        pass
    else:
        pytest.fail("the run ended before the cut")
    again = store.restarted()
    run_once(again, ran)
    return ran, again


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("soon", [0, 3600], ids=["results at once", "results with the next write"])
def test_a_cut_at_any_write_loses_nothing_and_repeats_no_effect(
    after: bool, soon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "SOON", soon)
    total = writes_of_a_run()
    # Before and after the odd writes of a run: after a write is before the next one.
    for cut in range(1, total + 1, many(8, 1)):
        ran, store = cut_and_resume(cut, after=after)
        twice = [n for n, times in Counter(ran).items() if times > 1]
        assert not twice, f"cut {cut}: {twice} ran twice"
        stored = asyncio.run(store.load("s"))
        state = fold(stored)
        assert_valid(state.messages())
        assert state.info.status == "idle", f"cut {cut}"
        assert not stored.ledger, f"cut {cut}"
        missing = EFFECTS - set(ran)
        # Only effects whose start was written, and which had not begun, may be missing.
        assert len(missing) <= 1, f"cut {cut}: {missing} never ran"
        told = [part for m in state.messages() for part in m.parts if isinstance(part, ToolReturnPart)]
        if missing and missing < set(range(100)):
            assert any("Nobody knows" in str(part.content) for part in told) or _was_cut_away(state.messages())


def _was_cut_away(messages: list[ModelMessage]) -> bool:
    return any("(cut)" in str(part.content) for m in messages if not isinstance(m, ModelResponse) for part in m.parts)
