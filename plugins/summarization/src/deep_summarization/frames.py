"""Recognize this plugin's summaries, which are in user turns, by their metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from pydantic_ai.messages import TextContent, UserPromptPart

__all__ = ["NOTE", "is_summary", "note_of", "without_frame"]

NOTE = "deep_summarization"
"""The metadata key of a summary's notes for the next one. Metadata is stored but never sent."""


def is_summary(part: object) -> bool:
    """Whether a part of a message is a summary of this plugin, for an interface to show it as such."""
    return note_of(part) is not None


def note_of(part: object) -> Mapping[str, Any] | None:
    """The notes of a summary; None for any other part."""
    if not isinstance(part, UserPromptPart) or isinstance(part.content, str):
        return None
    first = part.content[0] if part.content else None
    metadata: object = first.metadata if isinstance(first, TextContent) else None
    note: object = cast("dict[str, Any]", metadata).get(NOTE) if isinstance(metadata, dict) else None
    return cast("dict[str, Any]", note) if isinstance(note, dict) else None


def without_frame(part: UserPromptPart) -> UserPromptPart:
    """Return a summary without the words around it, so that they do not pile up where it is shortened again."""
    note, content = note_of(part), part.content
    first = None if isinstance(content, str) or not content else content[0]
    if note is None or not isinstance(first, TextContent) or not isinstance(note.get("body"), list):
        return part
    begin, end = note["body"]
    return replace(part, content=[TextContent(content=first.content[begin:end], metadata=first.metadata)])
