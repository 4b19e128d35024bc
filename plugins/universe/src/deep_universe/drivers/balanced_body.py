"""A call that ends where its brackets close, as dialects write it that have no closing tag."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from ..calls import BareInput, InvalidCall, ToolCall
from .json_body import JsonPatterns, JsonText, calls_of, invalid, load, load_near
from .scanner import RAW_LIMIT, Head

__all__ = ["BalancedBody", "Bounds", "calls_of_elements"]

PAIRS: Final = {"}": "{", "]": "["}
DEEPEST: Final = 500
"""Brackets inside brackets: more are not JSON for any reader."""
ELEMENT: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{},]', re.DOTALL)


class Bounds:
    """Where a call in brackets begins, and what surely follows it.

    Arguments:
        heads: what may stand between the marker and the first bracket, longest first.
        boundaries: markers of what comes next: a call that reaches one was broken.
        parse: reads the head, with the marker, and the JSON.
    """

    def __init__(
        self,
        heads: Sequence[Head],
        boundaries: Sequence[str],
        parse: Callable[[str, str], list[ToolCall | InvalidCall]],
    ) -> None:
        self.heads, self.boundaries, self.parse = heads, frozenset(boundaries), parse
        self.patterns = JsonPatterns(boundaries, boundaries, boundaries, plain="")
        self.line = JsonPatterns(["\n"], ["\n"], ["\n"])


class BalancedBody(JsonText):
    """A head, and JSON up to the bracket that closes its first one.

    A boundary may be quoted in a string, or in what is broken. It counts only if the call seems to end there, and in a
    string only if the text turns out not to be JSON.
    """

    def __init__(self, bounds: Bounds, opening: str) -> None:
        super().__init__(bounds.patterns, opening, bounds.heads)
        self._bounds = bounds
        self._stack: list[str] = []
        self._candidate: int | None = None
        self._complete = False

    def _take(self, part: str) -> bool:
        intact = super()._take(part)
        if intact and not self._broken and not self._stack and part.strip():
            self._fail()
            return False
        return intact

    def _marker(self, what: str, inside: bool) -> int:
        if what in self._bounds.boundaries:
            if not inside and self._seems_closed(len(self._stack)):
                self.done = True
                return 0
            if inside and self._candidate is None and self._seems_closed(len(self._stack)):
                self._candidate = self._length
            self._broken = self._broken or not inside
            return self._keep(what)
        if self._broken and what == "\n":
            self.done = True
            return 0
        if what in "{[" and len(self._stack) < DEEPEST and (self._stack or not self._length):
            self._stack.append(what)
            self._last = what
            return self._keep(what)
        if what in "}]" and self._stack and self._stack[-1] == PAIRS[what]:
            self._stack.pop()
            self._last = what
            self.done = self._complete = not self._stack
            return self._keep(what)
        self._fail()
        return 0

    def _fail(self) -> None:
        if self._candidate is None:
            self._broken = True
            if not self._stack:  # no JSON at all: only this line belongs to the call
                self._patterns = self._bounds.line
            return
        text = self._written()
        self._parts = [text[: self._candidate]]
        self.back = text[self._candidate :]
        self.done = True

    def items(self) -> list[ToolCall | InvalidCall]:
        """The calls in the brackets."""
        if not self._complete:
            problem = "the call is not valid JSON: a string or a bracket is not closed"
            return self._near() or [self._invalid(problem)]
        return self._bounds.parse(self.opening + (self._head or ""), self._written())

    def cut_off(self) -> list[ToolCall | InvalidCall]:
        """An invalid call: its brackets are open. What only has slips is read."""
        problem = "the reply was cut off in the call: write it again, shorter if it is long"
        return self._near() or [self._invalid(problem)]

    def _near(self) -> list[ToolCall | InvalidCall] | None:
        """Read brackets that are balanced, with slips inside; or a line without any. None if it is neither."""
        written = self._written().strip()
        if not written:
            return None
        if self._stack:
            try:
                load_near(written)
            except ValueError:
                return None
        calls = self._bounds.parse(self.opening + (self._head or ""), written)
        return calls if self._stack or any(isinstance(call, BareInput) for call in calls) else None

    def _invalid(self, problem: str) -> InvalidCall:
        written = self._written()[:RAW_LIMIT]
        named = self._bounds.parse(self.opening + (self._head or ""), "{}")[0].name
        raw = self.opening + (self._head or "") + written
        return invalid(raw, problem, named) if named else invalid(raw, problem)

    def raw(self) -> str:
        """The markup as the model wrote it."""
        return self.opening + (self._head or "") + self._written()


def calls_of_elements(written: str) -> list[ToolCall | InvalidCall]:
    """Read a JSON list of calls, or one call. If the list is not JSON, read each of its elements alone."""
    try:
        load(written)
    except ValueError:
        if written.startswith("["):
            return [call for element in _elements(written) for call in calls_of(element)]
    return calls_of(written)


def _elements(written: str) -> list[str]:
    """The elements of a list whose brackets are balanced."""
    elements: list[str] = []
    depth, start = 0, 1
    for found in ELEMENT.finditer(written):
        if found[0] in "[{":
            depth += 1
        elif found[0] in "]}":
            depth -= 1
        if (found[0] == "," and depth == 1) or (found[0] == "]" and depth == 0):
            elements.append(written[start : found.start()].strip())
            start = found.end()
    return elements
