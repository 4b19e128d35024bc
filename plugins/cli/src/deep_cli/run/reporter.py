"""Receive the progress of a task. The base class ignores it; override what you need."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from deep_core import RunEvent

    from .changes import FileChange
    from .progress import Spent
    from .report import Decision, RunReport, Step

__all__ = ["Reporter"]


class Reporter:
    """The progress of a `run_task`.

    Attributes:
        streams: whether it wants the model's text piece by piece. If not, requests are not streamed.
    """

    streams: bool = False

    def begin(self, task: str, model: str, backend: str, folder: Path) -> None:
        """The task is being sent."""

    def event(self, event: RunEvent) -> None:
        """Something happened in the run (`deep_core.agent.run.events`)."""

    def spent(self, spent: Spent) -> None:
        """A model has answered: tokens and cost so far."""

    def text(self, piece: str) -> None:
        """A piece of the model's text, if it `streams`."""

    def thinking(self, piece: str) -> None:
        """A piece of the model's thinking, if it `streams`."""

    def started(self, step: Step) -> None:
        """A tool call starts."""

    def waits(self, step: Step) -> None:
        """A tool call that started waits for approval; it starts again once it is approved."""

    def ended(self, step: Step) -> None:
        """A tool call has ended."""

    def decided(self, decision: Decision) -> None:
        """A call that needs approval was approved or denied."""

    def note(self, text: str) -> None:
        """A one-line note for the user."""

    def interrupted(self, files: tuple[FileChange, ...], session: str | None) -> None:
        """Ctrl-C ended the task.

        Args:
            files: the files that it changed.
            session: the stored conversation; None without one.
        """

    def end(self, report: RunReport) -> None:
        """The task ended, done or failed."""
