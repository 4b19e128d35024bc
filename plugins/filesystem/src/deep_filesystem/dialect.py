"""The regular expressions of grep: Python's, with a part that ripgrep is given in a form that means the same there.

The two engines differ in what `\\w` is in Unicode, in case folding, in what `$` does before a carriage return, in
bytes that are not UTF-8. So a pattern of the common part is taken apart and written again for each, with such
things spelled out: `\\w`, `\\d`, `\\s`, `\\b` are ASCII, `(?i)` folds letter by letter, `$` also stands before the
carriage return of a CRLF. A pattern with anything else (look-around, back references, flags in the middle) is
searched by Python everywhere.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass

__all__ = ["BadPattern", "Dialect", "read_pattern"]

MAX_REPEAT = 100
"""A larger counted repetition is Python's alone: ripgrep refuses automata above a size."""
MAX_WAYS = 64
"""Ways to match at one place, from optional parts and alternatives, up to which a pattern is `simple`."""
_RUST_SPECIAL = frozenset(r"\.+*?()|[]{}^$#&-~")
_SHORTHAND = {"w": "0-9A-Za-z_", "d": "0-9", "s": r"\t\v\f\r\x20"}
_CONTROL = {"t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_POSIX_CLASS = re.compile(
    r"\[:\^?(?:alnum|alpha|ascii|blank|cntrl|digit|graph|lower|print|punct|space|upper|word|xdigit):\]"
)
_QUANTIFIER = re.compile(r"[*+?]|\{(\d*)(?:(,)(\d*))?\}")


class BadPattern(ValueError):
    """Not a regular expression; the message says why and where."""


class _NotCommon(Exception):
    """Something outside of the common part."""


@dataclass(frozen=True)
class Dialect:
    """A pattern, ready for each engine.

    Attributes:
        lines: for Python, on one line without its line feed.
        text: for Python with `re.MULTILINE`, on a whole text: no match crosses a line feed. None outside the common
            part.
        ripgrep: for ripgrep; None outside the common part.
        simple: matching takes at most the square of a line's length, so it may share the process.
        linear: matching takes time in proportion to the line's length.
    """

    lines: str
    text: str | None
    ripgrep: str | None
    simple: bool
    linear: bool


