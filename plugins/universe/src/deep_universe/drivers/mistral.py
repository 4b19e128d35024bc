"""The dialect of Mistral: `[TOOL_CALLS]`, then a list of calls, or a name and its arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from ..calls import InvalidCall, ToolCall, ToolResult
from .balanced_body import BalancedBody, Bounds, calls_of_elements
from .json_body import dump, named_call
from .scanner import Form, Head
from .text import REASONING, TextDriver, function_of, outcome_of

if TYPE_CHECKING:
    from pydantic_ai.tools import ToolDefinition

__all__ = ["MistralDriver"]

MARKER: Final = "[TOOL_CALLS]"
BLANKS: Final = r"[ \t\r\n]{0,8}"
NAME: Final = "[A-Za-z0-9_.-]{0,128}"
HEADS: Final = (
    Head(BLANKS, NAME, "=[CALL_ID]", "[A-Za-z0-9_-]{0,64}", "=[ARGS]", BLANKS),
    Head(BLANKS, NAME, "=[ARGS]", BLANKS),
    Head(BLANKS, NAME, BLANKS),
)
CALLED: Final = re.compile(r"\s*([A-Za-z0-9_.-]+)(?:\[CALL_ID\]([A-Za-z0-9_-]*))?")
MARKUP: Final = re.compile(r"\[(?=/?(?:TOOL_|AVAILABLE_|ARGS\]|CALL_ID\]|THINK\]))|<(?=/?think)")
HOW: Final = f"""\
You can call the tools listed between [AVAILABLE_TOOLS] and [/AVAILABLE_TOOLS]. To call some, end your reply with \
{MARKER} and a JSON list of their names and arguments, exactly so:

{MARKER}[{{"name": "tool_name", "arguments": {{"parameter": "value"}}}}]

Do not put calls in a code fence or in backticks, and do not invent results: stop after the list. The results come in \
the next message, between [TOOL_RESULTS] and [/TOOL_RESULTS]. If you need no tool, answer as usual.
"""


class MistralDriver(TextDriver):
    """`[TOOL_CALLS][{"name": …, "arguments": …}]`, and `[TOOL_CALLS]name[ARGS]{…}` of newer models.

    The last bracket closes the call. The newer form is read with or without `[CALL_ID]`. `[THINK]…[/THINK]` is
    reasoning.
    """

    name = "mistral"
    families = re.compile(r"mistral|mixtral|ministral|magistral|devstral|codestral")
    reasoning: ClassVar[Sequence[tuple[str, str]]] = (*REASONING, ("[THINK]", "[/THINK]"))

    def forms(self, tools: Sequence[ToolDefinition] = ()) -> list[Form]:
        """One: the marker. The JSON's last bracket closes the call."""
        return [Form(MARKER, partial(BalancedBody, Bounds(HEADS, [MARKER], _parse)))]

    def render(self, tools: Sequence[ToolDefinition]) -> str:
        """Return how to call, and the tools as a list in JSON."""
        if not tools:
            return ""
        listed = dump([{"type": "function", "function": function_of(tool)} for tool in tools], MARKUP)
        return f"{HOW}\n[AVAILABLE_TOOLS]{listed}[/AVAILABLE_TOOLS]"

    def encode_calls(self, calls: Sequence[ToolCall]) -> str:
        """Return all calls as one list."""
        return MARKER + dump([{"name": call.name, "arguments": dict(call.arguments)} for call in calls], MARKUP)

    def encode_results(self, results: Sequence[ToolResult]) -> str:
        """Return a block for each result."""
        return "".join(f"[TOOL_RESULTS]{dump(outcome_of(result), MARKUP)}[/TOOL_RESULTS]" for result in results)


def _parse(head: str, written: str) -> list[ToolCall | InvalidCall]:
    named = CALLED.match(head, len(MARKER))
    if named is None:
        return calls_of_elements(written)
    return [named_call(named[1], written, head + written, named[2] or "")]
