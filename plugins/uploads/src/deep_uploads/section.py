"""List the uploads for the model: names and measures, nothing from inside the files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .slot import UPLOADS

if TYPE_CHECKING:
    from pydantic_ai import RunContext

    from .options import UploadsOptions
    from .record import UploadedFile

__all__ = ["FilesSection", "listing", "size_text"]

HEAD = "Files the user uploaded (names are the user's; read large ones in parts, or search them):"
TAIL_CHARS = 60
"""Room for the line about omitted uploads."""
FIELD_CHARS = 400
"""Maximum characters of a path: a name has at most 160 bytes, the directory is the application's."""


class FilesSection:
    """The live section `uploads.files`.

    Attributes:
        options: of its agent.
    """

    def __init__(self, options: UploadsOptions) -> None:
        self.options = options

    def __call__(self, ctx: RunContext[Any]) -> str | None:
        """The current list; None if it is empty."""
        return listing(ctx.deps.state[UPLOADS].copy().values(), self.options.section_chars)


def listing(uploads: Iterable[UploadedFile], limit: int) -> str | None:
    """Format one line per upload, in at most `limit` characters, in order of arrival; omit the earliest first."""
    lines = [_line(upload) for upload in uploads]
    if not lines:
        return None
    room = limit - len(HEAD) - 1 - TAIL_CHARS
    visible: list[str] = []
    for line in reversed(lines):
        if len(line) + 1 > room:
            break
        visible.append(line)
        room -= len(line) + 1
    left = len(lines) - len(visible)
    more = [f"and {left} uploaded earlier: list the directory"] if left else []
    return "\n".join([HEAD, *more, *reversed(visible)])


def _line(upload: UploadedFile) -> str:
    measures = [size_text(upload.size)]
    if upload.line_count is not None:
        measures.append("1 line" if upload.line_count == 1 else f"{upload.line_count:,} lines")
    measures.append(_one_line(upload.mime_type))
    if upload.encoding not in (None, "utf-8"):
        measures.append(_one_line(upload.encoding or ""))
    if upload.mismatch:
        measures.append(_one_line(upload.mismatch))
    return f"- {_one_line(upload.path)} ({', '.join(measures)})"


def _one_line(text: str) -> str:
    """Put a field on one line. The application may fill the slot too, so `upload_file` did not check it all."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= FIELD_CHARS else f"{line[: FIELD_CHARS - 1]}…"


def size_text(size: int) -> str:
    """Format a size: `512 B`, `1.5 KB`, `3.0 MB`, `2.0 GB`, by 1024, with one decimal."""
    amount = float(size)
    for unit in ("B", "KB", "MB"):
        if amount < 1024:
            return f"{size} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GB"
