"""Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..calls import InvalidCall, ToolCall, ToolResult
from ..driver import FALLBACK, NATIVE, NONE
from .encoding import result_text
from .reading import CUT_OFF, invalid, read_call
from .responses import Fields, objects
from .schemas import transformed
from .wire import WireDriver

if TYPE_CHECKING:
    from pydantic_ai.tools import ToolDefinition

__all__ = ["AnthropicDriver"]


class AnthropicDriver(WireDriver):
    """The Messages API: `tool_use` blocks in a list `content`, with `input` as an object.

    Fingerprint: `type` is `message` and `content` a list, or a `tool_use` block with `name` and `input`. Reads a
    message or its list of blocks. Tools that Anthropic runs itself (`server_tool_use`, `mcp_tool_use`) are no calls.
    """

    name: ClassVar[str] = "anthropic"
    protocol: ClassVar[str] = "anthropic"
    list_field: ClassVar[str] = "content"

    def score(self, fields: Fields) -> int:
        """Return 100 for messages and `tool_use` blocks, 25 for blocks of text or thinking alone."""
        blocks = objects(fields.get("content"))
        if any(_is_call(block) for block in blocks):
            return NATIVE
        if fields.get("role", "assistant") != "assistant" or not isinstance(fields.get("content"), list | tuple):
            return NONE
        if fields.get("type") == "message" and "status" not in fields:  # a Responses item has one
            return NATIVE
        texts = bool(blocks) and all(block.get("type") in ("text", "thinking") for block in blocks)
        return FALLBACK if texts else NONE

    def read(self, fields: Fields) -> list[ToolCall | InvalidCall]:
        """Return the calls of a message. One that `max_tokens` cut off is invalid, whatever its input is."""
        blocks = objects(fields.get("content"))
        cut = blocks[-1] if blocks and fields.get("stop_reason") == "max_tokens" else None
        return [_call(block, complete=block is not cut) for block in blocks if block.get("type") == "tool_use"]

    def render(self, tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
        """Return `tools` of a request.

        A tool is strict only if its author said so, and if `anthropic` is installed: its package has the transformer.

        Raises:
            ToolSchemaError: a schema is not well-formed.
        """
        return [_tool(tool) for tool in tools]

    def encode_calls(self, calls: Sequence[ToolCall]) -> dict[str, Any]:
        """Return the assistant's message."""
        blocks = [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)} for call in calls
        ]
        return {"role": "assistant", "content": blocks}

    def encode_results(self, results: Sequence[ToolResult]) -> dict[str, Any]:
        """Return the one user message that must hold all results."""
        return {"role": "user", "content": [_result(result) for result in results]}


def _tool(tool: ToolDefinition) -> dict[str, Any]:
    rendered: dict[str, Any] = {"name": tool.name, "description": tool.description or ""}
    if tool.strict:
        try:
            from pydantic_ai.providers.anthropic import AnthropicJsonSchemaTransformer
        except ImportError:
            pass
        else:
            return {**rendered, "input_schema": transformed(tool, AnthropicJsonSchemaTransformer), "strict": True}
    from .transformers import UntitledTransformer

    return {**rendered, "input_schema": transformed(tool, UntitledTransformer)}


def _result(result: ToolResult) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.id, "content": result_text(result)}
    if not result.is_success:
        block["is_error"] = True
    return block


def _is_call(block: Fields) -> bool:
    return block.get("type") == "tool_use" and "input" in block and "name" in block


def _call(block: Fields, *, complete: bool) -> ToolCall | InvalidCall:
    name = block.get("name")
    if not complete:
        return invalid(block.get("id"), name if isinstance(name, str) else "", block.get("input"), CUT_OFF)
    return read_call(block.get("id"), name, block.get("input"))
