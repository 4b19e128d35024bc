"""The dialect of Hermes and Qwen: a JSON object in `<tool_call>`. The default for models without native tool calls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from ..calls import ToolCall, ToolResult
from .json_body import JsonBody, Markers, dump
from .scanner import Form
from .text import TextDriver, function_of, outcome_of

if TYPE_CHECKING:
    from pydantic_ai.tools import ToolDefinition

__all__ = ["HermesDriver"]

OPENER: Final = "<tool_call>"
CLOSER: Final = "</tool_call>"
MARKUP: Final = re.compile(r"<(?=/?(?:tool_|tools>|think))")
HOW: Final = f"""\
# Tools

You can call the tools listed in <tools>. To call one, write a JSON object with its name and arguments between \
{OPENER} and {CLOSER}, exactly so:

{OPENER}
{{"name": "tool_name", "arguments": {{"parameter": "value"}}}}
{CLOSER}

Write several such blocks to make several calls. Do not put a call in a code fence or in backticks, and do not invent \
results: stop after your calls. The results come in the next message, in <tool_response>. If you need no tool, answer \
as usual.
"""


class HermesDriver(TextDriver):
    """`<tool_call>{"name": …, "arguments": …}</tool_call>`: Hermes, Qwen 2.5 and Qwen 3, and every other model."""

    name = "hermes"
    default: ClassVar[bool] = True
    families = re.compile(r"hermes|qwen(?!.*coder)|qwq")

    def forms(self) -> list[Form]:
        """One: the two tags."""
        return [Form(OPENER, partial(JsonBody, Markers(OPENER, CLOSER)), (CLOSER,))]

    def render(self, tools: Sequence[ToolDefinition]) -> str:
        """Return how to call, and each tool as one line of JSON."""
        if not tools:
            return ""
        lines = [dump({"type": "function", "function": function_of(tool)}, MARKUP) for tool in tools]
        return "\n".join([HOW, "<tools>", *lines, "</tools>"])

    def encode_calls(self, calls: Sequence[ToolCall]) -> str:
        """Return a block for each call."""
        return "\n".join(
            f"{OPENER}\n{dump({'name': call.name, 'arguments': dict(call.arguments)}, MARKUP)}\n{CLOSER}"
            for call in calls
        )

    def encode_results(self, results: Sequence[ToolResult]) -> str:
        """Return a block for each result."""
        return "\n".join(f"<tool_response>\n{dump(outcome_of(result), MARKUP)}\n</tool_response>" for result in results)
