"""What the web tools report to the model."""

from __future__ import annotations

__all__ = ["WebError"]


class WebError(Exception):
    """A page cannot be read, or a search failed. The message says why, and what to do next."""
