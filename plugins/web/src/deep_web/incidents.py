"""Errors: the client gets an id, the log has the cause.

An exception may quote a password, an address or a folder of this machine, so its text stays here. The id of what failed
in a run follows from the run or the call: a page that is opened later shows the same one.
"""

from __future__ import annotations

import hashlib
import logging
import secrets

from deep_sessions import NoopObserver, RunResult

from deep_core import AgentContext, RunEvent, ToolEvent, hookimpl

__all__ = ["Incidents", "incident_text", "record"]

logger = logging.getLogger(__name__)


def record(what: str, cause: BaseException | str, key: str = "") -> str:
    """Log what failed, with its cause; return the text for the client."""
    key = key or secrets.token_hex(8)
    error = cause if isinstance(cause, BaseException) else None
    logger.error("incident %s: %s%s", _id(key), what, "" if error else f": {cause}", exc_info=error)
    return incident_text(key)


def incident_text(key: str) -> str:
    """Return the text for the client, for what was recorded under this key."""
    return f"The server's log has the cause: incident {_id(key)}."


def _id(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:8]


class Incidents(NoopObserver):
    """Records runs and calls that fail: an observer of the agent, and a plugin of its kernel."""

    def run_ended(self, result: RunResult) -> None:
        """Record a run that failed."""
        if result.status == "failed" and result.error is not None:
            record(f"session {result.session_id}: the run failed", result.error, result.run_id)

    @hookimpl
    def deep_run_event(self, event: RunEvent, context: AgentContext) -> None:
        """Record a call that failed."""
        if (
            isinstance(event, ToolEvent)
            and event.outcome == "failed"
            and not (event.error or "").startswith("Denied: ")
        ):
            what = f"session {event.session_id}: the call {event.call_id} of {event.tool} failed"
            record(what, event.error or "", f"{event.session_id} {event.call_id}")
