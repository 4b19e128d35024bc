"""What a run returns, and what a streamed run yields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic_ai import DeferredToolRequests
from pydantic_ai.usage import RunUsage

from .errors import AgentError

__all__ = ["AgentState", "Delta", "Message", "RunResult", "RunStatus", "Status", "ToolSummary"]

RunStatus = Literal["completed", "awaiting_human", "failed", "aborted"]
Status = Literal[
    "idle", "preparing", "model_running", "tool_running", "awaiting_human", "completed", "failed", "aborted"
]


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """How a run ended.

    Attributes:
        session_id: the session.
        run_id: the run.
        status: `awaiting_human`: calls wait for decisions, see `requests`.
        message: the final text; None without one.
        error: what ended a run that failed or was aborted.
        usage: of all attempts of the run, subagents included.
        output: what the agent returns: text, or the output type's value. None unless this call completed the run.
        requests: the calls that wait.
    """

    session_id: str
    run_id: str
    status: RunStatus
    message: str | None = None
    error: AgentError | None = None
    usage: RunUsage = field(default_factory=RunUsage)
    output: Any = None
    requests: DeferredToolRequests | None = None


@dataclass(frozen=True)
class Delta:
    """A piece of the model's text. The deltas of a turn, joined, are its message."""

    text: str


@dataclass(frozen=True)
class Message:
    """A finished turn of the model. A client shows it, or the deltas before it."""

    text: str


@dataclass(frozen=True)
class ToolSummary:
    """A tool of the agent, as the model is offered it.

    Attributes:
        name: the name that the model calls it by.
        description: what the model reads.
        tags: its tags.
        plugin: its plugin; `app` for the application's own.
        approval: `always`, `never`, `depends` (on the arguments) or `denied`.
    """

    name: str
    description: str
    tags: tuple[str, ...]
    plugin: str
    approval: str


@dataclass(frozen=True)
class AgentState:
    """What the agent does now: a copy.

    Attributes:
        status: of the run that began last; `idle` before the first.
        runs: run id -> status of the runs under way.
    """

    status: Status = "idle"
    runs: dict[str, Status] = field(default_factory=dict[str, Status])
