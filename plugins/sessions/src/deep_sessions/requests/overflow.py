"""A request that is larger than the window: what is in it, and what to do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from pydantic_ai.messages import BinaryContent, FileUrl, ModelMessage, ModelRequest, TextContent

if TYPE_CHECKING:
    from pydantic_ai.models import ModelRequestParameters

    from .ends import End

__all__ = ["CHARS", "effective_window", "tokens_of", "too_large"]

CHARS = 4
"""Characters of a token, about."""
FILE = 500
"""Tokens of a file, about: those of a smaller picture."""


def _tokens(content: object) -> int:
    if isinstance(content, TextContent):
        content = content.content  # its metadata is not sent
    if isinstance(content, BinaryContent | FileUrl):
        return FILE
    if isinstance(content, list):
        return sum(map(_tokens, cast("list[object]", content)))
    return len(content if isinstance(content, str) else json.dumps(content, default=str, ensure_ascii=False)) // CHARS


def tokens_of(messages: Sequence[ModelMessage]) -> int:
    """Return about how many tokens messages have."""
    return sum(map(_of_message, messages))


def _of_message(message: ModelMessage) -> int:
    return sum(
        _tokens(getattr(part, "content", None) or "") + _tokens(getattr(part, "args", None) or "")
        for part in message.parts
    )


def _parts(messages: Sequence[ModelMessage], parameters: ModelRequestParameters) -> dict[str, int]:
    """Return the parts of a request and about how many tokens each has."""
    sizes: dict[str, int] = {}
    for tool in parameters.function_tools:
        sizes[f"tool {tool.name}"] = _tokens(tool.description or "") + _tokens(tool.parameters_json_schema)
    for part in parameters.instruction_parts or []:
        sizes[f"prompt {part.name or 'of the application'}"] = _tokens(part.content)
    if not parameters.instruction_parts:
        said = next((m.instructions for m in reversed(messages) if isinstance(m, ModelRequest) and m.instructions), "")
        sizes["prompt"] = _tokens(said)
    if messages:
        sizes["the last message"] = _of_message(messages[-1])
        sizes["the messages before"] = tokens_of(messages[:-1])
    return sizes


def effective_window(end: End, messages: Sequence[ModelMessage], parameters: ModelRequestParameters) -> int:
    """Return the window that an overflow shows, in tokens as we count them, and at most this request."""
    ours = max(1, sum(_parts(messages, parameters).values()))
    if end.window is None:
        return ours
    return min(end.window * ours // end.tokens if end.tokens else end.window, ours)


def too_large(end: End, messages: Sequence[ModelMessage], parameters: ModelRequestParameters) -> str:
    """Return what to tell people: the largest parts, and what to type."""
    sizes = sorted(_parts(messages, parameters).items(), key=lambda item: -item[1])
    largest = ", ".join(f"{name} {size:,}" for name, size in sizes[:4] if size)
    way = "send less, leave out plugins (deep explain shows what each costs), or name a model with a larger window"
    if len(messages) > 2:
        way = f"begin a new session, {way}"
    return f"{end.words}, and it cannot be made smaller. Its largest parts, in tokens: {largest}. What helps: {way}"
