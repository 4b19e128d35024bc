"""Calls as JSON without markers: what small models write whatever they were told, and Llama 3's own form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, cast

from ..calls import InvalidCall, ToolCall
from .json_body import ARGUMENTS, BESIDE, NAMES, WRAPPERS, calls_of, invalid, load_near, readable_name
from .scanner import Body, Form, Head

__all__ = ["bare_forms"]

BLANKS: Final = r"[ \t\r\n]{0,8}"
KEY: Final = (r"[\[{]", r"[\[{ \t\r\n]{0,12}", "[\"']?", "[a-z_]{1,16}", "[\"']?", BLANKS, "=:")
"""The brackets, and the first key with its colon."""
OPENER: Final = Head(*KEY)
FENCED: Final = Head("=```", "[A-Za-z_]{0,16}", r"[ \t\r]{0,8}", "=\n", r"[ \t\r\n]{0,16}", *KEY)
FIRST: Final = re.compile(r"""[\[{][\[{\s]*["']?([a-z_]+)["']?\s*:\Z""")
KEYS: Final = BESIDE | {*WRAPPERS, "tool_calls"}
WITH_ARGUMENTS: Final = re.compile(rf"""["'](?:{"|".join(ARGUMENTS)})["']\s*:""")
SIGN: Final = re.compile(r"""[^A-Za-z0-9_\s,:+\-.]""")
IN_STRING: Final = {'"': re.compile(r'["\\]'), "'": re.compile(r"['\\]")}
AFTER: Final = Head(r"[ \t\r;,]{0,8}", r"(?:\n|<|\[|\{|\Z)")
CLOSED: Final = re.compile(r"[ \t\r\n]{0,16}`{3,}[ \t\r]*(?=\n|\Z)")
CLOSING: Final = re.compile(r"[ \t\r\n]{0,16}`*[ \t\r]*\Z")
"""A beginning of what closes a fence."""


def bare_forms(own: bool) -> list[Form]:
    """Return the forms of calls without markers.

    Arguments:
        own: whether `{"name": …, "parameters": …}` is the dialect's own, and so a call of any tool. All else counts
            only if it names a tool that was offered.
    """
    bare = "own" if own else "offered"
    return [Form(OPENER, BareBody, bare=bare), Form(FENCED, FencedBody, bare="offered")]


class BareBody(Body):
    """JSON up to the bracket that closes it, at the start of a line and with nothing behind it."""

    def __init__(self, opening: str) -> None:
        super().__init__("")
        self._parts: list[str] = []
        self._begun = opening
        """The opening, until it is read again with what follows it."""
        found = FIRST.search(opening)
        self._is_text = found is None or found[1] not in KEYS
        self._depth = 0
        self._quote = ""
        self._values: list[str] = []
        self._value: list[str] = []
        self.native = False
        if self._is_text:
            self._parts, self._begun, self.done = [opening], "", True

    def read(self, text: str, position: int, final: bool) -> int:
        """Read up to the last bracket, and look at what follows it."""
        if self._begun:
            begun, self._begun = self._begun, ""
            self._read(begun, 0, final=False)
        return self._read(text, position, final)

    def _read(self, text: str, position: int, final: bool) -> int:
        while not self.done and position < len(text):
            if not self._depth and self._value:
                return self._after(text, position, final)
            stop = self._token(text, position, final)
            self._keep(text[position:stop])
            if stop == position:
                break
            position = stop
        if not self.done and not self._depth and self._value and (final or position < len(text)):
            return self._after(text, position, final)
        return position

    def _keep(self, part: str) -> None:
        self._parts.append(part)
        self._value.append(part)

    def _token(self, text: str, position: int, final: bool) -> int:
        """Return the end of the next bracket, string or escape."""
        found = (IN_STRING[self._quote] if self._quote else SIGN).search(text, position)
        self.examined += (found.end() if found else len(text)) - position
        if found is None:
            return len(text)
        sign = found[0]
        if sign == "\\":
            return found.end() + 1 if found.end() < len(text) else found.end() if final else found.start()
        if sign == self._quote:
            self._quote = ""
        elif sign in IN_STRING:
            self._quote = sign
        elif sign not in "[]{}":
            self.done = self.is_broken = True
            return found.start()
        else:
            self._depth += 1 if sign in "[{" else -1
        return found.end()

    def _after(self, text: str, position: int, final: bool) -> int:
        """Look at what follows a value: another one, the end of the line, or prose."""
        after = AFTER.match(text, position, final)
        self.examined += 9
        if after == "wait":
            return position
        self._values.append("".join(self._value))
        self._value = []
        if after is None:
            self.done = self._is_text = True
            return position
        if after[0][-1:] in ("[", "{"):
            self._parts.append(after[0][:-1])
            return after.end() - 1
        self.done = True
        self._parts.append(after[0].rstrip("\n<"))
        return position + len(after[0].rstrip("\n<"))

    def items(self) -> list[ToolCall | InvalidCall] | None:
        """The calls; None if it was text after all."""
        if self.is_broken:
            return self.cut_off()
        return None if self._is_text else self._calls(self._values)

    def cut_off(self) -> list[ToolCall | InvalidCall] | None:
        """The calls whose arguments are complete; an invalid one if they are not; None if it is text."""
        if self._is_text:
            return None
        calls = self._calls([*self._values, "".join([*self._value, self._begun])])
        if calls is None:
            self.is_broken = True
            whole = self.whole()
            self._parts, self._begun, self.back = [whole[:1]], "", whole[1:]
        return calls

    def _calls(self, values: Sequence[str]) -> list[ToolCall | InvalidCall] | None:
        calls: list[ToolCall | InvalidCall] = []
        for value in values:
            if not value.strip():
                continue
            try:
                found = load_near(value)
            except ValueError as error:
                name = readable_name(value.replace("'", '"'))
                if not name or not WITH_ARGUMENTS.search(value):
                    return None
                calls.append(invalid(value, f"the call is not valid JSON: {error}", name))
                continue
            if not _is_call(found):
                return None
            self.native = self.native or _is_llama(found)
            calls += calls_of(value)
        return calls or None

    def whole(self) -> str:
        """All that was read."""
        return "".join([*self._parts, self._begun])

    def raw(self) -> str:
        """What the model wrote."""
        return self.whole()


class FencedBody(Body):
    """A code fence that holds such JSON alone."""

    def __init__(self, opening: str) -> None:
        super().__init__(opening)
        begins = min(at for sign in "[{" if (at := opening.find(sign)) >= 0)
        self._json = BareBody(opening[begins:])
        self._head = opening[:begins]
        self._tail = ""
        self.native = False
        self.is_fence = True
        self.done = self._json.done

    def read(self, text: str, position: int, final: bool) -> int:
        """Read the JSON, then what closes the fence."""
        if not self._json.done:
            already = self._json.examined
            position = self._json.read(text, position, final)
            self.examined += self._json.examined - already
            if not self._json.done:
                return position
        self.examined += len(text) - position + 1
        closed = CLOSED.match(text, position)
        if closed and (final or closed.end() < len(text)):
            self._tail = closed[0]
            self.done = True
            return closed.end()
        if not final and CLOSING.match(text, position):
            return position
        self.done = True
        return position

    def items(self) -> list[ToolCall | InvalidCall] | None:
        """The calls; None if the fence holds anything else."""
        if not self._tail:
            self.is_broken = self._json.is_broken
            return None
        return self._json.items()

    def cut_off(self) -> list[ToolCall | InvalidCall] | None:
        """The calls: some models do not close their last fence."""
        calls = self._json.cut_off()
        self.is_broken = self._json.is_broken
        return calls

    def raw(self) -> str:
        """The fence as the model wrote it."""
        return self._head + self._json.whole() + self._json.back + self._tail


def _is_call(value: object) -> bool:
    """Whether JSON data has the shape of a call, or of a list of calls."""
    if isinstance(value, list):
        values = cast("list[object]", value)
        return bool(values) and all(map(_is_call, values))
    if not isinstance(value, dict):
        return False
    call = cast("dict[str, Any]", value)
    for key in (*WRAPPERS, "tool_calls"):
        if isinstance(call.get(key), dict | list):
            return _is_call(call[key])
    return any(isinstance(call.get(key), str) for key in NAMES) and call.keys() <= BESIDE


def _is_llama(value: object) -> bool:
    return isinstance(value, dict) and [*cast("dict[str, Any]", value)] in (
        ["name", "parameters"],
        ["type", "name", "parameters"],
    )
