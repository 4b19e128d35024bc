"""The slot of a session: what was parsed, by content."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from deep_core import StateSlot

if TYPE_CHECKING:
    from .parsing import Parsed

__all__ = ["MEMORY", "Memory"]


class Memory:
    """What was parsed, the least recently used first."""

    def __init__(self) -> None:
        self._parsed: dict[Hashable, Parsed] = {}

    def get(self, key: Hashable) -> Parsed | None:
        """Return what was parsed of this content."""
        parsed = self._parsed.pop(key, None)
        if parsed is not None:
            self._parsed[key] = parsed
        return parsed

    def put(self, key: Hashable, parsed: Parsed) -> None:
        """Remember it."""
        self._parsed[key] = parsed

    def trim(self, most: int) -> None:
        """Forget all but the last."""
        for key in [*self._parsed][: max(0, len(self._parsed) - most)]:
            self._parsed.pop(key, None)


MEMORY: StateSlot[Memory] = StateSlot("repo_map", Memory, Memory, child="share", persist=False)
