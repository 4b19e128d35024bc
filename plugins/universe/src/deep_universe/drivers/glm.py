"""The dialect of GLM 4.5 and later: `<arg_key>` and `<arg_value>` in `<tool_call>`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ..calls import InvalidCall, ToolCall
from .json_body import invalid
from .response_tags import ResponseTagsDriver
from .scanner import Form
from .tag_body import TagBody, Tags
from .values import TextParameters, read_key, write_key, write_value

if TYPE_CHECKING:
    from pydantic_ai.tools import ToolDefinition

__all__ = ["GlmDriver"]

OPENER: Final = "<tool_call>"
CLOSER: Final = "</tool_call>"
KEY: Final = ("<arg_key>", "</arg_key>")
VALUE: Final = ("<arg_value>", "</arg_value>")
OWN: Final = re.compile(r"\s*[A-Za-z0-9_.-]{1,128}\s*(?:<arg_key>|\Z)")
NAME: Final = re.compile(r"\s*([A-Za-z0-9_.-]{1,128})\s*(?=<arg_key>|\Z)")
BLANKS: Final = re.compile(r"\s*+")
MARKUP: Final = re.compile(r"<(?=/?(?:tool_|tools>|think|arg_))")
HOW: Final = """\
To call one, write its name and then each argument, exactly so:

<tool_call>tool_name
<arg_key>first_parameter</arg_key>
<arg_value>value</arg_value>
<arg_key>second_parameter</arg_key>
<arg_value>value</arg_value>
</tool_call>

Write text as it is and other values as JSON.
"""


class GlmDriver(ResponseTagsDriver):
    """`<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>`.

    Values have no type, as with `qwen-coder`.
    """

    name = "glm"
    how = HOW
    markup = MARKUP
    families = re.compile(r"\bglm|chatglm")
    untyped: ClassVar[bool] = True

    def forms(self, tools: Sequence[ToolDefinition] = ()) -> list[Form]:
        """One: the two tags."""
        tags = Tags(OPENER, CLOSER, partial(_parse, TextParameters(tools)), value=VALUE, own=OWN)
        return [Form(OPENER, partial(TagBody, tags), (CLOSER, VALUE[1]))]

    def encode_calls(self, calls: Sequence[ToolCall]) -> str:
        """Return a block for each call."""
        return "\n".join(_write(call) for call in calls)


def _write(call: ToolCall) -> str:
    lines = [OPENER + call.name]
    for key, value in call.arguments.items():
        lines.append(write_key(key).join(KEY))
        lines.append(write_value(value, MARKUP).join(VALUE))
    return "\n".join([*lines, CLOSER])


def _skip_blanks(text: str, position: int) -> int:
    found = BLANKS.match(text, position)
    return found.end() if found else position


def _between(text: str, tags: tuple[str, str], position: int) -> tuple[str, int] | None:
    """What stands in a pair of tags that begins here, blanks aside, and where it ends."""
    position = _skip_blanks(text, position)
    end = text.find(tags[1], position)
    if end < 0 or not text.startswith(tags[0], position):
        return None
    return text[position + len(tags[0]) : end], end + len(tags[1])


def _parse(text_parameters: TextParameters, written: str) -> ToolCall | InvalidCall:
    found = NAME.match(written)
    if found is None:
        return invalid(written, "the call does not begin with a tool's name", "")
    name, position = found[1], found.end()
    arguments: dict[str, Any] = {}
    while _skip_blanks(written, position) < len(written):
        key = _between(written, KEY, position)
        value = _between(written, VALUE, key[1]) if key else None
        if key is None or value is None:
            problem = f"{name}: write each argument as <arg_key>name</arg_key><arg_value>value</arg_value>"
            return invalid(written, problem, name)
        parameter, position = read_key(key[0].strip()), value[1]
        arguments[parameter] = text_parameters.read(name, parameter, value[0].removeprefix("\n").removesuffix("\n"))
    return ToolCall("", name, arguments)
