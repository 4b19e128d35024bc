"""A dialect for any model: calls, tools and results as XML, escaped both ways."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ..calls import ToolCall, ToolResult
from .invoke import InvokeTags
from .json_body import dump, json_value, load
from .scanner import Form
from .tag_body import Envelope, EnvelopeTags, TagBody
from .text import TextDriver
from .values import TextParameters

if TYPE_CHECKING:
    from pydantic_ai.tools import ToolDefinition

__all__ = ["XmlDriver"]

INVOKE: Final = InvokeTags()
ENTITY: Final = re.compile(r"&(#[0-9]{1,8}|#x[0-9a-fA-F]{1,8}|[A-Za-z][A-Za-z0-9._-]*);")
ENTITIES: Final = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
"""The five of XML. A reply has no document type, so it cannot define more."""
FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
THINK: Final = re.compile(r"<(?=/?think)")
HOW: Final = """
To call a tool, write its name and each argument in tags, exactly so:

<function_calls>
<invoke name="tool_name">
<parameter name="first">text, with &lt; for "less than" and &amp; for "and"</parameter>
<parameter name="second" type="json">[1, 2]</parameter>
</invoke>
</function_calls>

Mark what is not text, such as numbers, lists and objects, with type="json". Write several <invoke> to make several \
calls. Do not put calls in a code fence or in backticks, and do not invent results: stop after your calls. The results \
come in the next message, in <function_results>. If you need no tool, answer as usual.
"""


class XmlDriver(TextDriver):
    """`<invoke name="…"><parameter name="…">…</parameter></invoke>` in `<function_calls>`.

    Escaped both ways. What is not text is marked `type="json"`. The five entities of XML and numbers are read; any
    other entity makes the call invalid, and a document type in a reply is plain text: there is nothing to expand.
    """

    name = "xml"
    families = re.compile(r"(?!)")
    untyped: ClassVar[bool] = True

    def forms(self, tools: Sequence[ToolDefinition] = ()) -> list[Form]:
        """The call's tags, and those around all calls."""
        tags = INVOKE.tags(partial(_read_value, TextParameters(tools)), unescape)
        return [
            Form(INVOKE.calls[0], partial(Envelope, EnvelopeTags((INVOKE.opener,), INVOKE.calls[1])), INVOKE.closers),
            Form(INVOKE.opener, partial(TagBody, tags)),
        ]

    def render(self, tools: Sequence[ToolDefinition]) -> str:
        """Return an XML document: how to call, and each tool."""
        if not tools:
            return "<tools/>"
        lines = ["<tools>", f"<usage><![CDATA[{HOW}]]></usage>"]
        for tool in tools:
            described = [f"<description>{escape(tool.description)}</description>"] if tool.description else []
            schema = escape(json.dumps(tool.parameters_json_schema, ensure_ascii=False))
            lines += [f'<tool name="{escape(tool.name)}">', *described, f"<parameters>{schema}</parameters>", "</tool>"]
        return "\n".join([*lines, "</tools>"])

    def encode_calls(self, calls: Sequence[ToolCall]) -> str:
        """Return one block with every call."""
        return "\n".join([INVOKE.calls[0], *map(_write, calls), INVOKE.calls[1]])

    def encode_results(self, results: Sequence[ToolResult]) -> str:
        """Return one block with every result."""
        lines = ["<function_results>"]
        for result in results:
            tag, value = ("result", json_value(result.result)) if result.error is None else ("error", result.error)
            text = value if isinstance(value, str) else dump(value)
            lines.append(f'<{tag} tool="{escape(str(result.meta.get("tool", "")))}">{escape(text)}</{tag}>')
        return "\n".join([*lines, "</function_results>"])


def escape(text: str) -> str:
    """Escape text for XML; characters that XML forbids become U+FFFD."""
    return FORBIDDEN.sub("\ufffd", html.escape(text, quote=True))


def unescape(text: str) -> str:
    """Read escaped text.

    Raises:
        ValueError: an entity is none of the five of XML, or a number is no character.
    """

    def character(found: re.Match[str]) -> str:
        name = found[1]
        if not name.startswith("#"):
            if name not in ENTITIES:
                raise ValueError(f"the entity &{name}; is not known: write &amp;{name}; for the text")
            return ENTITIES[name]
        number = int(name[2:], 16) if name.startswith("#x") else int(name[1:])
        if number > 0x10FFFF or 0xD800 <= number < 0xE000:
            raise ValueError(f"&{name}; is not a character")
        return chr(number)

    return ENTITY.sub(character, text)


def _write(call: ToolCall) -> str:
    lines = [f'<invoke name="{html.escape(call.name)}">']
    for key, value in call.arguments.items():
        if isinstance(value, str):
            text = html.escape(value, quote=False)
            if text.startswith("\n"):
                text = "&#10;" + text[1:]
            if text.endswith("\n"):
                text = text[:-1] + "&#10;"
            kind = ""
        else:
            text, kind = html.escape(json.dumps(value, ensure_ascii=False), quote=False), ' type="json"'
        lines.append(f'<parameter name="{html.escape(key)}"{kind}>{text}</parameter>')
    return "\n".join([*lines, "</invoke>"])


def _read_value(parameters: TextParameters, tool: str, key: str, attributes: dict[str, str], written: str) -> Any:
    text = unescape(written)
    if attributes.get("type") != "json":
        return parameters.read(tool, key, text, unknown_is_text=True)
    try:
        value = load(text)
        return parameters.read(tool, key, text) if tool in parameters.tools else value
    except ValueError as error:
        raise ValueError(f'{key} is marked type="json" and is not valid JSON: {error}') from None
