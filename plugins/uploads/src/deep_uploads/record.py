"""The record of an upload."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

__all__ = ["UploadedFile"]


@dataclass(frozen=True)
class UploadedFile:
    """The record of an upload, without its content.

    Attributes:
        name: the file's name in the workspace, made safe and unique.
        path: relative to the workspace's working directory, or absolute if outside of it.
        size: in bytes.
        line_count: of a text, as `read_file` counts lines; None if it is not text.
        mime_type: from the content if it identifies itself, else from the name.
        encoding: of a text, as a name of Python's codecs; None if it is not text. A guess unless it is
            UTF-8 or begins with a byte order mark.
        sha256: of the content, in hexadecimal.
        uploaded_at: when, in UTC.
        mismatch: the real format if the name contradicts it (`named .png, content is a PDF document`).
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
