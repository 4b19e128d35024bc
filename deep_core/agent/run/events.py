"""The events of a run, which plugins receive through `deep_run_event`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .session import session

if TYPE_CHECKING:
    from pydantic_ai.tools import RunContext


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
    """A run has started."""


@dataclass(frozen=True, kw_only=True)
class RunEndEvent(RunEvent):
    """A run has ended. `error` is the exception that ended it, as text; None if it succeeded."""

    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class RequestEvent(RunEvent):
    """A model has answered. The provider counted the tokens."""

    model: str
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, kw_only=True)
class ToolEvent(RunEvent):
    """A tool call is about to run (`started`) or has ended.

    `outcome`: `started`, `success`, `failed` (an error result), `retried` (the model must try again). A cancelled call
    has no end event; the run has one. A call that waits for approval starts again afterwards.
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
    """A call waits for approval (`asked`), was approved by a person (`approved`), or was denied (`denied`).

    `plugin` is empty if a person denied the call of a tool that only a connected server lists (MCP).
    """

    tool: str
    plugin: str
    call_id: str
    decision: Literal["asked", "approved", "denied"]
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class CompactionEvent(RunEvent):
    """A reducing processor replaced part of the history; if it failed, `error` says why and nothing has changed."""

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
        """Send an event of this kind for this run."""
        if self._send is not None:
            deps = session(ctx)
            await self._send(kind(run_id=ctx.run_id or "", session_id=deps.session_id, depth=deps.depth, **about))
