"""Advice of the kernel's as a person types it in this environment."""

from __future__ import annotations

__all__ = ["typeable"]


def typeable(text: str) -> str:
    """The text with the commands of this environment's installer for those of `pip` in it."""
    if "pip " not in text:
        return text
    from .installer import mended  # only where something is wrong

    return mended(text)
