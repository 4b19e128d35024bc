"""How a worker reads the end of an attempt."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deep_durable import Again, Done, Failed, Job, Queue, Waits, Worker, finish
from deep_durable.jobs import Verdict
from deep_durable.sqlite import SqliteDatabase
from deep_sessions import (
    End,
    LeaseLost,
    ModelError,
    NothingToResume,
    SessionBusy,
    SessionInfo,
    SessionNotFound,
    SessionStatus,
    StoreError,
)

BUSY = End(kind="transient", code="overloaded", retry_after=7.0)


class Kept(Queue):
    """A queue that keeps the verdicts, and stops its worker at the first one."""

    def __init__(self, path: Path) -> None:
        super().__init__(SqliteDatabase(path / "queue.db"))
        self.verdicts: list[Verdict] = []
        self.settled = asyncio.Event()

    async def settle(self, worker: int, session_id: str, verdict: Verdict, **how: Any) -> None:
        self.verdicts.append(verdict)
        await super().settle(worker, session_id, verdict, **how)
        self.settled.set()


async def attempt(path: Path, handler: Callable[[str], Awaitable[object]]) -> tuple[list[Verdict], Sequence[Job]]:
    """Run one session once; return the verdict, and what is in the queue then."""
    queue = Kept(path)
    await queue.enqueue("one")
    worker = Worker(handler, queue)
    run = asyncio.ensure_future(worker.run())
    await queue.settled.wait()
    worker.stop()
    await run
    try:
        return queue.verdicts, await queue.jobs()
    finally:
        await queue.aclose()


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
        (ModelError("overloaded", end=BUSY), Waits("the provider of the model", "overloaded", 7.0)),
        (ModelError("no such model"), Failed("ModelError: no such model")),
        (ValueError("no such file"), Failed("ValueError: no such file")),
        (SystemExit(3), Failed("PluginExited: SystemExit: 3")),
        (asyncio.CancelledError(), Failed("the handler was cancelled, and not by its worker")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_the_handler_raises_says_what_follows(
    error: BaseException | None, verdict: Verdict, tmp_path: Path
) -> None:
    async def handler(session_id: str) -> None:
        if error is not None:
            raise error

    verdicts, jobs = asyncio.run(attempt(tmp_path, handler))
    assert verdicts == [verdict]
    assert len(jobs) == (not isinstance(verdict, Done))


def test_a_system_exit_in_a_task_of_the_handler_ends_neither_the_loop_nor_the_worker(tmp_path: Path) -> None:
    async def leave() -> None:
        await asyncio.sleep(0)
        sys.exit("enough")

    async def handler(session_id: str) -> None:
        await asyncio.gather(leave(), asyncio.sleep(1))

    (verdict,), (job,) = asyncio.run(attempt(tmp_path, handler))
    assert verdict == Failed("PluginExited: SystemExit: enough")
    assert (job.state, job.failures) == ("waiting", 1)


def test_tasks_are_as_before_once_the_worker_has_ended(tmp_path: Path) -> None:
    async def handler(session_id: str) -> None: ...

    async def main() -> object:
        await attempt(tmp_path, handler)
        return asyncio.get_running_loop().get_task_factory()

    assert asyncio.run(main()) is None


def test_a_second_stop_cancels_at_once(tmp_path: Path) -> None:
    async def main() -> list[Verdict]:
        queue = Kept(tmp_path)
        await queue.enqueue("one")
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
        await queue.aclose()
        return queue.verdicts

    assert asyncio.run(main()) == [Again()]


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


def test_a_process_whose_event_loop_hangs_ends_with_75() -> None:
    code = """
import asyncio, time
from deep_durable.exits import ends_when_hung

async def main():
    with ends_when_hung(asyncio.get_running_loop(), 0.2):
        time.sleep(600)

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 75
    assert "the event loop did nothing" in done.stderr
