"""The message that stands for what was cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from pydantic_ai.messages import (
    CompactionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    UserPromptPart,
)

from .frames import is_live_text
from .pinning import pinned_parts
from .transcript import shortened, user_text

__all__ = ["Earlier", "head_message", "with_tokens"]

KEY = "deep_summarization"
REQUEST_CHARS = 2_000
"""Characters of the user's first and of the current request that are kept word for word."""


@dataclass(frozen=True)
class Earlier:
    """What an earlier summary left in the history's head, so that it also survives storing and loading.

    Attributes:
        messages: messages of the history right after it; 0 where there was none.
        tokens: tokens of these.
        responses: how many of these were the model's, whose reported usage is older than the summary.
        number: how many summaries there were.
        first_request: the user's first request.
        pinned: the pinned parts that the head carries.
    """

    messages: int = 0
    tokens: int = 0
    responses: int = 0
    number: int = 0
    first_request: str = ""
    pinned: tuple[UserPromptPart, ...] = ()

    @classmethod
    def of(cls, messages: Sequence[ModelMessage]) -> Earlier:
        """Read it off the first message. Pydantic AI may have joined later requests to it, so parts are what counts."""
        parts = list(messages[0].parts) if messages and isinstance(messages[0], ModelRequest) else []
        for index in reversed(range(len(parts))):
            part = parts[index]
            if isinstance(part, CompactionPart) and KEY in (part.metadata or {}):
                noted = cast("dict[str, Any]", (part.metadata or {})[KEY])
                after = parts[index + 1 : index + 1 + int(noted.get("pinned", 0))]
                return cls(
                    messages=int(noted.get("messages", 0)),
                    tokens=int(noted.get("tokens", 0)),
                    responses=int(noted.get("responses", 0)),
                    number=int(noted.get("number", 0)),
                    first_request=str(noted.get("first_request", "")),
                    pinned=tuple(found for found in after if isinstance(found, UserPromptPart)),
                )
        return cls()


def head_message(
    cut: Sequence[ModelMessage],
    tail: Sequence[ModelMessage],
    summary: str,
    *,
    earlier: Earlier,
    brief: bool,
    stored: str | None = None,
    why_not: str | None = None,
) -> ModelRequest:
    """The request that takes the place of the cut messages.

    It opens with the application's system prompt, which Pydantic AI keeps in the first message of a history only; then
    the summary as a `CompactionPart` (providers get it as a user's text that says whose it is; it also tells Pydantic
    AI that tools and capabilities revealed before are to be revealed again); then what was pinned.

    Args:
        cut: the messages that go.
        tail: the messages that stay.
        summary: of the former.
        earlier: of the summary before.
        brief: the summary alone, where the user's own words would make it larger than what was cut.
        stored: where the cut messages were stored.
        why_not: why they were not.
    """
    pinned = [*earlier.pinned, *pinned_parts(cut if earlier.number == 0 else cut[1:])]
    first = earlier.first_request or _first_request(cut)
    text = summary if brief else "\n\n".join(_texts(cut, tail, summary, first, stored, why_not))
    noted: dict[str, Any] = {
        "messages": 1 + len(tail),
        "tokens": 0,
        "responses": sum(isinstance(message, ModelResponse) for message in tail),
        "number": earlier.number + 1,
        "first_request": first,
        "pinned": len(pinned),
        "stored": stored,
    }
    return ModelRequest(
        parts=[*_standing_prompt(cut[0]), CompactionPart(content=text, metadata={KEY: noted}), *pinned],
        conversation_id=next((m.conversation_id for m in reversed(cut) if m.conversation_id), None),
    )


def with_tokens(head: ModelRequest, tokens: int) -> ModelRequest:
    """The head, noting how many tokens the history has with it."""
    parts = [
        replace(part, metadata={KEY: {**part.metadata[KEY], "tokens": tokens}})
        if isinstance(part, CompactionPart) and part.metadata
        else part
        for part in head.parts
    ]
    return replace(head, parts=parts)


def _texts(
    cut: Sequence[ModelMessage],
    tail: Sequence[ModelMessage],
    summary: str,
    first: str,
    stored: str | None,
    why_not: str | None,
) -> list[str]:
    texts = [f"The user's first request, word for word:\n{first}"] if first else []
    current = "" if _prompts(tail) else shortened("".join(_prompts(cut)[-1:]), REQUEST_CHARS)
    if current and current != first:
        texts.append(f"The user's latest request, word for word:\n{current}")
    texts.append(summary)
    if stored is not None:
        texts.append(f"The {len(cut)} messages that this stands for are in {stored} (JSON), should a detail be needed.")
    elif why_not is not None:
        texts.append(f"The {len(cut)} messages that this stands for were not stored: {why_not}.")
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


def _prompts(messages: Sequence[ModelMessage]) -> list[str]:
    """What the user said; a prompt beside a tool's return is that tool's."""
    out: list[str] = []
    for message in messages:
        if not isinstance(message, ModelRequest):
            continue
        if any(part.part_kind in ("tool-return", "retry-prompt") for part in message.parts):
            continue
        prompts = (part for part in message.parts if isinstance(part, UserPromptPart))
        out.extend(text for part in prompts if not is_live_text(part) and (text := user_text(part).strip()))
    return out
