"""What the model gave, as a message repeats it."""

from __future__ import annotations

__all__ = ["quoted"]

QUOTED = 200
"""Characters of a path or a pattern that a message repeats: whoever sent a longer one knows it."""


def quoted(text: str) -> str:
    """A path or a pattern, cut where it would bury the message."""
    return text if len(text) <= QUOTED else f"{text[:QUOTED]}..."
