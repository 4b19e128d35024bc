"""A conversation as a scripted model sees it: the prompt, the tools, and the results of its earlier calls."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai.messages import (
    ModelMessage,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from deep_core import tool_facts
from deep_core.plugin_api import live_text

if TYPE_CHECKING:
    from pydantic_ai.models.function import AgentInfo

__all__ = ["CHARS_PER_TOKEN", "Call", "Result", "Transcript", "chars_sent"]

CHARS_PER_TOKEN = 4
"""Characters per token without a tokenizer (pydantic-deep's `chars // 4`)."""
_ID = re.compile(r"demo-(\d+)-(\d+)-\d+$")


@dataclass(frozen=True)
class Call:
    """A tool call of a script, by the tool's original name."""

    tool: str
    args: Mapping[str, Any]


@dataclass(frozen=True)
class Result:
    """The result of a call.

    Attributes:
        outcome: Pydantic AI's (`success`, `failed`, `denied`, `retried`, `interrupted`), or `missing` (the tool is
            not available, nothing was called), or `lost` (the result is no longer in the conversation).
        text: the tool's answer.
    """

    outcome: str
    text: str = ""

    @property
    def ok(self) -> bool:
        """Whether the call succeeded."""
        return self.outcome == "success"


@dataclass(frozen=True)
class Transcript:
    """One request for a script.

    Attributes:
        prompt: the user's last message.
        turn: the number of the user's prompt; part of the call ids, so that no turn repeats those of another.
        tools: original name -> final name.
        calls: call id -> name of the tool, in the whole conversation.
        results: call id -> its result.
    """

    prompt: str
    turn: int
    tools: Mapping[str, str]
    calls: Mapping[str, str]
    results: Mapping[str, Result]

    @classmethod
    def of(cls, messages: Sequence[ModelMessage], info: AgentInfo) -> Transcript:
        """Build it from the model's messages."""
        prompt = ""
        before = since = 0  # turns in call ids, before and since the last prompt: they outlive a compacted history
        calls: dict[str, str] = {}
        results: dict[str, Result] = {}
        for message in messages:
            for part in message.parts:
                if isinstance(part, UserPromptPart):
                    if live_text(part) is None:
                        prompt, before, since = _text(part.content), max(before, since), 0
                elif isinstance(part, ToolCallPart):
                    calls[part.tool_call_id] = part.tool_name
                    if match := _ID.match(part.tool_call_id):
                        since = max(since, int(match[1]))
                elif isinstance(part, ToolReturnPart):
                    results[part.tool_call_id] = Result(part.outcome, _return_text(part))
        tools = {tool_facts(tool).original: tool.name for tool in info.function_tools}
        return cls(prompt, since or before + 1, tools, calls, results)

    def call_id(self, step: int, index: int) -> str:
        """Build the id of a call of this turn."""
        return f"demo-{self.turn}-{step}-{index}"

    def went_past(self, step: int) -> bool:
        """Whether a later step of this turn is in the conversation."""
        ids = (_ID.match(id) for id in self.calls.keys() | self.results.keys())
        return any(int(id[1]) == self.turn and int(id[2]) > step for id in ids if id)


def chars_sent(messages: Sequence[ModelMessage], info: AgentInfo) -> int:
    """Count the characters of a request: instructions, tools, and the whole conversation."""
    size = len(info.instructions or "")
    for tool in (*info.function_tools, *info.output_tools):
        size += len(tool.name) + len(tool.description or "") + len(json.dumps(tool.parameters_json_schema))
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                size += len(part.model_response_str())
            elif isinstance(part, ToolCallPart):
                size += len(part.tool_name) + len(part.args_as_json_str())
            else:
                # Minor releases add kinds of parts; nearly all of them have their text in `content`.
                size += len(_text(getattr(part, "content", None)))
    return size


def _return_text(part: ToolReturnPart) -> str:
    content: object = part.content
    return content if isinstance(content, str) else part.model_response_str()


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence) and not isinstance(content, bytes | bytearray):
        return "\n".join(filter(None, (_text(item) for item in cast("Sequence[object]", content))))
    inner = getattr(content, "content", None)
    return inner if isinstance(inner, str) else ""
