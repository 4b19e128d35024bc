"""Receive the progress of a task. The base class ignores it; override what you need."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from deep_core import RunEvent

    from .report import Decision, RunReport

__all__ = ["Reporter"]


class Reporter:
    """The progress of a `run_task`."""

    def begin(self, task: str, model: str, backend: str, folder: Path) -> None:
        """The task is being sent."""

    def event(self, event: RunEvent) -> None:
        """Something happened in the run (`deep_core.agent.run.events`)."""

    def decided(self, decision: Decision) -> None:
        """A call that needs approval was approved or denied."""

    def note(self, text: str) -> None:
        """A one-line note for the user."""

    def end(self, report: RunReport) -> None:
        """The task ended, done or failed."""
