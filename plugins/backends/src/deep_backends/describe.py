"""What the prompt says of a backend: the mounts of a composite, the runtime of a container."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

__all__ = ["SupportsDescribe", "describe"]


@runtime_checkable
class SupportsDescribe(Protocol):
    """Knows something of itself that the model cannot see otherwise."""

    def describe(self) -> str | None:
        """Return some sentences for the prompt; None for nothing. No I/O."""
        ...


def describe(backend: object) -> str | None:
    """Return what a backend says of itself, on one line; None for nothing."""
    text = backend.describe() if isinstance(backend, SupportsDescribe) else None
    return " ".join("".join(char if char.isprintable() else " " for char in text).split()) if text else None
