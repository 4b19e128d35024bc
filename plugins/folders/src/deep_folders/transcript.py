"""A conversation in the form in which hooks of Claude Code read it: a line of JSON for each message."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from .tool_names import call_as_others_see_it

if TYPE_CHECKING:
    from .running import HookCall

__all__ = ["lines_of", "transcript"]


@contextmanager
def transcript(seen: Sequence[HookCall], messages: Sequence[ModelMessage]) -> Generator[None]:
    """Give hooks the conversation in a file while they run: its path is in their message."""
    if not seen:
        yield
        return
    folder = seen[0].folder.data
    folder.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=folder, prefix="transcript-", suffix=".jsonl", encoding="utf-8") as file:
        file.writelines(lines_of(messages, seen[0].place))
        file.flush()
        for each in seen:
            each.message["transcript_path"] = file.name
            if "agent_id" in each.message:
                each.message["agent_transcript_path"] = file.name
        yield


def lines_of(messages: Sequence[ModelMessage], place: str) -> Iterator[str]:
    """Yield a line of JSON for each message that says something; calls as others' hooks know them."""
    for message in messages:
        if content := [*_content(message, place)]:
            role = "user" if isinstance(message, ModelRequest) else "assistant"
            line = {"type": role, "message": {"role": role, "content": content, **_cost(message)}}
            # Without spaces: shell scripts search for "role":"assistant".
            yield json.dumps(line, separators=(",", ":"), default=str) + "\n"


def _cost(message: ModelMessage) -> dict[str, Any]:
    """Return what a response cost. Its tokens of the cache are not among those of the input there."""
    if isinstance(message, ModelRequest):
        return {}
    used = message.usage
    usage = {
        "input_tokens": max(used.input_tokens - used.cache_read_tokens - used.cache_write_tokens, 0),
        "output_tokens": used.output_tokens,
        "cache_creation_input_tokens": used.cache_write_tokens,
        "cache_read_input_tokens": used.cache_read_tokens,
    }
    return {"model": message.model_name or "", "usage": usage}


def _content(message: ModelMessage, place: str) -> Iterator[dict[str, Any]]:
    for part in message.parts:
        if isinstance(part, TextPart):
            yield {"type": "text", "text": part.content}
        elif isinstance(part, UserPromptPart):
            items = [part.content] if isinstance(part.content, str) else part.content
            yield from ({"type": "text", "text": item} for item in items if isinstance(item, str))
        elif isinstance(part, ToolCallPart):
            name, args = next(call_as_others_see_it(part.tool_name, "", part.args_as_dict(), place))
            yield {"type": "tool_use", "id": part.tool_call_id, "name": name, "input": args}
        elif isinstance(part, ToolReturnPart):
            yield {"type": "tool_result", "tool_use_id": part.tool_call_id, "content": part.model_response_str()}
