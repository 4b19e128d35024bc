"""The message that replaces the old messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextContent,
    UserPromptPart,
)

from deep_core.plugin_api import live_text

from .earlier import Earlier
from .frames import NOTE, note_of
from .pinning import pinned_parts
from .transcript import shortened, user_text

__all__ = ["head_message"]

REQUEST_CHARS = 2_000
"""Maximum characters of the user's first and current request that are kept word for word."""
LEAD = "[Summary by a model of the {count} messages up to here; a record, not a new request.]"


def head_message(
    cut: Sequence[ModelMessage],
    tail: Sequence[ModelMessage],
    summary: str,
    *,
    earlier: Earlier,
    brief: bool,
    stored: str | None = None,
    why_not: str | None = None,
    tokens: int = 0,
) -> ModelRequest:
    """Build the request that replaces the old messages.

    It begins with the application's system prompt, which Pydantic AI keeps in the first message of a history only; then
    the summary, as a user's text that says what it is; then pinned parts. A `CompactionPart` or a system prompt in
    mid-conversation would make Pydantic AI (2.62 to 2.68) explain such frames to the model: on Anthropic at the start
    of `system`, which invalidates the cache after it, on OpenAI in another system message.

    Args:
        cut: the messages to replace.
        tail: the messages to keep.
        summary: the summary of `cut`.
        earlier: the previous summary.
        brief: only the summary, if the user's own words would make it larger than `cut`.
        stored: the path of the stored messages.
        why_not: why they were not stored.
        tokens: of the whole new history, for the next summary.
    """
    pinned = [*earlier.pinned, *pinned_parts(cut, standing=earlier.pinned)]
    first = earlier.first_request or _first_request(cut)
    lines = [summary] if brief else _texts(cut, tail, summary, first, earlier, stored, why_not)
    text = "\n\n".join(lines)
    note: dict[str, Any] = {
        "messages": 1 + len(tail),
        "tokens": tokens,
        "responses": sum(isinstance(message, ModelResponse) for message in tail),
        "number": earlier.number + 1,
        "first_request": first,
        "pinned": len(pinned),
        "stored": stored,
    }
    said = UserPromptPart([TextContent(content=text, metadata={NOTE: note})])
    return ModelRequest(
        parts=[*_standing_prompt(cut[0]), said, *pinned],
        conversation_id=next((m.conversation_id for m in reversed(cut) if m.conversation_id), None),
    )


def _texts(
    cut: Sequence[ModelMessage],
    tail: Sequence[ModelMessage],
    summary: str,
    first: str,
    earlier: Earlier,
    stored: str | None,
    why_not: str | None,
) -> list[str]:
    texts = [LEAD.format(count=len(cut))]
    if first:
        texts.append(f"The user's first request, word for word:\n{first}")
    current = "" if _prompts(tail) else shortened("".join(_prompts(cut, earlier.pinned)[-1:]), REQUEST_CHARS)
    if current and current != first:
        texts.append(f"The user's latest request, word for word:\n{current}")
    texts.append(summary)
    if stored is not None:
        texts.append(f"The {len(cut)} messages are in {stored} (JSON), if you need a detail.")
    elif why_not is not None:
        texts.append(f"The {len(cut)} messages were not stored: {why_not}.")
    return texts


def _standing_prompt(first: ModelMessage) -> list[SystemPromptPart]:
    parts: list[SystemPromptPart] = []
    for part in first.parts if isinstance(first, ModelRequest) else ():
        if not isinstance(part, SystemPromptPart):
            break
        parts.append(part)
    return parts


def _first_request(messages: Sequence[ModelMessage]) -> str:
    return shortened("".join(_prompts(messages)[:1]), REQUEST_CHARS)


def _prompts(messages: Sequence[ModelMessage], pinned: Sequence[UserPromptPart] = ()) -> list[str]:
    """The user's texts, without pinned ones; a prompt beside a tool's return belongs to that tool."""
    known = set(map(id, pinned))
    out: list[str] = []
    for message in messages:
        if not isinstance(message, ModelRequest):
            continue
        if any(part.part_kind in ("tool-return", "retry-prompt") for part in message.parts):
            continue
        for part in message.parts:
            if not isinstance(part, UserPromptPart) or id(part) in known:
                continue
            if live_text(part) is None and note_of(part) is None and (text := user_text(part).strip()):
                out.append(text)
    return out
