"""The Model Context Protocol: tools as a server lists them, calls as a client's JSON-RPC requests."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from ..calls import InvalidCall, ToolCall, ToolResult
from ..driver import NATIVE, NONE
from .encoding import result_data, result_text
from .reading import read_call
from .responses import Fields, as_fields, objects
from .schemas import object_schema
from .wire import WireDriver

if TYPE_CHECKING:
    from pydantic_ai.tools import ToolDefinition

__all__ = ["McpDriver"]

CHANGES = ("write", "execute", "destructive")
"""Tags of tools that do not only read, whatever else they do."""
_NUMBER = re.compile(r'("*)(0|-?[1-9][0-9]{0,17})\1')


class McpDriver(WireDriver):
    """MCP's `tools/call` requests, whose answers are JSON-RPC responses.

    Fingerprint: `method` is `tools/call`. Reads a request, with or without its JSON-RPC envelope, a list of them, or
    the parameters that the official SDK hands to a server.
    JSON-RPC ids may be numbers: `7` is the call id `7`, and the text `"7"` is the call id `"7"`, with its quotes.
    """

    name: ClassVar[str] = "mcp"
    protocol: ClassVar[str] = "mcp"
    list_field: ClassVar[str] = "requests"

    def score(self, fields: Fields) -> int:
        """Return 100 for `tools/call`, else 0."""
        return NATIVE if any(_is_call(request) for request in _requests(fields)) else NONE

    def read(self, fields: Fields) -> list[ToolCall | InvalidCall]:
        """Return the calls of the requests; requests for other methods are none."""
        return [_call(request) for request in _requests(fields) if _is_call(request)]

    def render(self, tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
        """Return `tools` of a `tools/list` result, with annotations for the standard tags."""
        return [_tool(tool) for tool in tools]

    def encode_calls(self, calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
        """Return one request for each call."""
        return [
            {
                "jsonrpc": "2.0",
                **_wire_id(call.id),
                "method": "tools/call",
                "params": {"name": call.name, "arguments": dict(call.arguments)},
            }
            for call in calls
        ]

    def encode_results(self, results: Sequence[ToolResult]) -> list[dict[str, Any]]:
        """Return one JSON-RPC response for each result. A tool's failure is a result for the model: `isError`."""
        return [{"jsonrpc": "2.0", **_wire_id(result.id), "result": _result(result)} for result in results]


def _tool(tool: ToolDefinition) -> dict[str, Any]:
    from deep_core import STANDARD_TAGS, tool_facts

    rendered: dict[str, Any] = {"name": tool.name, "inputSchema": object_schema(tool)}
    if tool.description:
        rendered["description"] = tool.description
    tags = tool_facts(tool).tags
    given = (tool.metadata or {}).get("annotations")
    # Only what a tag says: the protocol reads a missing hint as the cautious answer.
    hints = {known.mcp_hint: True for tag, known in STANDARD_TAGS.items() if known.mcp_hint and tag in tags}
    annotations = {**(cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {}), **hints}
    if "read" not in tags or any(tag in tags for tag in CHANGES):
        annotations.pop("readOnlyHint", None)
    if annotations:
        rendered["annotations"] = annotations
    return rendered


def _result(result: ToolResult) -> dict[str, Any]:
    encoded: dict[str, Any] = {"content": [{"type": "text", "text": result_text(result)}]}
    if isinstance(data := result_data(result), dict):
        encoded["structuredContent"] = data
    encoded["isError"] = not result.is_success
    return encoded


def _requests(fields: Fields) -> list[Fields]:
    return objects(fields["requests"]) if "requests" in fields else [fields]


def _is_call(request: Fields) -> bool:
    return request.get("method") == "tools/call" or _is_params(request)


def _is_params(fields: Fields) -> bool:
    # The SDK's object has all its fields; a plain dict with a name and arguments is anything.
    return "name" in fields and "arguments" in fields and "_meta" in fields


def _call(request: Fields) -> ToolCall | InvalidCall:
    params = request if _is_params(request) else as_fields(request.get("params")) or {}
    return read_call(_call_id(request.get("id")), params.get("name"), params.get("arguments"))


def _call_id(wire_id: object) -> object:
    """Quote a text that reads as a number, so that `_wire_id` gives the client its own type back."""
    return f'"{wire_id}"' if isinstance(wire_id, str) and _NUMBER.fullmatch(wire_id) else wire_id


def _wire_id(call_id: str) -> dict[str, str | int]:
    match = _NUMBER.fullmatch(call_id)
    if match is None:
        return {"id": call_id} if call_id else {}
    return {"id": call_id[1:-1] if match[1] else int(call_id)}
