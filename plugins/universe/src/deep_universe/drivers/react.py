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
ACTION: Final = Head(
    BOLD,
    "=Action",
    BOLD,
    "=:",
    BOLD,
    BLANKS,
    "`?",
    "[A-Za-z0-9_.-]{0,128}",
    "`?",
    BLANKS,
    r"\r?",
    "=\n",
    BLANKS,
    BOLD,
    "=Action Input",
    BOLD,
    "=:",
    BOLD,
    commit="\n",
)
ACTION_NAME: Final = re.compile(r"\*{0,2}Action\*{0,2}:[ \t`*]*([A-Za-z0-9_.-]+)")
LABELS: Final = ("Action", "Observation", "Thought", "Final Answer")
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
        bounds = Bounds([Head(r"[ \t\r\n]{0,8}")], BOUNDARIES, _parse)
        return [
            Form(ACTION, partial(BalancedBody, bounds)),
            Form(_label("Observation"), Invention, after_call=True),
            Form(_label("Final Answer"), Label),
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


def _label(name: str) -> Head:
    return Head(BOLD, f"={name}", BOLD, "=:", BOLD)


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
