"""Quote input of the model in messages."""

from __future__ import annotations

__all__ = ["quoted"]

QUOTED = 200
"""Maximum characters of a path or a pattern in a message."""


def quoted(text: str) -> str:
    """Truncate a path or a pattern for a message."""
    return text if len(text) <= QUOTED else f"{text[:QUOTED]}..."
