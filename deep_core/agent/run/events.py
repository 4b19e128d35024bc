"""The events of a run, which plugins receive through `deep_run_event`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


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


@dataclass(frozen=True, kw_only=True)
class RetryEvent(RunEvent):
    """A request failed and is sent again: to `model` after `seconds`, or if they are 0 to the next model.

    `reason` is for people, `code` for programs. `replaces`: text of the failed answer was shown, and the next answer
    replaces it.
    """

    model: str
    reason: str
    code: str
    seconds: float
    attempt: int
    replaces: bool = False
