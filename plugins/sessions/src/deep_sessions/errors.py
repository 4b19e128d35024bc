"""The errors of sessions. Each has a code that is documented in `docs/sessions.md`."""

from __future__ import annotations

from typing import ClassVar, Literal

__all__ = [
    "AgentClosed",
    "AgentError",
    "DecisionsPending",
    "LeaseLost",
    "MissingDependencyError",
    "NotPending",
    "NothingToResume",
    "SessionBusy",
    "SessionNotFound",
    "StoreError",
]

Category = Literal["usage", "session", "store", "model", "tool", "limit"]


class AgentError(Exception):
    """The base of all errors here.

    Attributes:
        code: a stable name of the error, such as `session_busy`.
        retryable: whether the same call can succeed later.
        category: who is concerned: the caller (`usage`), the session, the store, the model, a tool, or a limit.
        message: what is wrong, where, and what to do.
    """

    code: ClassVar[str] = "agent_error"
    retryable: ClassVar[bool] = False
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
