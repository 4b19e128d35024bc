"""Send the events of a run to the plugins that listen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .session import session

if TYPE_CHECKING:
    from pydantic_ai import RunContext

    from .events import RunEvent

EventName: TypeAlias = Literal[
    "RunStartEvent", "RunEndEvent", "RequestEvent", "ToolEvent", "ApprovalEvent", "CompactionEvent"
]


class Emitter:
    """Sends events to the plugins that listen.

    Args:
        send: sends one event; None if no plugin listens.

    Attributes:
        is_heard: whether any plugin listens.
    """

    def __init__(self, send: Callable[[RunEvent], Awaitable[None]] | None = None) -> None:
        self._send = send
        self.is_heard = send is not None

    async def __call__(self, event: EventName, ctx: RunContext[Any], **about: Any) -> None:
        """Send an event of this run."""
        if self._send is not None:
            from . import events  # seven dataclasses take 4 ms, and most agents have no listener

            deps = session(ctx)
            kind = getattr(events, event)
            await self._send(kind(run_id=ctx.run_id or "", session_id=deps.session_id, depth=deps.depth, **about))
