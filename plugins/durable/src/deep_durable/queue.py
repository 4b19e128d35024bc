"""The queue of sessions to resume: what every implementation does, and how an attempt ends."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from .errors import SessionSetAside

__all__ = [
    "ATTEMPTS",
    "Again",
    "Attempt",
    "Done",
    "Failed",
    "Failures",
    "Job",
    "Queue",
    "Step",
    "Verdict",
    "WorkerInfo",
    "blame",
]

ATTEMPTS = 3
"""How many attempts in a row may fail or kill their worker at one step before a session is set aside."""
MOST = 10
"""How many may fail or lose their worker in a row, whatever the steps and whoever is to blame."""


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
Step = Callable[[str], Awaitable[int | None]]
"""Return a number that grows when a session takes a step; None if that cannot be known now."""


@dataclass(frozen=True, slots=True)
class Failures:
    """The attempts in a row that failed or lost their worker.

    Attributes:
        count: those at the step where the session is, each as far as the session is to blame.
        total: all of them.
        step: where the session was when its last attempt began; None if that is not known.
        error: why the last of them failed.
    """

    count: float = 0.0
    total: int = 0
    step: int | None = None
    error: str = ""

    def took_step(self, step: int | None) -> bool:
        """Whether the session was not at this step when its last attempt began."""
        return step is not None and self.step is not None and step != self.step

    def add(self, error: str, step: int | None, share: float = 1.0) -> Failures:
        """Return these with one more, of a session that is at a step now."""
        count = 0.0 if self.took_step(step) else self.count
        return replace(self, count=count + share, total=self.total + 1, error=error)

    @property
    def is_final(self) -> bool:
        """Whether the session is set aside."""
        return round(self.count, 3) >= ATTEMPTS or self.total >= MOST

    @property
    def pause(self) -> float:
        """Seconds until the next attempt."""
        return 1.0 if self.count <= 1 else 10.0

    def refusal(self, session_id: str) -> SessionSetAside:
        """Return the error of a session that is set aside."""
        return SessionSetAside(
            f"session {session_id} is set aside: {self.total} attempts in a row failed, the last one with: "
            f"{self.error}. Fix the cause, then type: deep workers --release {session_id}"
        )


def blame(lost: Mapping[str, tuple[Failures, int | None]]) -> dict[str, Failures]:
    """Count the death of a worker against its sessions: above all against those that took no step in this attempt.

    Args:
        lost: session -> its failures, and the step where it is now.
    """
    stuck = {session for session, (failures, step) in lost.items() if not failures.took_step(step)}
    return {
        session: failures.add("its worker died", step, 1 / len(stuck if session in stuck else lost))
        for session, (failures, step) in lost.items()
    }


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
    async def work(self, attempt: Attempt, step: Step, *, name: str, concurrency: int, stop: asyncio.Event) -> None:
        """Run attempts until `stop` is set and those that run have ended.

        Args:
            attempt: resumes one session.
            step: says how far a session is.
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
