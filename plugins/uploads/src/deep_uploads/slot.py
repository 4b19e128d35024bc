"""Where a session's uploads are kept."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import datetime

from deep_core import StateSlot

__all__ = ["IN_FLIGHT", "UPLOADS", "InFlight", "UploadedFile"]


@dataclass(frozen=True)
class UploadedFile:
    """What is known of an upload. Nothing of its content is in here.

    Attributes:
        name: the file's name in the workspace, made safe and unique.
        path: where it is: relative to the workspace's working directory, or absolute where it lies outside of that.
        size: in bytes.
        line_count: of a text, as `read_file` counts lines; None for what is no text.
        mime_type: of the content as far as it tells itself, else by the name.
        encoding: of a text, as a name of Python's codecs; None for what is no text. A guess where it is neither
            UTF-8 nor begins with a byte order mark.
        sha256: of the content, in hexadecimal.
        uploaded_at: when, in UTC.
        mismatch: what the content is where the name says otherwise (`named .png, content is a PDF document`).
    """

    name: str
    path: str
    size: int
    line_count: int | None
    mime_type: str
    encoding: str | None
    sha256: str
    uploaded_at: datetime
    mismatch: str | None = None


@dataclass
class InFlight:
    """Uploads of one session that are on their way: they count against its limits as if they were there.

    Attributes:
        files: how many.
        size: bytes so far.
        lock: held while counts or the slot are compared and changed; threads may share a session.
    """

    files: int = 0
    size: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


UPLOADS: StateSlot[dict[str, UploadedFile]] = StateSlot(
    "uploads", dict[str, UploadedFile], dict[str, UploadedFile], child="share"
)
"""The slot: path -> upload, in the order of arrival. Subagents see their parent's."""

IN_FLIGHT: StateSlot[InFlight] = StateSlot("uploads_in_flight", InFlight, InFlight, child="share", persist=False)
"""What is on its way; nothing is, in a session that was just loaded."""
