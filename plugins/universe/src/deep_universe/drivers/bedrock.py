"""Amazon Bedrock's Converse API."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..calls import InvalidCall, ToolCall, ToolResult
from ..driver import NATIVE, NONE
from .encoding import result_data, result_text
from .reading import CUT_OFF, invalid, read_call
from .responses import Fields, as_fields, objects
from .schemas import transformed
from .wire import WireDriver

if TYPE_CHECKING:
    from pydantic_ai.tools import ToolDefinition

__all__ = ["BedrockDriver"]

UNKNOWN_ID = re.compile(r"[^a-zA-Z0-9_-]")
"""What an id may not have, for all models of Bedrock."""


class BedrockDriver(WireDriver):
    """Converse: `toolUse` blocks in `output.message.content`, with `input` as an object.

    Fingerprint: `output` holds a `message` whose `content` is a list, or a block has a `toolUse`. Reads a response, its
    message, the message's blocks or one block.
    """

    name: ClassVar[str] = "bedrock"
    protocol: ClassVar[str] = "bedrock"
    list_field: ClassVar[str] = "content"

    def score(self, fields: Fields) -> int:
        """Return 100 for responses of Converse and `toolUse` blocks, else 0: text alone has no mark of Bedrock."""
        if isinstance(_message(fields).get("content"), list | tuple) and "output" in fields:
            return NATIVE
        return NATIVE if any("toolUse" in block for block in _blocks(fields)) else NONE

    def read(self, fields: Fields) -> list[ToolCall | InvalidCall]:
        """Return the calls of a message. The last one is invalid if `max_tokens` cut it off."""
        blocks = _blocks(fields)
        cut = blocks[-1] if blocks and fields.get("stopReason") == "max_tokens" else None
        return [_call(block, complete=block is not cut) for block in blocks if "toolUse" in block]

    def render(self, tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
        """Return `toolConfig.tools` of a request.

        Raises:
            ToolSchemaError: a schema is not well-formed.
        """
        return [_tool(tool) for tool in tools]

    def encode_calls(self, calls: Sequence[ToolCall]) -> dict[str, Any]:
        """Return the assistant's message."""
        blocks = [
            {"toolUse": {"toolUseId": _id(call.id), "name": call.name, "input": dict(call.arguments)}} for call in calls
        ]
        return {"role": "assistant", "content": blocks}

    def encode_results(self, results: Sequence[ToolResult]) -> dict[str, Any]:
        """Return the one user message that must hold all results."""
        return {"role": "user", "content": [{"toolResult": _result(result)} for result in results]}


def _message(fields: Fields) -> Fields:
    output = as_fields(fields.get("output")) or {}
    return as_fields(output.get("message")) or {}


def _blocks(fields: Fields) -> list[Fields]:
    if "toolUse" in fields:
        return [fields]
    message = _message(fields) if "output" in fields else as_fields(fields.get("message")) or fields
    return objects(message.get("content"))


def _tool(tool: ToolDefinition) -> dict[str, Any]:
    from .transformers import UntitledTransformer

    rendered: dict[str, Any] = {"name": tool.name}
    if tool.description:  # an empty one is refused
        rendered["description"] = tool.description
    return {"toolSpec": {**rendered, "inputSchema": {"json": transformed(tool, UntitledTransformer)}}}


def _result(result: ToolResult) -> dict[str, Any]:
    data = result_data(result)
    # `json` must be an object: Converse refuses any other value.
    content: dict[str, Any] = {"json": data} if isinstance(data, dict) else {"text": result_text(result)}
    status = "success" if result.is_success else "error"
    return {"toolUseId": _id(result.id), "content": [content], "status": status}


def _id(call_id: str) -> str:
    return UNKNOWN_ID.sub("_", call_id)[:64]


def _call(block: Fields, *, complete: bool) -> ToolCall | InvalidCall:
    call = as_fields(block.get("toolUse"))
    if call is None:
        return invalid("", "", block.get("toolUse"), "This call is not an object.")
    name = call.get("name")
    if not complete:
        return invalid(call.get("toolUseId"), name if isinstance(name, str) else "", call.get("input"), CUT_OFF)
    return read_call(call.get("toolUseId"), name, call.get("input"))
