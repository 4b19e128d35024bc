"""The error of a memory."""

from __future__ import annotations

__all__ = ["MemoryRefused"]


class MemoryRefused(ValueError):
    """The memory does not do what the model asked; the message says why, and what to do instead."""
