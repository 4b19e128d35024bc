"""What a session remembers: the last summary that failed, and the files that it stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from deep_core import StateSlot

if TYPE_CHECKING:
    from .stored_files import StoredFiles

__all__ = ["LAST_FAILURE", "STORED_FILES", "LastFailure"]


class LastFailure(NamedTuple):
    """The last summary that failed.

    Attributes:
        conversation: its conversation; None if there was none.
        messages: its number of messages.
        tokens: their tokens.
        reason: why it failed.
    """

    conversation: str | None = None
    messages: int = 0
    tokens: int = 0
    reason: str = ""


LAST_FAILURE: StateSlot[LastFailure] = StateSlot("summarization", LastFailure, LastFailure, persist=False)
"""Empty in a subagent, and not stored: another process may succeed."""


def _by_session() -> dict[str, StoredFiles]:
    return {}


STORED_FILES: StateSlot[dict[str, StoredFiles]] = StateSlot(
    "session_folder", dict[str, Any], _by_session, child="share", persist=False
)
"""Session id -> its stored files. Subagents share them; the files themselves are the record."""
