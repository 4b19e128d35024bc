"""A conversation in the form in which hooks of Claude Code read it: a line of JSON for each message."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

__all__ = ["lines_of", "transcript"]


@contextmanager
def transcript(folder: Path, messages: Sequence[ModelMessage]) -> Generator[str]:
    """Write a conversation below a folder while a hook runs, and yield the path of the file."""
    folder.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=folder, prefix="transcript-", suffix=".jsonl", encoding="utf-8") as file:
        file.writelines(lines_of(messages))
        file.flush()
        yield file.name


def lines_of(messages: Sequence[ModelMessage]) -> Iterator[str]:
    """Yield a line of JSON for each message that says something."""
    for message in messages:
        if content := [*_content(message)]:
            role = "user" if isinstance(message, ModelRequest) else "assistant"
            line = {"type": role, "message": {"role": role, "content": content}}
            # Without spaces: shell scripts search for "role":"assistant".
            yield json.dumps(line, separators=(",", ":"), default=str) + "\n"


def _content(message: ModelMessage) -> Iterator[dict[str, Any]]:
    for part in message.parts:
        if isinstance(part, TextPart):
            yield {"type": "text", "text": part.content}
        elif isinstance(part, UserPromptPart):
            items = [part.content] if isinstance(part.content, str) else part.content
            yield from ({"type": "text", "text": item} for item in items if isinstance(item, str))
        elif isinstance(part, ToolCallPart):
            yield {"type": "tool_use", "id": part.tool_call_id, "name": part.tool_name, "input": part.args_as_dict()}
        elif isinstance(part, ToolReturnPart):
            yield {"type": "tool_result", "tool_use_id": part.tool_call_id, "content": part.model_response_str()}
