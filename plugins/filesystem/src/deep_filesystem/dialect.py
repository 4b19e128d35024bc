"""The regular expressions of grep: Python's, with a subset that ripgrep reads in an equivalent form.

The two engines differ in `\\w` for Unicode, in case folding, in `$` before a carriage return, and in bytes that are
not UTF-8. So a pattern of the common subset is parsed and written for each engine with these
spelled out: `\\w`, `\\d`, `\\s`, `\\b` are ASCII, `(?i)` folds letter by letter, `$` also matches before the
carriage return of a CRLF. A pattern outside the subset (look-around, back references, flags in the middle) is
always searched by Python.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, replace

__all__ = ["NOT_UTF8", "BadPattern", "Dialect", "read_pattern"]

MAX_REPEAT = 100
"""Maximum counted repetition for ripgrep, which rejects automata above a size."""
MAX_WAYS = 64
"""Maximum ways to match at one position, from optional parts and alternatives, for a `simple` pattern."""
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
    """Not part of the common subset."""


@dataclass(frozen=True)
class Dialect:
    """A pattern for each engine.

    Attributes:
        lines: for Python, on one line without its line feed.
        text: for Python with `re.MULTILINE`, on a whole text: no match crosses a line feed. None outside the
            subset.
        ripgrep: for ripgrep; None outside the subset.
        simple: matching takes at most quadratic time in a line's length, so it may run in this process.
        linear: matching takes linear time in a line's length.
        needle: what every line that matches has in it, in UTF-8; b"" if nothing is known.
        foreign: whether it asks for characters that are not ASCII, and so may be written in other bytes than UTF-8's.
    """

    lines: str
    text: str | None
    ripgrep: str | None
    simple: bool
    linear: bool
    needle: bytes = b""
    foreign: bool = False


_NEXT, _AFTER = r"[\x80-\xbf]", r"(?:[^\x80-\xbf]|$)"
NOT_UTF8 = Dialect(
    "[\udc80-\udcff]",
    None,
    # As many characters as there are, then what begins none: `.` is a whole character, even here.
    rf"^.*?(?-u:[\x80-\xc1\xf5-\xff]|[\xc2-\xf4]{_AFTER}|\xe0[\x80-\x9f]|\xed[\xa0-\xbf]|\xf0[\x80-\x8f]"
    rf"|\xf4[\x90-\xbf]|[\xe0-\xf4]{_NEXT}{_AFTER}|[\xf0-\xf4]{_NEXT}{{2}}{_AFTER})",
    simple=True,
    linear=True,
)
"""What a line that is not UTF-8 has."""


def read_pattern(pattern: str) -> Dialect:
    """Parse a pattern.

    Raises:
        BadPattern: Python cannot compile it, or it asks for a line feed, which no line has, or for a POSIX class,
            which Python reads as the letters of its name.
    """
    if posix := _POSIX_CLASS.search(pattern):
        raise BadPattern(f"{posix[0]} is not supported. Write \\s, \\d, \\w or a range such as [A-Za-z].")
    try:
        dialect = _Reader(pattern).read()
    except _NotCommon:
        dialect = Dialect(pattern, None, None, simple=False, linear=False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # FutureWarning of sets in classes: Python's present meaning is intended
            re.compile(dialect.lines, re.ASCII if dialect.text is not None else 0)
    except (re.error, OverflowError, RecursionError) as error:
        raise BadPattern(f"invalid regular expression: {error}") from error
    return dialect if pattern.isascii() else replace(dialect, foreign=True)


class _Anchors:
    """Restrict `^` to the beginning and `$` to the end of the pattern or of an alternative.

    Elsewhere they are rarely useful, and ripgrep 13 does not find `$a*^` in an empty line.
    """

    def __init__(self) -> None:
        self.begins = True
        self.ended = self.closed_anchored = False
        self.groups: list[tuple[bool, bool, bool]] = []
        self.group_begins, self.group_anchored, self.group_ended = True, False, False

    def before(self, char: str) -> None:
        """Check the first character of the next token.

        Raises:
            _NotCommon: an anchor is in the wrong place.
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
    """Parse the pattern once and write it for each engine."""

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
        self.depth = 0
        self.letters: list[str] = []
        """What is written, token by token: a letter that a match has, or "\n" for any other token."""
        self.alternatives = False

    def read(self) -> Dialect:
        # For each open group: whether a quantifier around it would be expensive.
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
                self.depth += 1
                busy.append(False)
                repeatable = False
            elif char == ")":
                if len(busy) == 1:
                    raise _NotCommon
                self._write(")")
                self.depth -= 1
                closed = busy.pop()
                busy[-1] |= closed
            elif char == "|":
                self._write("|")
                self.alternatives |= not self.depth
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
        needle = "" if self.alternatives else max("".join(self.letters).split("\n"), key=len)
        return Dialect("".join(self.lines), "".join(self.text), "".join(self.rust), simple, linear, needle.encode())

    def _write(
        self, python: str, rust: str | None = None, *, text: str | None = None, letter: str | None = None
    ) -> None:
        self.letters.append(letter if letter is not None and not self.depth else "\n")
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
        if written[0] in "*?" or not int(least or 1):
            self.letters.pop()
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
            raise BadPattern("grep searches line by line: \\n never matches. Search for one of the lines.")
        elif char in _CONTROL:
            self._literal(_CONTROL[char])
        elif char.isalnum() or not char.isascii():
            raise _NotCommon
        else:
            self._literal(char)
        return True

    def _literal(self, char: str) -> None:
        if char == "\n":
            raise BadPattern("grep searches line by line, and the pattern has a line feed. Search for one line.")
        if char == "\0" or "\ud800" <= char <= "\udfff":
            raise _NotCommon
        both = self._cases(char)
        if len(both) > 1:
            self._set("".join(map(_in_class, both)), negated=False)
        else:
            self._write(re.escape(char), f"\\{char}" if char in _RUST_SPECIAL else char, letter=char)

    def _cases(self, char: str) -> list[str]:
        forms = {char, char.lower(), char.upper()} if self.fold else {char}
        return sorted(form for form in forms if len(form) == 1)

    def _set(self, body: str, *, negated: bool) -> None:
        # A line feed replaces bytes that are not UTF-8 (see linematch); nothing may match it.
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
        """Read one character of a class; None for a shorthand, which is then in `body`."""
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
    """Write a class character for either engine: ASCII punctuation and white space as numbers, so none is special."""
    return f"\\x{ord(char):02x}" if char.isascii() and not char.isalnum() else char
