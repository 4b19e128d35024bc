"""What a test can look back on: requests to the model, events of runs, and calls of hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_core import hookimpl

if TYPE_CHECKING:
    from deep_core import Kernel, RunEvent
    from deep_core.plugin_api import Incident

    from .script import Request, ScriptedModel
    from .shell import HookCall

__all__ = ["EVENTS_PLUGIN", "Recorder", "RunEvents"]

EVENTS_PLUGIN = "run_events"
"""The plugin that listens for the recorder, as it stands in `kernel.plugins`."""


class RunEvents:
    """A plugin that keeps what it hears of runs."""

    def __init__(self) -> None:
        self.heard: list[RunEvent] = []

    @hookimpl
    def deep_run_event(self, event: RunEvent) -> None:
        """Keep it."""
        self.heard.append(event)


class Recorder:
    """What happened in the kernels and models that one test made.

    Attributes:
        events: what plugins were told of runs, in order.
        hook_calls: every call of a hook of the plugins that the test named.
    """

    def __init__(self) -> None:
        self.listener = RunEvents()
        self.hook_calls: list[HookCall] = []
        self.kernels: list[Kernel] = []
        self.models: list[ScriptedModel] = []

    @property
    def events(self) -> list[RunEvent]:
        """What plugins were told of runs, in order."""
        return self.listener.heard

    @property
    def requests(self) -> list[Request]:
        """What the test's scripted models were asked, model by model."""
        return [request for model in self.models for request in model.requests]

    @property
    def incidents(self) -> list[Incident]:
        """What plugins did wrong at run time. A strict kernel raises it, and records nothing."""
        return [incident for kernel in self.kernels for incident in kernel.incidents]

    def calls_of(self, hook: str) -> list[Any]:
        """The results of one hook, in the order of the calls; a call that raised is left out."""
        return [call.result for call in self.hook_calls if call.hook == hook and call.error is None]
