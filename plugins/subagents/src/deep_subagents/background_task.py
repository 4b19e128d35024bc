"""A background task, as stored in a session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .paused_child import PausedChild

__all__ = ["BackgroundTask"]


@dataclass
class BackgroundTask:
    """One background task, as stored in a session.

    Attributes:
        subagent_type: its type.
        description: its task.
        status: `waiting`: for a person; `stopped`: its run ended, or it was canceled. One that is `running` without an
            `asyncio.Task` is lost: its process ended.
        report: what it reported, or why it failed.
        paused: the subagent that waits.
        asked: the id of the `task_status` call that asks the person.
        is_told: whether the caller's model has the report.
    """

    subagent_type: str
    description: str
    status: Literal["running", "waiting", "done", "failed", "stopped"] = "running"
    report: str = ""
    paused: PausedChild | None = None
    asked: str | None = None
    is_told: bool = False
