"""The parts of a whole reply: its text read through a dialect, everything else as it was."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from deep_universe import InvalidCall, ReasoningTag, ToolCall, UnopenedTag
from pydantic_ai.messages import ModelResponsePart, TextPart, ThinkingPart, ToolCallPart

if TYPE_CHECKING:
    from .constrained import ConstrainedReader, Reader
    from .reply import ReplyReader

__all__ = ["THINKING", "read_parts"]

THINKING: Final = ("<think>", "</think>")
"""A reader returns these tags as texts of their own; most models' adapters have taken them out already."""


def read_parts(parts: Iterable[ModelResponsePart], reader: Reader) -> tuple[list[ModelResponsePart], list[InvalidCall]]:
    """Return the parts with calls read from the texts, and the calls that are written wrongly.

    Args:
        parts: the reply's parts.
        reader: makes the reader of one text.
    """
    out: list[ModelResponsePart] = []
    invalid: list[InvalidCall] = []
    for part in parts:
        if isinstance(part, TextPart):
            _read(part, reader(), out, invalid)
        else:
            out.append(part)
    return out, invalid


def _read(
    part: TextPart, reader: ReplyReader | ConstrainedReader, out: list[ModelResponsePart], invalid: list[InvalidCall]
) -> None:
    thinking, texts, first = False, list[str](), (len(out), len(invalid))

    def end_text() -> None:
        if texts:
            text = "".join(texts)
            out.append(ThinkingPart(text) if thinking else replace(part, content=text))
            texts.clear()

    for piece in [*reader.feed(part.content), *reader.finish()]:
        if isinstance(piece, InvalidCall):
            invalid.append(piece)
        elif isinstance(piece, ToolCall):
            end_text()
            out.append(ToolCallPart(piece.name, dict(piece.arguments)))
        elif isinstance(piece, UnopenedTag):
            out[first[0] :] = [each for each in out[first[0] :] if not isinstance(each, ToolCallPart)]
            del invalid[first[1] :]
        elif isinstance(piece, ReasoningTag) and piece in THINKING:
            end_text()
            thinking = piece == THINKING[0]
        else:
            texts.append(piece)
    end_text()
