"""Calls as `<invoke name="…">` with `<parameter name="…">`, which several dialects share."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from ..calls import InvalidCall, ToolCall
from .json_body import invalid
from .tag_body import Tags

__all__ = ["InvokeTags"]

ATTRIBUTE: Final = re.compile(r'\s*+([A-Za-z_]++)\s*+=\s*+"([^"<>]*+)"')
END: Final = re.compile(r"\s*+>")
BLANKS: Final = re.compile(r"\s*+")
ReadValue = Callable[[str, str, dict[str, str], str], object]


class InvokeTags:
    """The tags, all with the same prefix.

    Attributes:
        calls: the tags around all calls.
        opener: what opens a call.
        closers: tags that are dropped after a call.
    """

    def __init__(self, prefix: str = "") -> None:
        self.calls = (f"<{prefix}function_calls>", f"</{prefix}function_calls>")
        self.opener = f"<{prefix}invoke "
        self._closer = f"</{prefix}invoke>"
        self._value = (f"<{prefix}parameter ", f"</{prefix}parameter>")
        self.closers = (self.calls[1], self._closer, self._value[1])

    def tags(self, read_value: ReadValue, read_name: Callable[[str], str] = str) -> Tags:
        """What a `TagBody` needs.

        Arguments:
            read_value: reads a value of a tool's parameter, given the attributes of its tag. Raises `ValueError`.
            read_name: reads a name in an attribute. Raises `ValueError`.
        """
        return Tags(self.opener, self._closer, partial(self._parse, read_value, read_name), value=self._value)

    def _parse(self, read_value: ReadValue, read_name: Callable[[str], str], written: str) -> ToolCall | InvalidCall:
        name = ""
        try:
            attributes, position = _attributes(written, 0)
            name = read_name(attributes["name"])
            arguments: dict[str, Any] = {}
            while (position := _skip_blanks(written, position)) < len(written):
                if not written.startswith(self._value[0], position):
                    raise ValueError("there is text outside the parameters")
                attributes, start = _attributes(written, position + len(self._value[0]))
                end = written.find(self._value[1], start)
                if end < 0:
                    raise ValueError("a parameter is not closed")
                key = read_name(attributes["name"])
                value = written[start:end].removeprefix("\n").removesuffix("\n")
                arguments[key] = read_value(name, key, attributes, value)
                position = end + len(self._value[1])
        except KeyError:
            return invalid(self.opener + written, f'a tag has no name: write {self.opener}name="…">', name)
        except ValueError as error:
            return invalid(self.opener + written, f"{name or 'the call'}: {error}", name)
        if not name:
            return invalid(self.opener + written, "the tool's name is empty", "")
        return ToolCall("", name, arguments)


def _skip_blanks(text: str, position: int) -> int:
    found = BLANKS.match(text, position)
    return found.end() if found else position


def _attributes(text: str, position: int) -> tuple[dict[str, str], int]:
    """The attributes of the tag that is open here, and where it ends."""
    attributes: dict[str, str] = {}
    while found := ATTRIBUTE.match(text, position):
        attributes[found[1]] = found[2]
        position = found.end()
    end = END.match(text, position)
    if end is None:
        raise ValueError('a tag is not written as <tag attribute="value">')
    return attributes, end.end()
