"""A conversation as Markdown: what the user and the agent wrote, and the calls with their results."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

__all__ = ["as_markdown", "in_folder", "write_new"]

LONGEST = 20_000
"""Characters of a result."""


def as_markdown(messages: Sequence[ModelMessage]) -> str:
    """Return a conversation as Markdown."""
    return "\n\n".join(_blocks(messages)) + "\n"


def in_folder(folder: str, path: str) -> str:
    """Return a path that was typed in a folder, with `~` for the home folder."""
    return os.path.join(folder, os.path.expanduser(path))


def write_new(path: str, text: str) -> None:
    """Write a file that does not exist yet: never over a file of the user's. Raises OSError."""
    with open(path, "x", encoding="utf-8", errors="replace") as file:
        file.write(text)


def _blocks(messages: Sequence[ModelMessage]) -> Iterator[str]:
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart

    who = ""
    for message in messages:
        for part in message.parts:
            match part:
                case UserPromptPart(content=content):
                    texts = (
                        [content] if isinstance(content, str) else [each for each in content if isinstance(each, str)]
                    )
                    if not texts:
                        continue
                    role, block = "You", "\n\n".join(texts)
                case TextPart(content=text) if isinstance(message, ModelResponse) and text.strip():
                    role, block = "Agent", text.strip()
                case ToolCallPart():
                    role, block = "Agent", f"**{part.tool_name}**\n\n{_fenced(part.args_as_json_str(), 'json')}"
                case ToolReturnPart():
                    role, block = "Agent", _fenced(part.model_response_str()[:LONGEST])
                case _:
                    continue
            if role != who:
                yield f"## {role}"
            who = role
            yield block


def _fenced(text: str, language: str = "") -> str:
    """Return a text as a block that it cannot end itself."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"
