"""The slot through which a run, its tools and its subagents reach the journal of their session."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from deep_core import StateSlot

if TYPE_CHECKING:
    from .journal import Journal

__all__ = ["CALL", "JOURNAL"]


def _none() -> Any:
    return None


JOURNAL: StateSlot[Journal | None] = StateSlot("session_journal", object, _none, persist=False, child="share")  # type: ignore[arg-type]
"""The journal of the run under way; None where nothing is stored."""
CALL: ContextVar[str] = ContextVar("deep_sessions_call", default="")
"""The key of the call that runs in this task; "" in none. It reaches subagents, and tools in threads."""
