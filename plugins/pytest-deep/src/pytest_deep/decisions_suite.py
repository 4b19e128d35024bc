"""The part of `SessionStoreConformance` about decisions: of all who decide one call at once, one succeeds."""

# A test suite: its checks are assertions.
# ruff: noqa: S101

from __future__ import annotations

import asyncio
import json
import multiprocessing
import threading
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, cast

import pytest
from deep_sessions import Commit, NewEntry, NotPending, SessionNotFound, SessionStore

__all__ = ["DecisionsConformance"]

LONG = 120.0
"""Seconds after which a process that does not answer is lost."""


class DecisionsConformance:
    """The tests of `SessionStore.decide`."""

    decision_rounds: ClassVar[int] = 5
    """How many calls 2 to 8 deciders decide in each test."""

    def test_a_call_is_decided_once(self, store: SessionStore) -> None:
        """The first decision is mail; a second one raises, also with other calls, and writes nothing."""
        seq = _run(_asked(store, "s"))
        assert _run(store.decide("s", seq, _said("a", "yes"))) is True
        with pytest.raises(NotPending, match="'a' was decided"):
            _run(store.decide("s", seq, _said("a", "no")))
        with pytest.raises(NotPending):
            _run(store.decide("s", seq, {**_said("b", "yes"), **_said("a", "no")}))
        assert _run(_decided(store, "s")) == {"a": "yes"}
        assert _run(store.decide("s", seq, {**_said("b", "no"), **_said("c", "yes")})) is True
        assert _run(_decided(store, "s")) == {"a": "yes", "b": "no", "c": "yes"}
        assert {mail.kind for mail in _run(store.mail("s"))} == {"decision"}

    def test_a_decision_is_about_the_state_that_its_maker_saw(self, store: SessionStore) -> None:
        """After later entries it writes nothing and says so; a call that asks again is decided again."""
        seq = _run(_asked(store, "s"))
        assert _run(store.decide("s", seq - 1, _said("a", "yes"))) is False
        assert _run(store.decide("s", seq, _said("a", "yes"))) is True
        lease = _run(store.acquire("s"))
        read = [mail.id for mail in _run(store.mail("s"))]
        later = _run(store.commit(lease, Commit([NewEntry("paused", b"{}")], read=read, status="awaiting")))
        _run(store.release(lease))
        assert _run(store.decide("s", seq, _said("a", "no"))) is False
        assert _run(_decided(store, "s")) == {}
        assert _run(store.decide("s", later, _said("a", "no"))) is True
        assert _run(_decided(store, "s")) == {"a": "no"}

    def test_sessions_and_their_owners_are_apart(self, store: SessionStore) -> None:
        """A call of one session is not that of another; an owner cannot decide for another."""
        for name in ("s", "t"):
            seq = _run(_asked(store.for_owner("ann"), name))
            assert _run(store.for_owner("ann").decide(name, seq, _said("a", name))) is True
            with pytest.raises(SessionNotFound):
                _run(store.for_owner("bob").decide(name, seq, _said("b", "no")))
        with pytest.raises(SessionNotFound):
            _run(store.decide("unknown", 1, _said("a", "yes")))
        assert [_run(_decided(store, name)) for name in ("s", "t")] == [{"a": "s"}, {"a": "t"}]

    def test_an_id_of_a_call_may_be_any_text(self, store: SessionStore) -> None:
        """Providers choose them."""
        seq = _run(_asked(store, "s"))
        ids = ["", "a\0b", "x" * 5_000, "日本語", "A", "a", "a "]
        for call in ids:
            assert _run(store.decide("s", seq, _said(call, "yes"))) is True
        for call in ids:
            with pytest.raises(NotPending):
                _run(store.decide("s", seq, _said(call, "no")))
        assert _run(_decided(store, "s")) == dict.fromkeys(ids, "yes")

    def test_of_tasks_that_decide_at_once_one_succeeds(self, store: SessionStore) -> None:
        """In one event loop."""
        seq = _run(_asked(store, "s"))

        async def all_at_once(number: int) -> list[str | None]:
            return await asyncio.gather(*(_vote(store, seq, f"call {number}", f"{n}") for n in range(_count(number))))

        self._check(store, [_run(all_at_once(number)) for number in range(self.decision_rounds)])

    def test_of_threads_that_decide_at_once_one_succeeds(self, store: SessionStore) -> None:
        """Each with an event loop of its own."""
        seq = _run(_asked(store, "s"))
        told: list[list[str | None]] = []
        with ThreadPoolExecutor(8) as pool:
            for number in range(self.decision_rounds):
                start = threading.Barrier(count := _count(number))

                def vote(n: int, number: int = number, start: threading.Barrier = start) -> str | None:
                    start.wait(LONG)
                    return _run(_vote(store, seq, f"call {number}", f"{n}"))

                told.append([*pool.map(vote, range(count))])
        self._check(store, told)

    def test_of_processes_that_decide_at_once_one_succeeds(
        self, store: SessionStore, open_again: Callable[[], SessionStore] | None
    ) -> None:
        """Each with a store of its own."""
        if open_again is None:
            pytest.skip("the sessions of this store end with it: no fixture `open_again`")
        if "fork" not in multiprocessing.get_all_start_methods():
            pytest.skip("this system cannot fork")
        seq = _run(_asked(store, "s"))
        counts = [_count(number) for number in range(self.decision_rounds)]
        told: list[list[str | None]] = [[] for _ in counts]
        context = multiprocessing.get_context("fork")
        starts = [context.Barrier(count) for count in counts]
        answers: Any = context.Queue()

        def decide(n: int) -> None:
            """Run in the fork: take part in the rounds that have so many deciders."""
            mine = open_again()
            for number, count in enumerate(counts):
                if n < count:
                    starts[number].wait(LONG)
                    answers.put((number, _run(_vote(mine, seq, f"call {number}", f"{n}"))))

        processes = [context.Process(target=decide, args=(n,), daemon=True) for n in range(max(counts))]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads: those of the store, which notices a fork
            for process in processes:
                process.start()
        for _ in range(sum(counts)):
            number, voted = cast("tuple[int, str | None]", answers.get(timeout=LONG))
            told[number].append(voted)
        for process in processes:
            process.join(LONG)
        self._check(store, told)

    def _check(self, store: SessionStore, told: Sequence[Sequence[str | None]]) -> None:
        """One decider of each round was accepted, and the store has that one's decision."""
        stored = _run(_decided(store, "s"))
        for number, votes in enumerate(told):
            accepted = [vote for vote in votes if vote is not None]
            assert len(accepted) == 1, f"round {number}: {len(accepted)} of {len(votes)} deciders were accepted"
            assert stored[f"call {number}"] == accepted[0]
        assert len(stored) == len(told)


def _count(number: int) -> int:
    """Return how many decide in a round: 8, 7, … 2, and again."""
    return 8 - number % 7


async def _asked(store: SessionStore, session_id: str) -> int:
    """Create a session whose calls wait; return the number of its last entry."""
    lease = await store.acquire(session_id)
    paused = NewEntry("paused", b"{}")
    seq = await store.commit(lease, Commit([NewEntry("messages", b"{}"), paused], status="awaiting"))
    await store.release(lease)
    return seq


def _said(call: str, what: str) -> Mapping[str, bytes]:
    return {call: json.dumps({call: what}).encode()}


async def _vote(store: SessionStore, seq: int, call: str, what: str) -> str | None:
    """Return what was said if it was accepted."""
    try:
        return what if await store.decide("s", seq, _said(call, what)) else None
    except NotPending:
        return None


async def _decided(store: SessionStore, session_id: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for mail in await store.mail(session_id):
        for call, what in json.loads(mail.data).items():
            assert call not in found, f"{call!r} is decided twice"
            found[call] = what
    return found


def _run(call: Awaitable[Any] | Coroutine[Any, Any, Any]) -> Any:
    """Run in an event loop of its own: a store must not depend on one."""

    async def run() -> Any:
        return await call

    return asyncio.run(run())
