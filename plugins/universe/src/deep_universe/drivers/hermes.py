"""The dialect of Hermes and Qwen: a JSON object in `<tool_call>`. The default for models without native tool calls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from ..calls import ToolCall
from .json_body import JsonBody, Markers, dump
from .response_tags import ResponseTagsDriver
from .scanner import Form

if TYPE_CHECKING:
    from pydantic_ai.tools import ToolDefinition

__all__ = ["HermesDriver"]

OPENER: Final = "<tool_call>"
CLOSER: Final = "</tool_call>"
MARKUP: Final = re.compile(r"<(?=/?(?:tool_|tools>|think))")
HOW: Final = f"""\
To call one, write a JSON object with its name and arguments between \
{OPENER} and {CLOSER}, exactly so:

{OPENER}
{{"name": "tool_name", "arguments": {{"parameter": "value"}}}}
{CLOSER}
"""


class HermesDriver(ResponseTagsDriver):
    """`<tool_call>{"name": …, "arguments": …}</tool_call>`: Hermes, Qwen 2.5 and Qwen 3, and every other model.

    `parameters` is read as `arguments`, and so are arguments that the model wrote as a string of JSON.
    """

    name = "hermes"
    default: ClassVar[bool] = True
    how = HOW
    markup = MARKUP
    families = re.compile(r"hermes|qwen(?!.*coder)|qwq")

    def forms(self, tools: Sequence[ToolDefinition] = ()) -> list[Form]:
        """One: the two tags."""
        return [Form(OPENER, partial(JsonBody, Markers(OPENER, CLOSER)), (CLOSER,))]

    def encode_calls(self, calls: Sequence[ToolCall]) -> str:
        """Return a block for each call."""
        return "\n".join(
            f"{OPENER}\n{dump({'name': call.name, 'arguments': dict(call.arguments)}, MARKUP)}\n{CLOSER}"
            for call in calls
        )
