"""What passed the door last, by session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deep_core import StateSlot

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

__all__ = ["PASSED", "Passed"]


@dataclass(eq=False, repr=False)
class Passed:
    """The messages that passed the door last: they are not looked at again.

    Attributes:
        stored: as the conversation has them.
        sent: as the request has them.
        has_files: whether one of them may hold a file.
        refused: the files that a model refused, by their identifiers: it is not sent them again.
    """

    stored: Sequence[ModelMessage] = ()
    sent: Sequence[ModelMessage] = ()
    has_files: bool = False
    refused: set[str] = field(default_factory=set[str])


PASSED: StateSlot[Passed] = StateSlot("door_passed", Passed, Passed, persist=False)
"""Not persisted: what was stored by an older version, or by hand, is looked at when it is loaded."""
