"""Bound what a server answers, and make files of it such as a model takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from pydantic_ai.messages import BinaryContent
from pydantic_core import to_json

__all__ = ["bound_result", "read_files"]

MEDIA_BYTES = 5_000_000
DOCUMENT_BYTES = 32 * 1024 * 1024
"""Larger files are not read."""


async def read_files(result: Any, chars: int) -> Any:
    """Replace documents by at most `chars` characters of their text, and check pictures, as `read_file` does.

    Without deep-filesystem and its extra `documents`, pictures stay, and of a document there is what to install.
    """
    if isinstance(result, list):
        return [await read_files(part, chars) for part in cast("list[Any]", result)]
    if not isinstance(result, BinaryContent) or len(result.data) > DOCUMENT_BYTES:
        return result
    try:
        from deep_filesystem import DocumentError, DocumentLimits, document_kind, read_document
    except ImportError:
        return result
    if document_kind(result.data) is None:
        return result
    try:
        document = await read_document(result.data, DocumentLimits(chars=chars))
    except DocumentError as error:
        return result if error.missing and result.is_image else f"[left out: this file {error}]"
    if document.picture is not None:
        return BinaryContent(document.picture, media_type=document.media_type)
    rest = ["[the rest is left out]"] if document.note else []
    return "\n".join([f"[{document.what}]", document.text, *rest])


def bound_result(result: Any, chars: int) -> Any:
    """Return a result of at most `chars` characters of text, and of media of at most 5 MB each.

    What fits is returned unchanged. A larger one becomes text that says what is missing.
    """
    if isinstance(result, BinaryContent):
        return _bound_media(result)
    if isinstance(result, str):
        return _bound_text(result, chars)
    if isinstance(result, list):
        parts = cast("list[Any]", result)
        if any(isinstance(part, BinaryContent) for part in parts):
            return _bound_parts(parts, chars)
        result = parts
    text = to_json(result, fallback=repr, serialize_unknown=True).decode()
    return result if len(text) <= chars else _bound_text(text, chars)


def _bound_parts(parts: Sequence[Any], chars: int) -> list[Any]:
    out: list[Any] = []
    for part in parts:
        if isinstance(part, BinaryContent):
            out.append(_bound_media(part))
            continue
        text = part if isinstance(part, str) else to_json(part, fallback=repr, serialize_unknown=True).decode()
        out.append(_bound_text(text, chars))
        chars = max(0, chars - len(text))
    return out


def _bound_text(text: str, chars: int) -> str:
    if len(text) <= chars:
        return text
    return f"{text[:chars]}\n[truncated: {len(text):,} characters, of which {chars:,} are shown; ask for less]"


def _bound_media(content: BinaryContent) -> BinaryContent | str:
    size = len(content.data)
    if size <= MEDIA_BYTES:
        return content
    return f"[left out: {content.media_type} of {size:,} bytes, more than {MEDIA_BYTES:,}]"
