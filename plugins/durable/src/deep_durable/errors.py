"""The errors of queues, with the codes that `docs/durability.md` lists."""

from __future__ import annotations

from deep_sessions import AgentError

__all__ = ["QueueError", "SessionSetAside"]


class QueueError(AgentError):
    """The queue's URL is wrong, its library is not installed, or its database cannot be reached."""

    code = "queue_error"
    category = "store"


class SessionSetAside(AgentError):
    """Too many attempts to resume the session failed, so no worker takes it any more."""

    code = "session_set_aside"
    category = "session"
