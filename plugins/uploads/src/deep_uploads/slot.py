"""Where a session's uploads are kept."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from deep_core import StateSlot

if TYPE_CHECKING:
    from .uploaded import UploadedFile

__all__ = ["IN_FLIGHT", "UPLOADS", "InFlight"]


class InFlight:
    """Uploads of one session that are on their way: they count against its limits as if they were there.

    Attributes:
        files: how many.
        size: bytes so far.
        lock: held while counts or the slot are compared and changed; threads may share a session.
    """

    def __init__(self) -> None:
        self.files = 0
        self.size = 0
        self.lock = threading.Lock()


def _type() -> type[dict[str, UploadedFile]]:
    from .uploaded import UploadedFile

    return dict[str, UploadedFile]


def _empty() -> dict[str, UploadedFile]:
    return {}


UPLOADS: StateSlot[dict[str, UploadedFile]] = StateSlot("uploads", _type, _empty, child="share")
"""The slot: path -> upload, in the order of arrival. Subagents see their parent's."""

IN_FLIGHT: StateSlot[InFlight] = StateSlot("uploads_in_flight", InFlight, InFlight, child="share", persist=False)
"""What is on its way; nothing is, in a session that was just loaded."""
