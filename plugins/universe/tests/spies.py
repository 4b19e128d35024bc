"""Drivers for tests that count what they are asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deep_universe import InvalidCall, ToolCall, ToolDriver, ToolResult, WireTarget
from pydantic_ai.tools import ToolDefinition

__all__ = ["Spy"]


class Spy(ToolDriver):
    """Renders its name and the tools' names; scores what it is given."""

    def __init__(self, name: str, score: Any = 0, priority: int = 0) -> None:
        self.name = name  # type: ignore[misc]
        self.priority = priority  # type: ignore[misc]
        self.score = score
        self.asked: list[WireTarget] = []

    def can_handle(self, target: WireTarget) -> int:
        self.asked.append(target)
        return self.score

    def can_handle_response(self, response: object) -> int:
        return 0

    def render(self, tools: Sequence[ToolDefinition]) -> Any:
        return [self.name, *(tool.name for tool in tools)]

    def parse(self, response: object) -> list[ToolCall | InvalidCall]:
        raise ValueError("a spy parses nothing")

    def encode_calls(self, calls: Sequence[ToolCall]) -> Any:
        return None

    def encode_results(self, results: Sequence[ToolResult]) -> Any:
        return None
