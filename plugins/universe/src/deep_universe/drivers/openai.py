"""OpenAI's Chat Completions, and every API that copies it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..calls import InvalidCall, ToolCall, ToolResult
from ..driver import FALLBACK, GOOD, NATIVE, NONE
from .encoding import arguments_json, result_text
from .reading import NO_FUNCTION, invalid, read_call
from .responses import Fields, as_fields, as_items, objects
from .schemas import transformed
from .wire import WireDriver

if TYPE_CHECKING:
    from pydantic_ai.tools import ToolDefinition

__all__ = ["OpenAIDriver"]


class OpenAIDriver(WireDriver):
    """Chat Completions: `choices[0].message.tool_calls`, with arguments as a JSON text.

    Fingerprint: a list `choices` of objects with a `message`, or a message or list whose tool calls have a `function`.
    Reads a completion, a message, the message of Ollama's and Cohere's replies, or the list of tool calls. Of several
    choices it reads the first: they are alternatives.
    """

    name: ClassVar[str] = "openai"
    protocol: ClassVar[str] = "openai"
    list_field: ClassVar[str] = "tool_calls"

    def score(self, fields: Fields) -> int:
        """Return 100 for completions and tool calls, 25 for an assistant's message that has only text."""
        if fields.get("object") == "chat.completion":
            return NATIVE
        if "choices" in fields:
            choices = objects(fields["choices"])
            return NATIVE if choices and as_fields(choices[0].get("message")) is not None else NONE
        message = as_fields(fields.get("message")) or fields
        if any(_function(call) is not None for call in objects(message.get("tool_calls"))):
            return NATIVE
        if message.get("role") != "assistant" or not isinstance(message.get("content", ""), str | None):
            return NONE
        return GOOD if "tool_calls" in message else FALLBACK

    def read(self, fields: Fields) -> list[ToolCall | InvalidCall]:
        """Return the calls of the first choice."""
        choice = next(iter(objects(fields.get("choices"))), fields)
        message = as_fields(choice.get("message")) or choice
        complete = choice.get("finish_reason", choice.get("done_reason")) != "length"
        calls = [_call(call, complete=complete) for call in as_items(message.get("tool_calls")) or ()]
        legacy = as_fields(message.get("function_call"))
        if legacy is not None and not calls:
            calls.append(read_call("", legacy.get("name"), legacy.get("arguments"), complete=complete))
        return calls

    def render(self, tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
        """Return `tools` of a request. A tool is strict only if its author said so: `strict=True`.

        Raises:
            ToolSchemaError: OpenAI cannot enforce a strict tool's schema.
        """
        return [_tool(tool) for tool in tools]

    def encode_calls(self, calls: Sequence[ToolCall]) -> dict[str, Any]:
        """Return the assistant's message."""
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments_json(call)}}
                for call in calls
            ],
        }

    def encode_results(self, results: Sequence[ToolResult]) -> list[dict[str, Any]]:
        """Return one `tool` message for each result."""
        return [{"role": "tool", "tool_call_id": result.id, "content": result_text(result)} for result in results]


def _tool(tool: ToolDefinition) -> dict[str, Any]:
    from .transformers import OpenAITransformer

    function: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description or "",
        "parameters": transformed(tool, OpenAITransformer),
    }
    if tool.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def _function(call: Fields) -> Fields | None:
    function = as_fields(call.get("function"))
    return function if function is not None and "name" in function else None


def _call(item: object, *, complete: bool) -> ToolCall | InvalidCall:
    call = as_fields(item)
    if call is None:
        return invalid("", "", item, NO_FUNCTION)
    function = _function(call)
    if function is None:
        custom = as_fields(call.get("custom")) or {}
        name = custom.get("name")
        return invalid(call.get("id"), name if isinstance(name, str) else "", custom.get("input", call), NO_FUNCTION)
    return read_call(call.get("id"), function["name"], function.get("arguments"), complete=complete)
