"""The tools that a reply may call, for what cannot be read without them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from ..calls import BareInput, InvalidCall, ToolCall
from .values import TextParameters

if TYPE_CHECKING:
    from pydantic_ai.tools import ToolDefinition

__all__ = ["OfferedTools"]

NOTHING = frozenset({"", "none", "null", "n/a"})
"""What models write as the input of a tool without parameters."""


class OfferedTools:
    """The tools that a reply may call.

    Arguments:
        tools: their definitions.

    Attributes:
        names: their names.
    """

    def __init__(self, tools: Sequence[ToolDefinition]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self.names = frozenset(self._tools)

    def fill(self, call: ToolCall | InvalidCall) -> ToolCall | InvalidCall:
        """Return a value without a name as the argument of a tool that has one parameter; every other call as it is."""
        if not isinstance(call, BareInput) or call.name not in self._tools:
            return call
        tool = self._tools[call.name]
        parameters = [*cast("dict[str, Any]", tool.parameters_json_schema.get("properties") or {})]
        if not parameters and call.is_text and str(call.value).strip().lower() in NOTHING:
            return ToolCall(call.id, call.name, {})
        if len(parameters) != 1:
            return call
        value: Any = call.value
        if call.is_text:
            value = TextParameters([tool]).read(call.name, parameters[0], str(value).strip())
        return ToolCall(call.id, call.name, {parameters[0]: value})
