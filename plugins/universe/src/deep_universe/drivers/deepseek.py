"""The dialects of DeepSeek: calls between special tokens, and the tags of V3.2."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from ..calls import InvalidCall, ToolCall, ToolResult
from .invoke import InvokeTags
from .json_body import JsonBody, Markers, dump, invalid, named_call
from .scanner import Form, Head
from .tag_body import Envelope, EnvelopeTags, TagBody
from .text import TextDriver, function_of, outcome_of

if TYPE_CHECKING:
    from pydantic_ai.tools import ToolDefinition

__all__ = ["DeepSeekDriver"]

CALLS: Final = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")
CALL: Final = ("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>")
OUTPUTS: Final = ("<｜tool▁outputs▁begin｜>", "<｜tool▁outputs▁end｜>")
OUTPUT: Final = ("<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>")
SEPARATOR: Final = "<｜tool▁sep｜>"
BLANKS: Final = r"[ \t\r\n]{0,8}"
NAME: Final = "[A-Za-z0-9_.-]{0,128}"
HEADS: Final = (
    Head(BLANKS, "=function", f"={SEPARATOR}", NAME, BLANKS, "=```json", BLANKS),  # V3 and R1
    Head(BLANKS, NAME, BLANKS, f"={SEPARATOR}", BLANKS),  # V3.1
)
CALLED: Final = re.compile(rf"\s*(?:function{SEPARATOR})?([A-Za-z0-9_.-]+)\s*(?:```json|{SEPARATOR})")
INVOKE: Final = InvokeTags("｜DSML｜")
MARKUP: Final = re.compile(r"<(?=[｜/]|think)")
HOW: Final = f"""\
## Tools

You can call the tools listed below. To call some, end your reply with a block that holds the name and the arguments, \
as a JSON object, of each call, exactly so:

{CALLS[0]}{CALL[0]}tool_name{SEPARATOR}{{"parameter": "value"}}{CALL[1]}{CALLS[1]}

Write a {CALL[0]}…{CALL[1]} for each call. Do not put calls in a fence or in backticks, and do not invent results: \
stop after the block, and the results come in the next message. If you need no tool, answer as usual.

"""


class DeepSeekDriver(TextDriver):
    """`<｜tool▁call▁begin｜>name<｜tool▁sep｜>{…}<｜tool▁call▁end｜>` of V3.1.

    It also reads V3 and R1, which write the JSON in a fence, and the `<｜DSML｜invoke name="…">` tags of V3.2.
    """

    name = "deepseek"
    families = re.compile(r"deepseek")

    def forms(self, tools: Sequence[ToolDefinition] = ()) -> list[Form]:
        """Calls in special tokens, calls in tags, and what stands around either."""
        markers = Markers(*CALL, parse=_parse, heads=HEADS, plain="`")
        return [
            Form(CALLS[0], partial(Envelope, EnvelopeTags((CALL[0],), CALLS[1])), (CALLS[1],)),
            Form(CALL[0], partial(JsonBody, markers), (CALL[1],)),
            Form(INVOKE.calls[0], partial(Envelope, EnvelopeTags((INVOKE.opener,), INVOKE.calls[1])), INVOKE.closers),
            Form(INVOKE.opener, partial(TagBody, INVOKE.tags(_read_value))),
        ]

    def render(self, tools: Sequence[ToolDefinition]) -> str:
        """Return how to call, and each tool with its schema."""
        if not tools:
            return ""
        return HOW + "\n".join(dump(function_of(tool), MARKUP) for tool in tools)

    def encode_calls(self, calls: Sequence[ToolCall]) -> str:
        """Return one block with every call."""
        written = (f"{call.name}{SEPARATOR}{dump(dict(call.arguments), MARKUP)}" for call in calls)
        return "".join(each.join(CALL) for each in written).join(CALLS)

    def encode_results(self, results: Sequence[ToolResult]) -> str:
        """Return one block with every result."""
        return "".join(dump(outcome_of(result), MARKUP).join(OUTPUT) for result in results).join(OUTPUTS)


def _parse(head: str, written: str) -> list[ToolCall | InvalidCall]:
    named = CALLED.match(head)
    if named is None:
        return [invalid(head + written, f"write a call as {CALL[0]}name{SEPARATOR}{{…}}{CALL[1]}", "")]
    return [named_call(named[1], written.removesuffix("```").rstrip(), head + written)]


def _read_value(tool: str, parameter: str, attributes: dict[str, str], written: str) -> object:
    from .values import read_value

    return written if attributes.get("string") == "true" else read_value(written)
