"""The session's record of a failed summary, so that the next request does not retry at once."""

from __future__ import annotations

from typing import NamedTuple

from deep_core import StateSlot

__all__ = ["LAST_FAILURE", "LastFailure"]


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
