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

__all__ = ["REQUEST_CHARS", "head_message"]

REQUEST_CHARS = 2_000
"""Maximum characters of the user's first and current request that are kept word for word."""
KEPT_CHARS = 500
"""Characters of the first request to keep for later summaries at least, even where now there is room for fewer."""
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
    most_chars: int = REQUEST_CHARS,
    frame: str = "",
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
        most_chars: of each of the user's requests that are kept word for word.
        frame: says what the summary is, before it, where no model wrote it.
    """
    pinned = [*earlier.pinned, *pinned_parts(cut, standing=earlier.pinned)]
    kept = earlier.first_request or shortened("".join(_prompts(cut)[:1]), max(most_chars, KEPT_CHARS))
    first = shortened(kept, most_chars)
    framed = f"{frame}\n\n{summary}" if frame else summary
    lines = [framed] if brief else _texts(cut, tail, framed, first, earlier, stored, why_not, most_chars)
    text = "\n\n".join(lines)
    begin = text.index(framed) + len(framed) - len(summary)
    note: dict[str, Any] = {
        "messages": 1 + len(tail),
        "tokens": tokens,
        "responses": sum(isinstance(message, ModelResponse) for message in tail),
        "number": earlier.number + 1,
        "first_request": kept,
        "body": [begin, begin + len(summary)],
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
    most_chars: int,
) -> list[str]:
    texts = [LEAD.format(count=len(cut))]
    if first:
        texts.append(f"The user's first request, word for word:\n{first}")
    current = "" if _prompts(tail) else shortened("".join(_prompts(cut, earlier.pinned)[-1:]), most_chars)
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
