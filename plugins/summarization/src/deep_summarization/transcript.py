"""Format the conversation for the summary's model: everything named, tool output shortened, bounded as a whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, cast

from pydantic_ai.messages import (
    BaseToolCallPart,
    BaseToolReturnPart,
    BinaryContent,
    CompactionPart,
    FilePart,
    FileUrl,
    ModelMessage,
    ModelRequestPart,
    ModelResponsePart,
    RetryFeedbackPart,
    RetryPromptPart,  # pyright: ignore[reportDeprecated]
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    UploadedFile,
    UserPromptPart,
)

from deep_core.plugin_api import live_text

from .frames import is_summary

__all__ = ["shortened", "transcript", "user_text"]

ITEM_CHARS = (500, 150)
"""Characters of a tool's arguments, of its result and of a thought: first try, and second if that is too long."""
START_SHARE = 0.25
"""Share of the beginning if the middle must be omitted."""


def transcript(messages: Sequence[ModelMessage], limit: int, count: Callable[[str], int]) -> str:
    """Format the messages in at most `limit` tokens.

    The texts of the user and the model are complete, unless they alone exceed the limit: then the middle is omitted
    and its length stated. Live texts of the kernel are omitted: they are repeated after the cut.

    Args:
        messages: the messages.
        limit: maximum tokens.
        count: counts the tokens of a text.
    """
    text = ""
    for item_chars in ITEM_CHARS:
        text = "\n\n".join(_lines(messages, item_chars)).replace("</conversation", "<\\/conversation")
        if count(text) <= limit:
            return text
    for _ in range(8):
        tokens = count(text)
        if tokens <= limit:
            return text
        # A counter need not be linear in characters, so measure the rest again.
        text = shortened(text, max(200, int(len(text) * limit / tokens * 0.95)), START_SHARE)
    return text


def shortened(text: str, most: int, start_share: float = 0.7) -> str:
    """Shorten `text` to about `most` characters: its beginning and end, with the number of characters between."""
    if len(text) <= most:
        return text
    start = int(most * start_share)
    return f"{text[:start]}\n[… {len(text) - most} characters omitted …]\n{text[len(text) - (most - start) :]}"


def user_text(part: UserPromptPart) -> str:
    """The text of a prompt, with files named."""
    if isinstance(part.content, str):
        return part.content
    return "\n".join(filter(None, map(_content, part.content)))


def _lines(messages: Sequence[ModelMessage], item_chars: int) -> list[str]:
    lines = (_line(part, item_chars) for message in messages for part in message.parts)
    return [line for line in lines if line]


def _line(part: ModelRequestPart | ModelResponsePart, most: int) -> str:
    if isinstance(part, UserPromptPart):
        if live_text(part) is not None:
            return ""
        return f"{'Earlier summary' if is_summary(part) else 'User'}: {user_text(part)}"
    if isinstance(part, TextPart):
        return f"Agent: {part.content}" if part.content else ""
    if isinstance(part, BaseToolCallPart):
        return f"Agent calls {part.tool_name}: {shortened(_json(part.args), most)}"
    if isinstance(part, BaseToolReturnPart):
        outcome = "" if part.outcome == "success" else f" ({part.outcome})"
        return f"Result of {part.tool_name}{outcome}: {shortened(_told(part.content), most)}"
    if isinstance(part, RetryPromptPart):  # pyright: ignore[reportDeprecated]
        return f"Result of {part.tool_name or 'the answer'} (retried): {shortened(part.model_response(), most)}"
    if isinstance(part, RetryFeedbackPart):
        return f"Feedback to the agent: {shortened(_told(part.content), most)}"
    if isinstance(part, ThinkingPart):
        return f"Agent thinks: {shortened(part.content, most)}" if part.content else ""
    if isinstance(part, CompactionPart):
        return f"Earlier summary: {part.content}" if part.content else ""
    if isinstance(part, FilePart):
        return f"Agent makes {_content(part.content)}"
    if isinstance(part, SystemPromptPart):
        return ""  # unchanged
    content: object = getattr(part, "content", None)
    return f"{part.part_kind}: {shortened(content, most)}" if isinstance(content, str) and content else ""


def _told(value: Any) -> str:
    """Format a tool's result as text, with its files named."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return "\n".join(_told(item) for item in cast("Sequence[Any]", value))
    return _content(value) or _json(value)


def _content(item: object) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, TextContent):
        return item.content
    if isinstance(item, BinaryContent):
        return f"[{item.media_type}, {len(item.data)} bytes]"
    if isinstance(item, FileUrl):
        return f"[{type(item).__name__} {item.url[:200]}]"
    if isinstance(item, UploadedFile):
        return f"[uploaded file {item.file_id}]"
    return ""  # a cache point, or a part of a later version


def _json(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
