"""Match the lines of a file: the part of grep that may run in its own process.

Uses only the standard library and nothing of this package: as a script it is started by path, reads a request and
files from standard input and answers on standard output. A regular expression holds the interpreter's lock while it
matches, so only a process can be stopped.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
import warnings
from dataclasses import dataclass
from typing import BinaryIO

__all__ = ["LineMatcher", "Lines", "is_binary", "longest_line", "shown_line", "text_of"]

LONG_LINE = 4000
"""Maximum bytes of UTF-8 in a matching line that is shown, by either engine (ripgrep's --max-columns)."""
_STRAY = re.compile("[\udc80-\udcff]+")


@dataclass(frozen=True)
class Lines:
    """The matches in a file.

    Attributes:
        count: matching lines.
        shown: the first of them: 1-based number, text without its line ending; None for a line that is too long.
    """

    count: int
    shown: list[tuple[int, str | None]]


def is_binary(data: bytes) -> bool:
    """Whether `text_of` returns None, without a copy of most files."""
    return b"\0" in data and text_of(data) is None


def text_of(data: bytes) -> str | None:
    """Decode a file as ripgrep does, with bytes that are not UTF-8 as surrogates; None for a binary file.

    UTF-16 only with its byte order mark; a file with a NUL byte is binary.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = data.decode("utf-16", "replace")
        return None if "\0" in text else text
    if b"\0" in data:
        return None
    return data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")


def longest_line(text: str) -> int:
    """Characters of the longest line."""
    return max(map(len, text.split("\n")))


class LineMatcher:
    """Match lines with a pattern. The two forms are those of `dialect.Dialect`."""

    def __init__(self, lines: str, text: str | None) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._common = text is not None
            self._lines = re.compile(lines, re.ASCII if text is not None else 0)
            self._text = re.compile(text, re.ASCII | re.MULTILINE) if text is not None else None

    def match(self, text: str, most: int, offset: int = 0, *, first: bool = False) -> Lines:
        """Find the lines of a text that match.

        Args:
            text: with its line endings.
            most: maximum lines to show.
            offset: lines before the text, added to the numbers.
            first: whether one line is enough: then the others may not be counted.
        """
        if self._text is not None and (text.isascii() or not _STRAY.search(text)):
            return self._in_text(self._text, text, most, offset, first)
        return self._in_lines(text, most, offset)

    def _in_text(self, pattern: re.Pattern[str], text: str, most: int, offset: int, first: bool) -> Lines:
        count, number, counted, at = 0, offset + 1, 0, 0
        shown: list[tuple[int, str | None]] = []
        while at <= len(text):
            match = pattern.search(text, at)
            if match is None:
                break
            start = text.rfind("\n", 0, match.start()) + 1
            if start == len(text):
                break  # there is no line after the last line feed
            end = text.find("\n", start)
            end = len(text) if end < 0 else end
            count += 1
            if len(shown) < most:
                number += text.count("\n", counted, start)
                counted = start
                shown.append((number, _format(text[start:end])))
            if first:
                break
            at = end + 1
        return Lines(count, shown)

    def _in_lines(self, text: str, most: int, offset: int) -> Lines:
        count = 0
        shown: list[tuple[int, str | None]] = []
        lines = text.split("\n")
        if not lines[-1]:
            lines.pop()
        for number, line in enumerate(lines, offset + 1):
            # Outside the subset a carriage return before the line feed does not belong to the line.
            subject = _STRAY.sub("\n", line) if self._common else line.removesuffix("\r")
            if self._lines.search(subject):
                count += 1
                if len(shown) < most:
                    shown.append((number, _format(line)))
        return Lines(count, shown)


def _format(line: str) -> str | None:
    # A line with more than four bytes per character is too long anyway; only the others need the copy.
    return (
        None
        if len(line) > LONG_LINE
        else shown_line(line.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
    )


def shown_line(line: str) -> str | None:
    """Format a matching line: without its carriage return, invalid bytes as U+FFFD; None if it is too long."""
    return None if len(line.replace("\ufffd", "?").encode()) > LONG_LINE else line.removesuffix("\r")


def _serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Read a JSON line with the pattern, then for each text a JSON line and the text; answer each with a JSON line."""
    setup = json.loads(requests.readline())
    matcher = LineMatcher(setup["lines"], setup["text"])
    while header := requests.readline():
        request = json.loads(header)
        text = requests.read(request["size"]).decode("utf-8", "surrogateescape")
        found = matcher.match(text, request["most"], request["offset"])
        answers.write(json.dumps([found.count, found.shown]).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
