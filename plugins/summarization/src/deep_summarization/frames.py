"""What stands in a user turn and is not the user's word: the kernel's live texts, and this plugin's summaries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pydantic_ai.messages import ModelRequest, TextContent, UserPromptPart

from deep_core.plugin_api import last_live_texts

__all__ = ["NOTE", "is_live_text", "is_summary", "note_of"]

NOTE = "deep_summarization"
"""The key, in a text's metadata, of what a summary notes for the next one. Metadata is stored and never sent."""


def is_live_text(part: UserPromptPart) -> bool:
    """Whether the part is a live section's text: the kernel says it again after a cut."""
    content = part.content
    if not isinstance(content, str) or not content.startswith("<context id="):
        return False
    return bool(last_live_texts([ModelRequest(parts=[part])]))


def is_summary(part: object) -> bool:
    """Whether a part of a message is a summary that this plugin put there: an interface may show it as such."""
    return note_of(part) is not None


def note_of(part: object) -> Mapping[str, Any] | None:
    """What a summary notes; None for any other part."""
    if not isinstance(part, UserPromptPart) or isinstance(part.content, str):
        return None
    first = part.content[0] if part.content else None
    metadata: object = first.metadata if isinstance(first, TextContent) else None
    note: object = cast("dict[str, Any]", metadata).get(NOTE) if isinstance(metadata, dict) else None
    return cast("dict[str, Any]", note) if isinstance(note, dict) else None
