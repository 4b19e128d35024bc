"""Text that every provider and database takes."""

from __future__ import annotations

import re

__all__ = ["MOST_CHARS", "NAME_CHARS", "clean", "clean_name"]

MOST_CHARS = 2_000_000
"""Of one result: more than the largest window. deep-summarization moves far smaller ones to files."""
NAME_CHARS = 64
_ODD = re.compile(r"[^A-Za-z0-9_-]+")


def clean(text: str) -> str:
    """Return a text with U+FFFD for each half of a surrogate pair and each NUL. The same object if it has none.

    A string that was cut inside an emoji cannot be written as UTF-8, so no request can carry it
    (anthropics/claude-code#69927). NUL is refused by PostgreSQL, and by servers that keep requests in it.
    """
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # joins halves that are a pair
    return text.replace("\0", "\ufffd") if "\0" in text else text


def clean_name(name: object, known: frozenset[str] = frozenset()) -> str:
    """Return the name of a tool that a model called, such that every provider takes it back in the history.

    Args:
        name: as the model wrote it.
        known: the tools that it was offered. A name that is none of them never becomes one.
    """
    text = name if isinstance(name, str) else ""
    if text in known:
        return text
    made = _ODD.sub("_", text)
    made = (made if made == text else made.strip("_"))[:NAME_CHARS] or "unknown"
    if made[0] in "-0123456789":  # Gemini: a letter or an underscore first
        made = f"_{made}"[:NAME_CHARS]
    return f"{made[: NAME_CHARS - 8]}_unknown" if made in known else made
