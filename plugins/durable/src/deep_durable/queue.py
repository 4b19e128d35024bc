"""The queue of sessions to resume: what every implementation does, and how an attempt ends."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from .errors import SessionSetAside

__all__ = [
    "ATTEMPTS",
    "Again",
    "Attempt",
    "Done",
    "Failed",
    "Job",
    "Queue",
    "Verdict",
    "WorkerInfo",
    "backoff",
    "set_aside_error",
]

ATTEMPTS = 3
"""How many attempts in a row may fail or lose their worker before a session is set aside."""


@dataclass(frozen=True, slots=True)
class Done:
    """The session has nothing more to do."""


@dataclass(frozen=True, slots=True)
class Again:
    """Resume the session once more; this attempt is no failure.

    Attributes:
        seconds: how long to wait.
    """

    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed.

    Attributes:
        error: why, in one line.
    """

    error: str


Verdict = Done | Again | Failed
Attempt = Callable[[str], Awaitable[Verdict]]
"""Resume one session, and say how that ended. It never raises, except when the worker itself must end."""


@dataclass(frozen=True, slots=True)
class Job:
    """A session in the queue.

    Attributes:
        session_id: the session.
        state: `waiting`, `running`, or `set aside`.
        worker: who runs it; None for others than `running`.
        failures: how many attempts in a row failed or lost their worker.
        error: why the last of them failed.
    """

    session_id: str
    state: Literal["waiting", "running", "set aside"]
    worker: str | None = None
    failures: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker.

    Attributes:
        name: its host and process.
        sessions: those that it runs.
        silent: seconds since its last sign of life.
    """

    name: str
    sessions: Sequence[str]
    silent: float


class Queue(ABC):
    """A queue of session ids. It delivers each at least once; the session's lease and ledger make that safe.

    A session waits in it at most once, and runs at most once, as far as the queue can see: a worker that stopped for
    longer than `takeover` waits may still run it. A wake-up that arrives while the session runs starts another attempt
    afterwards.
    """

    @abstractmethod
    async def enqueue(self, session_id: str) -> None:
        """Let a worker resume the session as soon as one is free.

        Raises:
            SessionSetAside: too many attempts failed; `release` lets it run again.
            QueueError: the database cannot be reached.
        """

    @abstractmethod
    async def work(self, attempt: Attempt, *, name: str, concurrency: int, stop: asyncio.Event) -> None:
        """Run attempts until `stop` is set and those that run have ended.

        Args:
            attempt: resumes one session.
            name: of this worker, for others to see.
            concurrency: how many attempts run at the same time.
            stop: ends the work.

        Raises:
            QueueLocked: another process works on this file.
        """

    @abstractmethod
    async def takeover(self) -> Sequence[str]:
        """Hand the sessions of dead workers to the others, or set them aside; return them.

        Workers call it by themselves.
        """

    @abstractmethod
    async def jobs(self) -> Sequence[Job]:
        """Return every session in the queue."""

    @abstractmethod
    async def workers(self) -> Sequence[WorkerInfo]:
        """Return the workers that live."""

    @abstractmethod
    async def release(self, session_id: str) -> None:
        """Forget the failures of a session that was set aside, and enqueue it.

        Raises:
            QueueError: it is not set aside.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Close the connections."""


def backoff(failures: int) -> float:
    """Return how many seconds the next attempt waits, after so many failures in a row."""
    return min(60.0, 10.0 ** (failures - 1))


def set_aside_error(session_id: str, failures: int, error: str) -> SessionSetAside:
    """Explain that a session is set aside."""
    return SessionSetAside(
        f"session {session_id} is set aside: {failures} attempts in a row failed, the last one with: {error}. "
        f"Fix the cause, then type: deep workers --release {session_id}"
    )
