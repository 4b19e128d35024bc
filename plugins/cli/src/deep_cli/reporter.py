"""Who is told while a task runs. The base says nothing; override what should be heard."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from deep_core import RunEvent

    from .report import Decision, RunReport

__all__ = ["Reporter"]


class Reporter:
    """Hears what happens in a `run_task`."""

    def begin(self, task: str, model: str, backend: str, folder: Path) -> None:
        """The task is about to be sent."""

    def event(self, event: RunEvent) -> None:
        """Something happened in the run (`deep_core.agent.run.events`)."""

    def decided(self, decision: Decision) -> None:
        """A call that needs approval was approved or denied."""

    def note(self, text: str) -> None:
        """Something the user should know, in one line."""

    def end(self, report: RunReport) -> None:
        """The task is over, well or not."""
