"""OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..calls import InvalidCall, ToolCall, ToolResult
from ..driver import NATIVE, NONE
from .encoding import arguments_json, result_text
from .reading import NO_FUNCTION, invalid, read_call
from .responses import Fields, objects
from .schemas import transformed
from .wire import WireDriver

if TYPE_CHECKING:
    from pydantic_ai.tools import ToolDefinition

__all__ = ["OpenAIResponsesDriver"]


class OpenAIResponsesDriver(WireDriver):
    """The Responses API: `function_call` items in `output`, with a `call_id` and arguments as a JSON text.

    Fingerprint: `object` is `response`, or an item that only this API has. Reads a response, its output list or one
    item. Tools that OpenAI runs itself (`web_search_call`, `mcp_call`, …) are no calls.
    """

    name: ClassVar[str] = "openai-responses"
    protocol: ClassVar[str] = "openai-responses"
    list_field: ClassVar[str] = "output"

    def score(self, fields: Fields) -> int:
        """Return 100 for responses, output lists and items, else 0."""
        known = fields.get("object") == "response" or any(_is_item(item) for item in _items(fields))
        return NATIVE if known else NONE

    def read(self, fields: Fields) -> list[ToolCall | InvalidCall]:
        """Return the calls of the output, in order."""
        return [_call(item) for item in _items(fields) if item.get("type") in ("function_call", "custom_tool_call")]

    def render(self, tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
        """Return `tools` of a request. A tool is strict only if its author said so: `strict=True`.

        Raises:
            ToolSchemaError: OpenAI cannot enforce a strict tool's schema.
        """
        return [_tool(tool) for tool in tools]

    def encode_calls(self, calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
        """Return one `function_call` item for each call."""
        return [
            {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments_json(call)}
            for call in calls
        ]

    def encode_results(self, results: Sequence[ToolResult]) -> list[dict[str, Any]]:
        """Return one `function_call_output` item for each result."""
        return [
            {"type": "function_call_output", "call_id": result.id, "output": result_text(result)} for result in results
        ]


def _tool(tool: ToolDefinition) -> dict[str, Any]:
    from .transformers import OpenAITransformer

    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description or "",
        "parameters": transformed(tool, OpenAITransformer),
        # Here a tool without this field is strict.
        "strict": tool.strict is True,
    }


def _items(fields: Fields) -> list[Fields]:
    return objects(fields["output"]) if "output" in fields and "call_id" not in fields else [fields]


def _is_item(item: Fields) -> bool:
    match item.get("type"):
        case "function_call" | "custom_tool_call":
            return "call_id" in item and "name" in item
        case "message":
            return any(part.get("type") in ("output_text", "refusal") for part in objects(item.get("content")))
        case "reasoning":
            return "summary" in item
        case _:
            return False


def _call(item: Fields) -> ToolCall | InvalidCall:
    call_id, name = item.get("call_id"), item.get("name")
    if item["type"] == "custom_tool_call":
        return invalid(call_id, name if isinstance(name, str) else "", item.get("input"), NO_FUNCTION)
    return read_call(call_id, name, item.get("arguments"), complete=item.get("status") in (None, "completed"))
