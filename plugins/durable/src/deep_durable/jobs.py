"""What a queue tells: how an attempt ended, the jobs, the workers, and the providers that are down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Again", "Done", "Failed", "Job", "Outage", "Patience", "Steps", "Verdict", "Waits", "WorkerInfo"]

Steps = Mapping[str, int | None]
"""Session -> a number that grows when it takes a step; None if that cannot be known now."""


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


@dataclass(frozen=True, slots=True)
class Waits:
    """The model's provider is down; the session is not to blame.

    Attributes:
        provider: which one.
        reason: what it said, in one line.
        seconds: how long it wants to be left alone.
    """

    provider: str
    reason: str
    seconds: float = 0.0


Verdict = Done | Again | Failed | Waits


@dataclass(frozen=True, slots=True)
class Patience:
    """How long sessions wait for a provider that is down.

    Attributes:
        first: seconds until the first probe. Each further pause is twice as long.
        most: seconds of the longest pause.
        total: seconds after which a session is set aside.
    """

    first: float = 10.0
    most: float = 600.0
    total: float = 86_400.0


@dataclass(frozen=True, slots=True)
class Job:
    """A session in the queue.

    Attributes:
        session_id: the session.
        state: `waiting`, `running`, or `set aside`.
        worker: who runs it; None for others than `running`.
        failures: how many attempts in a row failed, or killed their process alone.
        error: why the last of them failed, or what it waits for.
        suspect: whether it was in a worker that died, so that it runs alone.
        provider: the provider that it waits for; empty without one.
        next_try: seconds until its next attempt, or until the provider's next probe; None unless it waits for a time.
    """

    session_id: str
    state: Literal["waiting", "running", "set aside"]
    worker: str | None = None
    failures: int = 0
    error: str = ""
    suspect: bool = False
    provider: str = ""
    next_try: float | None = None


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


@dataclass(frozen=True, slots=True)
class Outage:
    """A provider that is down.

    Attributes:
        provider: which one.
        reason: what it said last, in one line.
        seconds: how long it has been down.
        next_try: seconds until one session finds out whether it is back.
    """

    provider: str
    reason: str
    seconds: float
    next_try: float
