"""The dialect of ReAct prompts: `Action:` and `Action Input:`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from ..calls import InvalidCall, ToolCall, ToolResult
from .balanced_body import BalancedBody, Bounds
from .json_body import dump, invalid, named_call
from .scanner import Body, Form, Head
from .text import TextDriver, function_of, outcome_of

if TYPE_CHECKING:
    from pydantic_ai.tools import ToolDefinition

__all__ = ["ReactDriver"]

BLANKS: Final = r"[ \t]{0,8}"
BOLD: Final = r"\*{0,2}"
"""Many models print the labels bold."""
ITEM: Final = r"[-#*]{0,4}", BLANKS, BOLD
"""Others as items of a list, or as headings."""
COLON: Final = BOLD, BLANKS, "=:", BOLD
ACTION: Final = Head(
    *ITEM,
    "[Aa]",
    "=ction",
    *COLON,
    BLANKS,
    "`?",
    "[A-Za-z0-9_.-]{0,128}",
    "`?",
    BLANKS,
    r"\r?",
    "=\n",
    *ITEM,
    "[Aa]",
    "=ction",
    BLANKS,
    "[Ii]",
    "=nput",
    *COLON,
    commit="\n",
)
FENCE: Final = Head(r"[ \t\r\n]{0,8}", "=```", "[A-Za-z_]{0,16}", r"[ \t\r\n]{0,8}")
FENCE_END: Final = Head(r"[ \t\r\n]{0,8}", "=```")
ACTION_NAME: Final = re.compile(r"[-#* \t]*[Aa]ction\*{0,2}[ \t]*:[ \t`*]*([A-Za-z0-9_.-]+)")
LABELS: Final = ("Action", "action", "Observation", "observation", "Thought", "Final Answer")
BOUNDARIES: Final = tuple(
    f"\n{before}{label}{after}" for label in LABELS for before, after in (("", ":"), ("**", ":"), ("**", "**:"))
)
MARKUP: Final = re.compile(r"<(?=/?think)")
HOW: Final = """\
You can call the tools listed below. To call one, write its name and its arguments as a JSON object, each on a line of \
its own, exactly so:

Action: tool_name
Action Input: {"parameter": "value"}

Write several such pairs to make several calls. Do not put a call in a code fence or in backticks, and do not write \
"Observation:": stop after your calls, and the next message holds the results. If you need no tool, answer as usual.

Tools:
"""


class ReactDriver(TextDriver):
    """`Action: name` and `Action Input: {…}` on lines of their own; results are `Observation:` lines.

    The closing bracket of the JSON closes the call. What follows an `Observation:` that the model invented after a call
    is neither text nor calls. The label `Final Answer:` is not shown.
    """

    name = "react"
    families = re.compile(r"\breact\b")

    def forms(self, tools: Sequence[ToolDefinition] = ()) -> list[Form]:
        """The two lines; an observation that the model invents after them; the label of a final answer."""
        bounds = Bounds([FENCE, Head(r"[ \t\r\n]{0,8}")], BOUNDARIES, _parse)
        return [
            Form(ACTION, partial(Input, bounds)),
            Form(Head(*ITEM, "[Oo]", "=bservation", *COLON), Invention, after_call=True),
            Form(Head(BOLD, "=Final Answer", BOLD, "=:", BOLD), Label),
        ]

    def render(self, tools: Sequence[ToolDefinition]) -> str:
        """Return how to call, and each tool as one line of JSON."""
        if not tools:
            return ""
        return HOW + "\n".join(dump(function_of(tool), MARKUP) for tool in tools)

    def encode_calls(self, calls: Sequence[ToolCall]) -> str:
        """Return two lines for each call."""
        return "\n".join(f"Action: {call.name}\nAction Input: {dump(dict(call.arguments), MARKUP)}" for call in calls)

    def encode_results(self, results: Sequence[ToolResult]) -> str:
        """Return a line for each result."""
        return "\n".join(f"Observation: {dump(outcome_of(result), MARKUP)}" for result in results)


class Input(BalancedBody):
    """The arguments. A code fence around them belongs to the call."""

    def __init__(self, bounds: Bounds, opening: str) -> None:
        super().__init__(bounds, opening)
        self._fence: str | None = None
        """What closes the fence; None until the JSON is read."""

    def read(self, text: str, position: int, final: bool) -> int:
        """Read up to the bracket that closes the JSON, and on to the end of a fence."""
        if self._fence is None:
            position = super().read(text, position, final)
            if not self._complete or "`" not in (self._head or ""):
                return position
            self._fence = ""
        end = FENCE_END.match(text, position, final)
        self.examined += 12
        self.done = end != "wait"
        if end is None or end == "wait":
            return position
        self._fence = end[0]
        return end.end()

    def cut_off(self) -> list[ToolCall | InvalidCall]:
        """The call, if only its fence is open."""
        return self.items() if self._complete else super().cut_off()

    def raw(self) -> str:
        """The markup as the model wrote it."""
        return super().raw() + (self._fence or "")


class Invention(Body):
    """Everything after an observation that the model invented: neither text nor calls."""

    def __init__(self, opening: str) -> None:
        super().__init__(opening)
        self._parts: list[str] = []

    def read(self, text: str, position: int, final: bool) -> int:
        """Read all of it."""
        self.examined += len(text) - position
        self._parts.append(text[position:])
        return len(text)

    def items(self) -> list[ToolCall | InvalidCall]:
        """Nothing."""
        return []

    cut_off = items

    def raw(self) -> str:
        """What the model wrote."""
        return self.opening + "".join(self._parts)


class Label(Body):
    """A label that is dropped; what follows is text."""

    def __init__(self, opening: str) -> None:
        super().__init__(opening)
        self.done = True

    def read(self, text: str, position: int, final: bool) -> int:
        """Read nothing: the label is all."""
        return position

    def items(self) -> list[ToolCall | InvalidCall]:
        """Nothing."""
        return []

    cut_off = items

    def raw(self) -> str:
        """The label."""
        return self.opening


def _parse(head: str, written: str) -> list[ToolCall | InvalidCall]:
    found = ACTION_NAME.match(head)
    if found is None:
        return [invalid(head + written, "there is no tool's name after Action:", "")]
    return [named_call(found[1], written, head + written)]
