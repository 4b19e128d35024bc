"""Bound what a server answers, and make files of it such as a model takes."""

from __future__ import annotations

from typing import Any

from pydantic_ai.messages import BinaryContent

from .contents import Parts

__all__ = ["bound_result", "read_files"]

MEDIA_BYTES = 5_000_000
DOCUMENT_BYTES = 32 * 1024 * 1024
"""Larger files are not read."""


async def read_files(parts: Parts, chars: int) -> Parts:
    """Replace documents by at most `chars` characters of their text, and check pictures, as `read_file` does.

    Without deep-filesystem and its extra `documents`, pictures stay, and of a document there is what to install.
    """
    return [part if isinstance(part, str) else await _read_file(part, chars) for part in parts]


async def _read_file(file: BinaryContent, chars: int) -> str | BinaryContent:
    if len(file.data) > DOCUMENT_BYTES:
        return file
    try:
        from deep_filesystem import DocumentError, DocumentLimits, document_kind, read_document
    except ImportError:
        return file
    if document_kind(file.data) is None:
        return file
    try:
        document = await read_document(file.data, DocumentLimits(chars=chars))
    except DocumentError as error:
        return file if error.missing and file.is_image else f"[left out: this file {error}]"
    if document.picture is not None:
        return BinaryContent(document.picture, media_type=document.media_type)
    rest = ["[the rest is left out]"] if document.note else []
    return "\n".join([f"[{document.what}]", document.text, *rest])


def bound_result(parts: Parts, chars: int) -> Any:
    """Return a result of at most `chars` characters of text, and of media of at most 5 MB each.

    Args:
        parts: of the result.
        chars: of all its text.

    Returns:
        The text, if it is only that; else the parts.
    """
    if not parts:
        return "(the tool returned nothing)"
    if all(isinstance(part, str) for part in parts):
        return _bound_text("\n".join(str(part) for part in parts), chars)
    out: Parts = []
    for part in parts:
        if isinstance(part, BinaryContent):
            out.append(_bound_media(part))
            continue
        out.append(_bound_text(part, chars))
        chars = max(0, chars - len(part))
    return out[0] if len(out) == 1 else out


def _bound_text(text: str, chars: int) -> str:
    if len(text) <= chars:
        return text
    return f"{text[:chars]}\n[truncated: {len(text):,} characters, of which {chars:,} are shown; ask for less]"


def _bound_media(content: BinaryContent) -> BinaryContent | str:
    size = len(content.data)
    if size <= MEDIA_BYTES:
        return content
    return f"[left out: {content.media_type} of {size:,} bytes, more than {MEDIA_BYTES:,}]"
