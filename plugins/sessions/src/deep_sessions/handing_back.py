"""Runs that a queue tries again: where the provider refuses for a reason that passes, they do not fail."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from .errors import ModelError, as_agent_error
from .requests.patience import patience

__all__ = ["hand_back", "refusal_to_hand_back"]

_HANDS_BACK: ContextVar[bool] = ContextVar("deep_sessions_hands_back", default=False)


@contextmanager
def hand_back() -> Generator[None]:
    """Leave runs of this block unfinished if their provider refuses for a reason that passes.

    Such a run raises a `ModelError` that is `retryable`, at once. A later `resume` makes a new attempt of it.
    """
    token = _HANDS_BACK.set(True)
    try:
        with patience(0):
            yield
    finally:
        _HANDS_BACK.reset(token)


def refusal_to_hand_back(error: BaseException) -> ModelError | None:
    """Return what a run raises instead of failing; None if it fails."""
    if not _HANDS_BACK.get():
        return None
    known = as_agent_error(error)
    return known if isinstance(known, ModelError) and known.retryable else None
