"""A dialect for any model: a JSON object in a fence that is marked `tool_call`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from ..calls import ToolCall, ToolResult
from .json_body import JsonBody, Markers, dump
from .scanner import Form, Head
from .text import TextDriver, outcome_of

if TYPE_CHECKING:
    from pydantic_ai.tools import ToolDefinition

__all__ = ["MarkdownDriver"]

FENCE: Final = "```"
OPENER: Final = Head(f"={FENCE}tool_call", r"[ \t]{0,8}", r"\r?", "=\n", commit=f"{FENCE}tool")
INDENTS: Final = (*(" " * width for width in range(13)), "\t", "\t\t")
"""What may stand before the closing fence: in lists, whole blocks are indented."""
MARKUP: Final = re.compile(r"`(?=``)|<(?=/?think)")
HOW: Final = f"""\
# Tools

You can call the tools below. To call one, write a code block that is marked tool_call and holds a JSON object with \
its name and arguments, exactly so:

{FENCE}tool_call
{{"name": "tool_name", "arguments": {{"parameter": "value"}}}}
{FENCE}

Write several such blocks to make several calls. Do not invent results: stop after your calls. The results come in the \
next message, in blocks marked tool_result. If you need no tool, answer as usual.
"""


class MarkdownDriver(TextDriver):
    """A fence marked `tool_call` around `{"name": …, "arguments": …}`; tools are a section each.

    Within a longer fence, it is a quotation. Every model can write it, and people can read it.
    """

    name = "markdown"
    families = re.compile(r"(?!)")

    def forms(self, tools: Sequence[ToolDefinition] = ()) -> list[Form]:
        """One: the fence."""
        markers = Markers(
            f"\n{FENCE}tool_call", [f"\n{indent}{FENCE}" for indent in INDENTS], quoted=f"{FENCE}tool_call"
        )
        return [Form(OPENER, partial(JsonBody, markers))]

    def render(self, tools: Sequence[ToolDefinition]) -> str:
        """Return how to call, and a section for each tool with its schema."""
        if not tools:
            return ""
        return "\n".join([HOW, *map(_section, tools)])

    def encode_calls(self, calls: Sequence[ToolCall]) -> str:
        """Return a fence for each call."""
        return "\n".join(
            f"{FENCE}tool_call\n{dump({'name': call.name, 'arguments': dict(call.arguments)}, MARKUP)}\n{FENCE}"
            for call in calls
        )

    def encode_results(self, results: Sequence[ToolResult]) -> str:
        """Return a fence for each result."""
        return "\n".join(f"{FENCE}tool_result\n{dump(outcome_of(result), MARKUP)}\n{FENCE}" for result in results)


def _section(tool: ToolDefinition) -> str:
    schema = dump(tool.parameters_json_schema, MARKUP)
    description = MARKUP.sub(lambda found: f"\\{found[0]}", (tool.description or "").strip())
    lines = [f"## {tool.name}", "", *([description, ""] if description else []), f"{FENCE}json", schema, FENCE, ""]
    return "\n".join(lines)
