"""The slot of a session: the index as the present run shows it."""

from __future__ import annotations

from dataclasses import dataclass

from deep_core import StateSlot

__all__ = ["INDEX", "ShownIndex"]


@dataclass(eq=False, repr=False)
class ShownIndex:
    """The index of one run.

    Attributes:
        run_id: of the run.
        text: None if there is nothing to show.
    """

    run_id: str | None = None
    text: str | None = None


INDEX: StateSlot[ShownIndex] = StateSlot("memory_index", ShownIndex, ShownIndex, persist=False)
