"""A small universe for tests of dispatch: real tools, and a driver for one plain format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from deep_universe import FunctionTool, InvalidCall, Layer, ToolCall, ToolDriver, ToolResult, UniverseTool, WireTarget


class PlainDriver(ToolDriver):
    """`{"plain": [{"id", "name", "args"}]}`; a call with `broken` is an invalid one."""

    name = "plain"

    def can_handle(self, target: WireTarget) -> int:
        return 100

    def can_handle_response(self, response: object) -> int:
        return 100 if isinstance(response, dict) and "plain" in response else 0

    def render(self, tools: Sequence[Any]) -> Any:
        return [tool.name for tool in tools]

    def parse(self, response: object) -> list[ToolCall | InvalidCall]:
        if not isinstance(response, dict) or "plain" not in response:
            raise ValueError("not a plain response")
        return [
            InvalidCall(call.get("id", ""), call["name"], "{", call["broken"])
            if "broken" in call
            else ToolCall(call.get("id", ""), call["name"], call.get("args", {}))
            for call in response["plain"]
        ]

    def encode_calls(self, calls: Sequence[ToolCall]) -> Any:
        return plain(*calls)

    def encode_results(self, results: Sequence[ToolResult]) -> Any:
        return [result.result for result in results]


class Source:
    """What dispatch needs of a universe, without the universe."""

    def __init__(
        self,
        *tools: UniverseTool | Callable[..., Any],
        drivers: Sequence[ToolDriver] = (),
        layers: Sequence[Layer] = (),
    ) -> None:
        self.tools = [tool if isinstance(tool, UniverseTool) else FunctionTool(tool) for tool in tools]
        self.drivers = [*drivers, PlainDriver()]
        self.layers = layers

    def get(self, name: str) -> UniverseTool | None:
        return next((tool for tool in self.tools if tool.name == name), None)


def plain(*calls: ToolCall | str) -> dict[str, Any]:
    """A response in the plain format; a name is a call without arguments."""
    return {
        "plain": [
            {"name": call} if isinstance(call, str) else {"id": call.id, "name": call.name, "args": call.arguments}
            for call in calls
        ]
    }


def codes(results: Sequence[ToolResult]) -> list[str]:
    """The error code of each result, `ok` where there is none."""
    return [str(result.meta["error_code"]) if result.error is not None else "ok" for result in results]
