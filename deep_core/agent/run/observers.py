"""Who hears the events of a run: plugins that observe it, and can never break it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict

from .session import session

if TYPE_CHECKING:
    from ...plugins.dispatch import Caller
    from ..context import AgentContext
    from .events import RunEvent
    from .session import Ctx


class Where(TypedDict):
    """The run of an event: the fields of `RunEvent`."""

    run_id: str
    session_id: str
    depth: int


def where(ctx: Ctx) -> Where:
    """Return what every event says of its run."""
    deps = session(ctx)
    return {"run_id": ctx.run_id or "", "session_id": deps.session_id, "depth": deps.depth}


@dataclass(eq=False, repr=False)
class Observers:
    """The plugins that listen to the runs of one agent.

    Attributes:
        caller: calls their hooks, inside containment.
        contexts: what each plugin's hook receives.
        listeners: their names, first to last. Ask for one before making an event: its module takes 4 ms to import.
    """

    caller: Caller | None = None
    contexts: Mapping[str, AgentContext] = field(default_factory=dict[str, "AgentContext"])
    listeners: tuple[str, ...] = ()

    async def send(self, event: RunEvent) -> None:
        """Send an event to all listeners, one after another."""
        if self.caller is not None and self.listeners:
            await self.caller.notify(
                "deep_run_event", lambda p: {"event": event, "context": self.contexts[p]}, among=self.listeners
            )
