"""The slots of a session's uploads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from deep_core import StateSlot

if TYPE_CHECKING:
    from .record import UploadedFile

__all__ = ["IN_FLIGHT", "UPLOADS", "InFlight"]


class InFlight:
    """A session's uploads in progress, which count against its limits.

    Attributes:
        files: their number.
        size: their bytes so far.
        lock: protects the counts and the slot; threads may share a session.
    """

    def __init__(self) -> None:
        self.files = 0
        self.size = 0
        self.lock = threading.Lock()


def _type() -> type[dict[str, UploadedFile]]:
    from .record import UploadedFile

    return dict[str, UploadedFile]


def _empty() -> dict[str, UploadedFile]:
    return {}


UPLOADS: StateSlot[dict[str, UploadedFile]] = StateSlot("uploads", _type, _empty, child="share")
"""The slot: path -> upload, in order of arrival. Subagents see their parent's."""

IN_FLIGHT: StateSlot[InFlight] = StateSlot("uploads_in_flight", InFlight, InFlight, child="share", persist=False)
"""Uploads in progress; none in a session that was just loaded."""
