"""What a run returns, and what a streamed run yields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic_ai.usage import RunUsage

from .decisions import WaitingCalls
from .errors import AgentError
from .requests.ends import EndKind

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
        finish_reason: how its last request ended: `stop`; `length` or `filtered` of an answer that is not whole; for
            a run that failed at its model `transient`, `incomplete`, `overflow` or `permanent`. None if it did not
            end with a request.
    """

    session_id: str
    run_id: str
    status: RunStatus
    message: str | None = None
    error: AgentError | None = None
    usage: RunUsage = field(default_factory=RunUsage)
    output: Any = None
    requests: WaitingCalls | None = None
    finish_reason: EndKind | None = None

    @property
    def code(self) -> str:
        """The stable name of the error; "" without one."""
        return "" if self.error is None else self.error.code

    @property
    def retryable(self) -> bool:
        """Whether the run can succeed if it is tried again."""
        return self.error is not None and self.error.retryable

    @property
    def retry_after(self) -> float | None:
        """Seconds after which the provider asks to try again; None if it does not say."""
        return None if self.error is None else self.error.retry_after


@dataclass(frozen=True)
class Delta:
    """A piece of the model's text. The deltas of a turn, joined, are its message.

    Attributes:
        text: the piece.
        again: whether the request was sent again, after a part of its answer was shown: the message begins here.
    """

    text: str
    again: bool = False


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
