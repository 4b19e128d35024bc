"""The dialect of Qwen3-Coder: `<function=…>` and `<parameter=…>` in `<tool_call>`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ..calls import InvalidCall, ToolCall
from .json_body import invalid
from .response_tags import ResponseTagsDriver
from .scanner import Form
from .tag_body import Envelope, EnvelopeTags, TagBody, Tags
from .values import TextParameters, read_key, write_key, write_value

if TYPE_CHECKING:
    from pydantic_ai.tools import ToolDefinition

__all__ = ["QwenCoderDriver"]

FUNCTION: Final = "<function="
FUNCTION_END: Final = "</function>"
PARAMETER: Final = "<parameter="
PARAMETER_END: Final = "</parameter>"
NAME: Final = re.compile(r"\s*([^<>\s]{1,128})\s*>")
MARKUP: Final = re.compile(r"<(?=/?(?:tool_|tools>|think|function|parameter))")
HOW: Final = """\
To call one, write its name and each argument in tags, exactly so:

<tool_call>
<function=tool_name>
<parameter=first_parameter>
value
</parameter>
<parameter=second_parameter>
a value
that spans lines
</parameter>
</function>
</tool_call>

Write text as it is and other values as JSON.
"""


class QwenCoderDriver(ResponseTagsDriver):
    """`<tool_call><function=name><parameter=key>value</parameter></function></tool_call>`.

    Values have no type: `scanner(tools)` reads a value as text if the tool's schema wants a string, and as JSON
    otherwise. Without the tools, a value that is JSON is read as JSON. The driver writes a text that looks like JSON or
    markup as a JSON string. The model often leaves out `<tool_call>`; the call still counts.
    """

    name = "qwen-coder"
    how = HOW
    markup = MARKUP
    families = re.compile(r"qwen.*coder")
    untyped: ClassVar[bool] = True

    def forms(self, tools: Sequence[ToolDefinition] = ()) -> list[Form]:
        """The function's tags, and the tag around them, which the model sometimes leaves out."""
        parse = partial(_parse, TextParameters(tools))
        tags = Tags(FUNCTION, FUNCTION_END, parse, value=(PARAMETER, PARAMETER_END))
        envelope = EnvelopeTags((FUNCTION,), "</tool_call>")
        return [
            Form("<tool_call>", partial(Envelope, envelope), ("</tool_call>",)),
            Form(FUNCTION, partial(TagBody, tags), (FUNCTION_END, PARAMETER_END)),
        ]

    def encode_calls(self, calls: Sequence[ToolCall]) -> str:
        """Return a block for each call."""
        return "\n".join(_write(call) for call in calls)


def _write(call: ToolCall) -> str:
    lines = ["<tool_call>", f"{FUNCTION}{call.name}>"]
    for key, value in call.arguments.items():
        lines += [f"{PARAMETER}{write_key(key)}>", write_value(value, MARKUP, framed=True), PARAMETER_END]
    return "\n".join([*lines, FUNCTION_END, "</tool_call>"])


def _parse(text_parameters: TextParameters, written: str) -> ToolCall | InvalidCall:
    found = NAME.match(written)
    if found is None:
        return invalid(FUNCTION + written, "the function has no name: write <function=name>", "")
    name, position = found[1], found.end()
    arguments: dict[str, Any] = {}
    while (start := written.find(PARAMETER, position)) >= 0:
        if written[position:start].strip():
            return invalid(written, f"{name}: there is text between the parameters", name)
        end = written.find(PARAMETER_END, start)
        middle = written.find(">", start)
        if not start < middle < end:
            return invalid(written, f"{name}: a parameter is not written as <parameter=name>value</parameter>", name)
        key = read_key(written[start + len(PARAMETER) : middle].strip())
        value = written[middle + 1 : end].removeprefix("\n").removesuffix("\n")
        arguments[key] = text_parameters.read(name, key, value)
        position = end + len(PARAMETER_END)
    if written[position:].strip():
        return invalid(written, f"{name}: there is text outside the parameters", name)
    return ToolCall("", name, arguments)
