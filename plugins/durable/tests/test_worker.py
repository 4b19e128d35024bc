"""How a worker reads the end of an attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from deep_durable import Again, Done, Failed, Job, Queue, Worker, WorkerInfo, finish
from deep_durable.queue import Attempt, Step, Verdict
from deep_sessions import (
    LeaseLost,
    NothingToResume,
    SessionBusy,
    SessionInfo,
    SessionNotFound,
    SessionStatus,
    StoreError,
)


class OneJob(Queue):
    """A queue in memory that runs one session and keeps the verdict."""

    verdict: Verdict | None = None

    async def enqueue(self, session_id: str) -> None: ...

    async def work(self, attempt: Attempt, step: Step, *, name: str, concurrency: int, stop: asyncio.Event) -> None:
        self.verdict = await attempt("one")

    async def takeover(self) -> Sequence[str]:
        return []

    async def jobs(self) -> Sequence[Job]:
        return []

    async def workers(self) -> Sequence[WorkerInfo]:
        return []

    async def release(self, session_id: str) -> None: ...

    async def aclose(self) -> None: ...


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (None, Done()),
        (NothingToResume("nothing"), Done()),
        (SessionNotFound("deleted"), Done()),
        (SessionBusy("busy", seconds=7.0), Again(7.0)),
        (SessionBusy("busy"), Again(5.0)),
        (LeaseLost("taken"), Again(5.0)),
        (StoreError("full"), Again(5.0)),
        (ValueError("no such model"), Failed("ValueError: no such model")),
        (asyncio.CancelledError(), Failed("the handler was cancelled, and not by its worker")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_the_handler_raises_says_what_follows(error: BaseException | None, verdict: Verdict) -> None:
    async def handler(session_id: str) -> None:
        if error is not None:
            raise error

    queue = OneJob()
    asyncio.run(Worker(handler, queue).run())
    assert queue.verdict == verdict


def test_a_second_stop_cancels_at_once() -> None:
    async def main() -> Verdict | None:
        queue = OneJob()
        began = asyncio.Event()

        async def handler(session_id: str) -> None:
            began.set()
            await asyncio.Event().wait()

        worker = Worker(handler, queue, grace=1e6)
        run = asyncio.ensure_future(worker.run())
        await began.wait()
        worker.stop()
        worker.stop()
        await run
        return queue.verdict

    assert asyncio.run(main()) == Again()


@dataclass
class Ending:
    status: str


class Agent:
    """An agent whose runs end as told."""

    def __init__(self, resume: str, *ends: str, status: SessionStatus = "running") -> None:
        self.ends, self.first, self.calls = [*ends], resume, list[str]()
        self.status: SessionStatus = status

    @property
    def store(self) -> Any:
        return self

    async def info(self, session_id: str) -> SessionInfo:
        return SessionInfo(session_id, None, self.status, 0.0, 0.0, 0)

    async def resume(self, session_id: str) -> Ending:
        self.calls.append("resume")
        if not self.first:
            raise NothingToResume("its last run completed")
        return Ending(self.first)

    async def run_next(self, session_id: str) -> Ending:
        self.calls.append("next")
        if not self.ends:
            raise NothingToResume("no message waits")
        return Ending(self.ends.pop(0))


@pytest.mark.parametrize(
    ("agent", "calls"),
    [
        (Agent(""), ["resume", "next"]),
        (Agent("completed"), ["resume", "next"]),
        (Agent("", "completed", "completed"), ["resume", "next", "next", "next"]),
        (Agent("awaiting", "completed"), ["resume"]),
        (Agent("failed", "completed"), ["resume"]),
        (Agent("", "failed", "completed"), ["resume", "next"]),
        (Agent("completed", "completed", status="failed"), ["next", "next"]),
        (Agent("completed", "completed", status="aborted"), ["next", "next"]),
    ],
)
def test_a_session_is_finished_when_nothing_waits_or_a_run_did_not_complete(agent: Agent, calls: list[str]) -> None:
    asyncio.run(finish(agent, "one"))
    assert agent.calls == calls
