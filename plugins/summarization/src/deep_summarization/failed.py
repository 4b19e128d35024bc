"""What ends an attempt to summarise."""

from __future__ import annotations

__all__ = ["SummaryFailed"]


class SummaryFailed(Exception):
    """No summary could be had, so the history stays as it was. The message says why."""
