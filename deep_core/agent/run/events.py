"""What happens in a run, as plugins hear it through `deep_run_event`. Frozen, typed, and few."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .session import session

if TYPE_CHECKING:
    from pydantic_ai.tools import RunContext

__all__ = [
    "ApprovalEvent",
    "CompactionEvent",
    "Emitter",
    "RequestEvent",
    "RunEndEvent",
    "RunEvent",
    "RunStartEvent",
    "ToolEvent",
]


@dataclass(frozen=True, kw_only=True)
class RunEvent:
    """The base of all events.

    Attributes:
        run_id: the run's id.
        session_id: the session's id.
        depth: 0 in the agent, 1 in a subagent, and so on.
    """

    run_id: str
    session_id: str
    depth: int = 0


@dataclass(frozen=True, kw_only=True)
class RunStartEvent(RunEvent):
    """A run has begun."""


@dataclass(frozen=True, kw_only=True)
class RunEndEvent(RunEvent):
    """A run is over. `error` is the exception that ended it, as text, or None."""

    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class RequestEvent(RunEvent):
    """A model has answered. Tokens as the provider counted them."""

    model: str
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, kw_only=True)
class ToolEvent(RunEvent):
    """A tool call is about to run (`started`) or has ended.

    `outcome`: `started`, `success`, `failed` (an error result), `retried` (the model was asked to try again). A call
    that is cancelled has no end of its own, the run's end tells; one that comes to wait for a person starts again.
    """

    tool: str
    plugin: str
    call_id: str
    args: Mapping[str, Any]
    outcome: Literal["started", "success", "failed", "retried"]
    milliseconds: float = 0.0
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class ApprovalEvent(RunEvent):
    """A call waits for a person (`asked`), was let through by one (`approved`), or was refused (`denied`).

    `plugin` is empty where a person denied the call of a tool that is only known once it is listed (an MCP server's).
    """

    tool: str
    plugin: str
    call_id: str
    decision: Literal["asked", "approved", "denied"]
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class CompactionEvent(RunEvent):
    """A reducing processor replaced part of the history, or failed to: then `error` says why, and all is as it was."""

    plugin: str
    processor: str
    messages_before: int
    messages_after: int
    error: str | None = None


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

    async def __call__(self, kind: type[RunEvent], ctx: RunContext[Any], **about: Any) -> None:
        """Send an event of this kind about this run."""
        if self._send is not None:
            deps = session(ctx)
            await self._send(kind(run_id=ctx.run_id or "", session_id=deps.session_id, depth=deps.depth, **about))
