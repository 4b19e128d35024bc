"""Record what a test can inspect: requests to the model, events of runs, and calls of hooks."""

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
"""The recorder's plugin in `kernel.plugins`."""


class RunEvents:
    """A plugin that records events of runs."""

    def __init__(self) -> None:
        self.received: list[RunEvent] = []

    @hookimpl
    def deep_run_event(self, event: RunEvent) -> None:
        """Record the event."""
        self.received.append(event)


class Recorder:
    """Events in the kernels and models of one test.

    Attributes:
        events: the events that plugins received, in order.
        hook_calls: every call of a hook of the plugins that the test named.
    """

    def __init__(self) -> None:
        self.listener = RunEvents()
        self.hook_calls: list[HookCall] = []
        self.kernels: list[Kernel] = []
        self.models: list[ScriptedModel] = []

    @property
    def events(self) -> list[RunEvent]:
        """The events that plugins received, in order."""
        return self.listener.received

    @property
    def requests(self) -> list[Request]:
        """The requests to the test's scripted models, model by model."""
        return [request for model in self.models for request in model.requests]

    @property
    def incidents(self) -> list[Incident]:
        """Errors of plugins at run time. A strict kernel raises them, and records none."""
        return [incident for kernel in self.kernels for incident in kernel.incidents]

    def calls_of(self, hook: str) -> list[Any]:
        """The results of one hook, in the order of the calls, without calls that raised."""
        return [call.result for call in self.hook_calls if call.hook == hook and call.error is None]
