"""What the dialects around Hermes share: tools in `<tools>`, results in `<tool_response>`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from ..calls import ToolResult
from .json_body import dump
from .text import TextDriver, function_of, outcome_of

if TYPE_CHECKING:
    from pydantic_ai.tools import ToolDefinition

__all__ = ["ResponseTagsDriver"]

HEAD: Final = """\
# Tools

You can call the tools listed in <tools>. """
TAIL: Final = """\
Write several such blocks to make several calls. Do not put a call in a code fence or in backticks, and do not invent \
results: stop after your calls. The results come in the next message, in <tool_response>. If you need no tool, answer \
as usual.
"""


class ResponseTagsDriver(TextDriver):
    """A dialect whose tools are lines of JSON in `<tools>`, and whose results are JSON in `<tool_response>`.

    Attributes:
        how: explains how to write a call.
        markup: finds what a tool's description, a call or a result must not hold unescaped.
    """

    how: ClassVar[str]
    markup: ClassVar[re.Pattern[str]]

    def render(self, tools: Sequence[ToolDefinition]) -> str:
        """Return how to call, and each tool as one line of JSON."""
        if not tools:
            return ""
        lines = [dump({"type": "function", "function": function_of(tool)}, self.markup) for tool in tools]
        return "\n".join([HEAD + self.how, TAIL, "<tools>", *lines, "</tools>"])

    def encode_results(self, results: Sequence[ToolResult]) -> str:
        """Return a block for each result."""
        return "\n".join(
            f"<tool_response>\n{dump(outcome_of(result), self.markup)}\n</tool_response>" for result in results
        )
