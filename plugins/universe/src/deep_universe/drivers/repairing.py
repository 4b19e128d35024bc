"""JSON that a small model wrote with a slip: read where it has one meaning, refused where it has several."""

from __future__ import annotations

import json
import re
from typing import Any, Final, cast

__all__ = ["repair"]

DEEPEST: Final = 200
"""Brackets inside brackets."""
BLANKS: Final = re.compile(r"\s*+")
STRINGS: Final = {
    '"': re.compile(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL),
    "'": re.compile(r"'((?:[^'\\]++|\\.)*+)'", re.DOTALL),
}
NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?(?![A-Za-z0-9_.])")
WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+")
WORDS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
"""JSON's, and Python's: models that write single quotes write these too."""
ESCAPED: Final = re.compile(r'\\(.)|"', re.DOTALL)
SURPLUS: Final = re.compile(r"[\s}\],;]*+\Z")
"""What may follow whole JSON: a bracket too many, or a comma."""


def repair(text: str) -> object:
    """Read JSON with slips that leave one meaning.

    These are: a comma before a closing bracket, single quotes and Python's words, names without quotes, doubled braces
    as templates print them, a bracket too many, and one brace too few around a call whose arguments are closed. Where
    a brace is missing deeper inside, a value could belong to either object, so it is refused; so are strings that are
    not closed.

    Raises:
        ValueError: it has no meaning, or more than one.
    """
    reader = _Reader(text)
    value = reader.value()
    if not SURPLUS.match(text, reader.at):
        raise ValueError(f"something follows the JSON at character {reader.at}")
    if reader.is_short and _objects(value) > 2 + ("function" in cast("dict[str, Any]", value)):
        raise ValueError("a closing brace is missing, and it is not clear where")
    return value


def _objects(value: object) -> int:
    """How many objects stand inside one another."""
    inner: list[object] = []
    if isinstance(value, dict):
        inner = [*cast("dict[str, object]", value).values()]
    elif isinstance(value, list):
        inner = cast("list[object]", value)
    return isinstance(value, dict) + max(map(_objects, inner), default=0)


class _Reader:
    """Reads one value from a text.

    Attributes:
        at: how far it has read.
        is_short: whether the outermost object was not closed.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._depth = 0
        self.at = 0
        self.is_short = False

    def value(self) -> Any:
        sign = self._peek()
        if sign in STRINGS:
            return self._string(sign)
        if sign in ("{", "["):
            self._depth += 1
            if self._depth > DEEPEST:
                raise ValueError("it is nested too deeply")
            self.at += 1
            found = self._object() if sign == "{" else self._list()
            self._depth -= 1
            return found
        if number := NUMBER.match(self._text, self.at):
            self.at = number.end()
            return json.loads(number[0])
        word = WORD.match(self._text, self.at)
        if word is None or word[0] not in WORDS:
            raise ValueError(f"a value is missing at character {self.at}")
        self.at = word.end()
        return WORDS[word[0]]

    def _peek(self) -> str:
        """The next character that is not blank; empty at the end."""
        blanks = BLANKS.match(self._text, self.at)
        self.at = blanks.end() if blanks else self.at
        return self._text[self.at : self.at + 1]

    def _string(self, quote: str) -> str:
        found = STRINGS[quote].match(self._text, self.at)
        if found is None:
            raise ValueError(f"the string at character {self.at} is not closed")
        self.at = found.end()
        # \' means one thing, though JSON has no such escape.
        inner = ESCAPED.sub(lambda each: '\\"' if each[0] == '"' else "'" if each[1] == "'" else each[0], found[1])
        return json.loads(f'"{inner}"', strict=False)

    def _object(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self._peek() == "{":  # doubled by a template
            found = self.value()
            self._close("}")
            return found
        while self._peek() != "}":
            key = self._key()
            if self._peek() != ":":
                raise ValueError(f"a colon is missing at character {self.at}")
            self.at += 1
            if key in found:
                raise ValueError(f"{key!r} stands twice in an object")
            found[key] = self.value()
            if self._ends_short():
                return found
            if not self._comma("}"):
                break
        self._close("}")
        return found

    def _ends_short(self) -> bool:
        """Whether only the outermost brace is missing: the text ends with another closing one."""
        self.is_short = self._depth == 1 and not self._peek() and self._text.rstrip()[-1:] == "}"
        return self.is_short

    def _key(self) -> str:
        sign = self._peek()
        if sign in STRINGS:
            return self._string(sign)
        word = WORD.match(self._text, self.at)
        if word is None:
            raise ValueError(f"a name is missing at character {self.at}")
        self.at = word.end()
        return word[0]

    def _list(self) -> list[Any]:
        found: list[Any] = []
        while self._peek() != "]":
            found.append(self.value())
            if not self._comma("]"):
                break
        self._close("]")
        return found

    def _comma(self, closer: str) -> bool:
        """Read a comma; return whether there may be more. Another comma in place of a value is an error."""
        if self._peek() != ",":
            return False
        self.at += 1
        return self._peek() != closer

    def _close(self, closer: str) -> None:
        if self._peek() != closer:
            raise ValueError(f"{closer} is missing at character {self.at}")
        self.at += 1
