"""The errors of sessions. Each has a code that is documented in `docs/sessions-resume.md`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from .requests.ends import End

__all__ = [
    "AgentClosed",
    "AgentError",
    "DecisionsPending",
    "InternalError",
    "LeaseLost",
    "LimitExceeded",
    "MessageRefused",
    "MissingDependencyError",
    "ModelError",
    "NotCompacted",
    "NotPending",
    "NothingToResume",
    "RunAborted",
    "RunTimedOut",
    "RuntimePermissionDenied",
    "RuntimeUnavailable",
    "SessionBusy",
    "SessionNotFound",
    "StoreError",
    "ToolNotFound",
    "UsageError",
    "as_agent_error",
]

Category = Literal["usage", "session", "store", "model", "tool", "limit"]


class AgentError(Exception):
    """The base of all errors here.

    Attributes:
        code: a stable name of the error, such as `session_busy`.
        retryable: whether the same call can succeed later.
        retry_after: seconds until it can, where a provider says so; else None.
        category: who is concerned: the caller (`usage`), the session, the store, the model, a tool, or a limit.
        message: what is wrong, where, and what to do.
    """

    code: ClassVar[str] = "agent_error"
    retryable: ClassVar[bool] = False
    retry_after: float | None = None
    category: ClassVar[Category] = "usage"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    @property
    def cause(self) -> BaseException | None:
        """The exception that caused this one."""
        return self.__cause__


class SessionNotFound(AgentError):
    """No session has this id, or it belongs to another owner."""

    code = "session_not_found"
    category = "session"


class SessionBusy(AgentError):
    """Another runner holds the session.

    Attributes:
        holder: who holds it: `host:process`.
        seconds: when its lease ends unless it renews it.
    """

    code = "session_busy"
    category = "session"
    retryable = True

    def __init__(self, message: str, *, holder: str = "", seconds: float = 0.0) -> None:
        super().__init__(message)
        self.holder, self.seconds = holder, seconds


class LeaseLost(AgentError):
    """The lease ended and another runner took the session: this one can no longer write to it."""

    code = "lease_lost"
    category = "session"


class NothingToResume(AgentError):
    """The session's last run has ended, and no message or decision waits."""

    code = "nothing_to_resume"
    category = "session"


class NotCompacted(AgentError):
    """The conversation was not made shorter; the message says why. It is as it was."""

    code = "not_compacted"
    category = "session"


class DecisionsPending(AgentError):
    """Calls of the session wait for decisions: a new message must not pass them by."""

    code = "decisions_pending"
    category = "session"


class NotPending(AgentError):
    """The decision is about a call that does not wait: it was decided before, or nobody asked."""

    code = "not_pending"
    category = "session"


class StoreError(AgentError):
    """The store cannot read or write: it is full, read-only, damaged, or gone. Nothing was half written."""

    code = "store_error"
    category = "store"
    retryable = True


class MissingDependencyError(AgentError):
    """`DeepAgent.create` lacks services; the message names all of them."""

    code = "missing_dependency"


class AgentClosed(AgentError):
    """The agent was closed."""

    code = "agent_closed"


class ToolNotFound(AgentError):
    """A run names a tool that the agent does not have."""

    code = "tool_not_found"


class RuntimeUnavailable(AgentError):
    """A tool needs a workspace, and the agent has none."""

    code = "runtime_unavailable"


class RuntimePermissionDenied(AgentError):
    """The workspace, or the system below it, does not allow what a tool did."""

    code = "runtime_permission_denied"
    category = "tool"


class UsageError(AgentError):
    """The application calls the agent in a way that cannot work."""

    code = "usage_error"


class MessageRefused(UsageError):
    """A plugin refused the message before a model got it. It does not stay in the conversation."""

    code = "message_refused"


class ModelError(AgentError):
    """The model's provider refused or failed, or the model's answer cannot be used.

    Attributes:
        end: how the request ended, which says `code`, `retryable` and `retry_after`; None if no request failed.
    """

    code = "model_error"
    category = "model"

    def __init__(self, message: str, *, retryable: bool = False, end: End | None = None) -> None:
        super().__init__(message)
        self.end = end
        self.retryable = retryable  # type: ignore[misc]
        if end is not None:
            self.code = end.code  # type: ignore[misc]
            self.retryable = end.retryable  # type: ignore[misc]
            self.retry_after = end.retry_after


class LimitExceeded(AgentError):
    """A limit of the run, the session or the owner is reached."""

    code = "limit_exceeded"
    category = "limit"


class RunTimedOut(AgentError):
    """The run did not end in its time."""

    code = "run_timed_out"
    category = "limit"


class RunAborted(AgentError):
    """The run was aborted."""

    code = "run_aborted"
    category = "session"


class InternalError(AgentError):
    """An exception that no other code names: of the application's own tool, or a defect."""

    code = "internal_error"
    category = "tool"


def as_agent_error(error: BaseException) -> AgentError:
    """Return what ended a run as an error with a code; the exception is its cause."""
    from pydantic_ai import exceptions

    from deep_core import PluginError
    from deep_core.plugin_api import describe_error

    from .requests.ends import end_of_error, words_of_error

    if isinstance(error, AgentError):
        return error
    text = describe_error(error)
    found: AgentError
    if isinstance(error, exceptions.RunTimedOut):
        found = RunTimedOut(text)
    elif isinstance(error, exceptions.RunCancelled):
        found = RunAborted("the run was aborted")
    elif isinstance(error, exceptions.UsageLimitExceeded):
        found = LimitExceeded(text)
    elif (end := end_of_error(error)) is not None:
        found = ModelError(words_of_error(error, end) or text, end=end)
    elif isinstance(error, exceptions.UnexpectedModelBehavior):
        found = ModelError(text)
    elif isinstance(error, exceptions.UserError | PluginError):
        found = MessageRefused(text) if getattr(error, "refuses_message", False) else UsageError(text)
    elif isinstance(error, PermissionError):
        found = RuntimePermissionDenied(text)
    else:
        found = InternalError(text)
    found.__cause__ = error
    return found
