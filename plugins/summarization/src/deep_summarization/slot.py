"""Where a session remembers that a summary failed, so that the next request does not try again at once."""

from __future__ import annotations

from typing import NamedTuple

from deep_core import StateSlot

__all__ = ["LAST_FAILURE", "LastFailure"]


class LastFailure(NamedTuple):
    """The last summary that failed.

    Attributes:
        conversation: in which conversation; None where there was none.
        messages: how many messages it had.
        tokens: how many tokens they had.
        reason: why it failed.
    """

    conversation: str | None = None
    messages: int = 0
    tokens: int = 0
    reason: str = ""


LAST_FAILURE: StateSlot[LastFailure] = StateSlot("summarization", LastFailure, LastFailure, persist=False)
"""Fresh in a subagent, and not stored: another process may well succeed."""
