"""What is known of a file that a user handed over."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

__all__ = ["UploadedFile"]


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