def read_pattern(pattern: str) -> Dialect:
    """Take a pattern apart.

    Raises:
        BadPattern: Python does not compile it, or it asks for a line feed, which no line has, or for a POSIX class,
            which Python takes for the letters of its name.
    """
    if posix := _POSIX_CLASS.search(pattern):
        raise BadPattern(f"{posix[0]} is no class here. Write \\s, \\d, \\w or a range such as [A-Za-z].")
    try:
        dialect = _Reader(pattern).read()
    except _NotCommon:
        dialect = Dialect(pattern, None, None, simple=False, linear=False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # FutureWarning of sets in classes: Python's meaning of today is meant
            re.compile(dialect.lines, re.ASCII if dialect.text is not None else 0)
    except (re.error, OverflowError, RecursionError) as error:
        raise BadPattern(f"invalid regular expression: {error}") from error
    return dialect


class _Anchors:
    """Holds `^` to the beginning and `$` to the end of the pattern or of an alternative.

    Elsewhere they are of little use, and ripgrep 13 finds nothing for `$a*^` in an empty line.
    """

    def __init__(self) -> None:
        self.begins = True
        self.ended = self.closed_anchored = False
        self.groups: list[tuple[bool, bool, bool]] = []
        self.group_begins, self.group_anchored, self.group_ended = True, False, False

    def before(self, char: str) -> None:
        """Look at the first character of the next token.

        Raises:
            _NotCommon: an anchor is, or has been, where it should not.
        """
        closed, self.closed_anchored = self.closed_anchored, False
        if char == ")" and self.groups:
            self.closed_anchored = anchored = self.group_anchored
            self.ended |= self.group_ended
            self.group_begins, outer_anchored, self.group_ended = self.groups.pop()
            self.group_anchored = outer_anchored or anchored
            self.begins = False
        elif char == "|":
            self.group_ended |= self.ended
            self.begins, self.ended = self.group_begins, False
        elif self.ended or (char == "^" and not self.begins) or (char in "*+?{" and closed):
            raise _NotCommon
        elif char == "(":
            self.groups.append((self.group_begins, self.group_anchored, self.group_ended))
            self.group_begins, self.group_anchored, self.group_ended = self.begins, False, False
        elif char in "^$":
            self.group_anchored = True
            self.ended = char == "$"
        else:
            self.begins = False


class _Reader:
    """One pass over the pattern that writes it three times."""

    def __init__(self, pattern: str) -> None:
        self.fold = pattern.startswith("(?i)")
        self.rest = pattern[4:] if self.fold else pattern
        self.at = 0
        self.lines: list[str] = []
        self.text: list[str] = []
        self.rust: list[str] = []
        self.ways = 1
        self.unbounded = 0
        self.nested = False

    def read(self) -> Dialect:
        # For each open group: whether anything in it makes a quantifier around it expensive.
        busy = [False]
        closed = False
        repeatable = False
        anchors = _Anchors()
        while self.at < len(self.rest):
            char = self.rest[self.at]
            anchors.before(char)
            quantifier = _QUANTIFIER.match(self.rest, self.at)
            if quantifier is not None and (char != "{" or quantifier.group(1)):
                if not repeatable:
                    raise _NotCommon
                self._repeat(quantifier)
                self.nested |= closed
                busy[-1] = True
                closed = repeatable = False
                continue
            self.at += 1
            closed, repeatable = False, True
            if char == "(":
                self._open()
                busy.append(False)
                repeatable = False
            elif char == ")":
                if len(busy) == 1:
                    raise _NotCommon
                self._write(")")
                closed = busy.pop()
                busy[-1] |= closed
            elif char == "|":
                self._write("|")
                self.ways *= 2
                busy[-1] = True
                repeatable = False
            elif char in "^$":
                self._anchor(char)
                repeatable = False
            elif char == ".":
                self._write(".")
            elif char == "[":
                self._class()
            elif char == "\\":
                repeatable = self._escape()
            else:
                self._literal(char)
        if len(busy) > 1:
            raise _NotCommon
        simple = not self.nested and self.unbounded <= 1 and self.ways <= MAX_WAYS
        linear = simple and not self.unbounded
        return Dialect("".join(self.lines), "".join(self.text), "".join(self.rust), simple, linear)

    def _write(self, python: str, rust: str | None = None, *, text: str | None = None) -> None:
        self.lines.append(python)
        self.text.append(python if text is None else text)
        self.rust.append(python if rust is None else rust)

    def _open(self) -> None:
        if self.rest.startswith("?", self.at):
            if not self.rest.startswith("?:", self.at):
                raise _NotCommon
            self.at += 2
        self._write("(?:")

    def _anchor(self, char: str) -> None:
        if char == "^":
            self._write(r"\A", "^", text="^")
        else:
            self._write(r"(?:\r?\Z)", r"(?:\r?$)", text=r"(?:\r?$)")

    def _repeat(self, quantifier: re.Match[str]) -> None:
        self.at = quantifier.end()
        least, comma, most = quantifier.groups()
        if quantifier.group()[0] == "{":
            if int(least) > MAX_REPEAT or (most and int(most) > MAX_REPEAT) or (comma and most and least > most):
                raise _NotCommon
            if comma and not most:
                self.unbounded += 1
            else:
                self.ways *= int(most or least) - int(least) + 1
        elif quantifier.group() == "?":
            self.ways *= 2
        else:
            self.unbounded += 1
        written = quantifier.group()
        if self.rest.startswith("?", self.at):
            written += "?"
            self.at += 1
        if _QUANTIFIER.match(self.rest, self.at) or self.rest.startswith("+", self.at):
            raise _NotCommon
        self._write(written)

    def _escape(self) -> bool:
        if self.at >= len(self.rest):
            raise _NotCommon
        char = self.rest[self.at]
        self.at += 1
        if char in _SHORTHAND:
            self._set(_SHORTHAND[char], negated=False)
        elif char.lower() in _SHORTHAND:
            self._set(_SHORTHAND[char.lower()], negated=True)
        elif char == "b":
            self._write(r"\b", r"(?-u:\b)")
            return False
        elif char == "n":
            raise BadPattern("grep looks at one line at a time: \\n never matches. Search for one of the lines.")
        elif char in _CONTROL:
            self._literal(_CONTROL[char])
        elif char.isalnum() or not char.isascii():
            raise _NotCommon
        else:
            self._literal(char)
        return True

    def _literal(self, char: str) -> None:
        if char == "\n":
            raise BadPattern("grep looks at one line at a time: the pattern has a line feed. Search for one line.")
        if char == "\0" or "\ud800" <= char <= "\udfff":
            raise _NotCommon
        both = self._cases(char)
        if len(both) > 1:
            self._set("".join(map(_in_class, both)), negated=False)
        else:
            self._write(re.escape(char), f"\\{char}" if char in _RUST_SPECIAL else char)

    def _cases(self, char: str) -> list[str]:
        forms = {char, char.lower(), char.upper()} if self.fold else {char}
        return sorted(form for form in forms if len(form) == 1)

    def _set(self, body: str, *, negated: bool) -> None:
        # A line feed stands in for bytes that are not UTF-8 (see linematch); nothing may match it.
        self._write(f"[^{body}\\n]" if negated else f"[{body}]", f"[^{body}]" if negated else f"[{body}]")

    def _class(self) -> None:
        negated = self.rest.startswith("^", self.at)
        self.at += negated
        body: list[str] = []
        first = True
        while first or not self.rest.startswith("]", self.at):
            low = self._item(body, first=first)
            first = False
            if low is None:
                continue
            if self.rest.startswith("-", self.at) and self.rest[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = self._item(body, first=False)
                if high is None or high < low:
                    raise _NotCommon
                body.append(self._range(low, high))
            else:
                body += [_in_class(form) for form in self._cases(low)]
        self.at += 1
        self._set("".join(body), negated=negated)

    def _range(self, low: str, high: str) -> str:
        parts = f"{_in_class(low)}-{_in_class(high)}"
        if not self.fold:
            return parts
        if not high.isascii():
            raise _NotCommon
        for first, last, other in (("a", "z", str.upper), ("A", "Z", str.lower)):
            start, end = max(low, first), min(high, last)
            if start <= end:
                parts += f"{other(start)}-{other(end)}"
        return parts

    def _item(self, body: list[str], *, first: bool) -> str | None:
        """One character of a class; None if it was a shorthand, which is then in `body`."""
        if self.at >= len(self.rest):
            raise _NotCommon
        char = self.rest[self.at]
        self.at += 1
        if char == "]" and not first:
            raise _NotCommon
        if char == "\\":
            if self.at >= len(self.rest):
                raise _NotCommon
            char = self.rest[self.at]
            self.at += 1
            if char in _SHORTHAND:
                body.append(_SHORTHAND[char])
                return None
            if char in _CONTROL:
                return _CONTROL[char]
            if char.isalnum() or not char.isascii():
                raise _NotCommon
        if char in "\n\0" or "\ud800" <= char <= "\udfff":
            raise _NotCommon
        return char


def _in_class(char: str) -> str:
    """A character in a class of either engine: ASCII punctuation and white space by number, so none is special."""
    return f"\\x{ord(char):02x}" if char.isascii() and not char.isalnum() else char
