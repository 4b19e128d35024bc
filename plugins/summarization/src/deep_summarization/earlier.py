"""Read the notes of an earlier summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart

from .frames import note_of

__all__ = ["Earlier"]


@dataclass(frozen=True)
class Earlier:
    """The notes of an earlier summary in the history's first message, so that they survive storing and loading.

    Attributes:
        messages: messages of the history right after it; 0 without one.
        tokens: tokens of these messages.
        responses: how many of them were the model's, whose reported usage is older than the summary.
        number: the number of summaries so far.
        first_request: the user's first request.
        pinned: the pinned parts in the first message.
    """

    messages: int = 0
    tokens: int = 0
    responses: int = 0
    number: int = 0
    first_request: str = ""
    pinned: tuple[UserPromptPart, ...] = ()

    @classmethod
    def of(cls, messages: Sequence[ModelMessage]) -> Earlier:
        """Read them from the first message. Pydantic AI may have merged later requests into it, so only parts count."""
        parts = list(messages[0].parts) if messages and isinstance(messages[0], ModelRequest) else []
        for index in reversed(range(len(parts))):
            note = note_of(parts[index])
            if note is not None:
                after = parts[index + 1 : index + 1 + int(note.get("pinned", 0))]
                return cls(
                    messages=int(note.get("messages", 0)),
                    tokens=int(note.get("tokens", 0)),
                    responses=int(note.get("responses", 0)),
                    number=int(note.get("number", 0)),
                    first_request=str(note.get("first_request", "")),
                    pinned=tuple(found for found in after if isinstance(found, UserPromptPart)),
                )
        return cls()
