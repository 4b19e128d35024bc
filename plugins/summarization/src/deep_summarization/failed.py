"""The error of a failed summary."""

from __future__ import annotations

__all__ = ["SummaryFailed"]


class SummaryFailed(Exception):
    """There is no summary, so the history is unchanged. The message says why."""
