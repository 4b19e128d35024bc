"""The edit engine: replace text in a file's bytes and change nothing else."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from .codec import Codec
from .nearest import describe_nearest
from .newlines import Endings, Folded, fold, restyle, styles

__all__ = ["Edited", "Refused", "Span", "Spans", "edit_bytes"]

MAX_NAMED = 10
"""Maximum occurrences whose line numbers a message lists."""
MAX_REPLACED = 5_000_000
"""Maximum replacements of one edit: 120 MB of positions."""
PART = 4_096
"""Pieces to join at a time: as separate objects, a million short ones take fifty times their text."""


class Refused(ValueError):
    """The edit is impossible; the message tells the model why and what to do. Nothing was changed."""


class Span(NamedTuple):
    """A replaced range: bytes `start` to `end` of the old content became `length` bytes."""

    start: int
    end: int
    length: int


@dataclass(frozen=True)
class Spans:
    """Replaced ranges, ascending; all other bytes are unchanged."""

    _numbers: array[int] = field(default_factory=lambda: array("Q"))

    def add(self, start: int, end: int, length: int) -> None:
        """Append a range."""
        self._numbers.extend((start, end, length))

    def __len__(self) -> int:
        return len(self._numbers) // 3

    def __iter__(self) -> Iterator[Span]:
        numbers = iter(self._numbers)
        return map(Span, numbers, numbers, numbers)


@dataclass(frozen=True)
class Edited:
    """The result of an edit.

    Attributes:
        data: the new content.
        lines: the 1-based line of the first `MAX_NAMED` replacements, in the old content.
        spans: the replaced ranges.
    """

    data: bytes
    lines: tuple[int, ...]
    spans: Spans


def _continue() -> None:
    """Never stop an edit."""


def edit_bytes(
    data: bytes,
    codec: Codec,
    old: str,
    new: str,
    *,
    replace_all: bool = False,
    limit: int = sys.maxsize,
    check: Callable[[], None] = _continue,
) -> Edited:
    """Replace `old` by `new` in a file's content, in time linear in both.

    `check` is called all the time; what it raises stops the edit. All replacements have at most `limit` bytes.

    Both texts use LF. In a file with CRLF, the replacement takes the line endings of the lines it replaces, then the
    ending used there.

    Raises:
        Refused: `old` is empty, equal to `new`, absent, or not unique without `replace_all`.
        NotText: the content is not valid in `codec`.
        Unencodable: `new` has a character that the file's encoding lacks.
    """
    if not old:
        raise Refused("old_string is empty. Give the exact text to replace; use write_file for a new file.")
    old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    if old == new:
        raise Refused("old_string and new_string are equal: nothing to change.")
    folded = fold(codec.decode(data))
    check()
    if old not in folded.text:
        hint = describe_nearest(folded.text, old, check)
        raise Refused(f"old_string is not in the file. {hint or 'Read the file again and copy the text exactly.'}")
    starts = _starts(folded.text, old, check)
    if not replace_all:
        _check_unique(folded.text, old)
    return _replace(data, folded, codec, starts, len(old), new, limit)


def _starts(text: str, old: str, check: Callable[[], None]) -> Iterator[int]:
    """Find every match, from left to right and apart."""
    at = text.find(old)
    for number in range(MAX_REPLACED):
        if at < 0:
            return
        if number % PART == 0:
            check()
        yield at
        at = text.find(old, at + len(old))
    if at >= 0:
        raise Refused(f"old_string occurs more than {MAX_REPLACED:,} times: too many for one edit. Use a command.")


def _check_unique(text: str, old: str) -> None:
    """Raise `Refused` for a second match. Overlapping ones count: "aa" in "aaa" is as ambiguous as two apart."""
    starts: list[int] = []
    at = text.find(old)
    while at >= 0 and len(starts) <= MAX_NAMED:
        starts.append(at)
        at = text.find(old, at + 1)
    if len(starts) == 1:
        return
    count = len(starts) if len(starts) <= MAX_NAMED else max(len(starts), text.count(old))
    named = ", ".join(map(str, _line_numbers(text, starts[:MAX_NAMED])))
    more = f" and {count - MAX_NAMED} more" if count > MAX_NAMED else ""
    raise Refused(
        f"old_string occurs {count} times, in lines {named}{more}. "
        "Add the lines around the one you mean, or set replace_all."
    )


def _replace(
    data: bytes, folded: Folded, codec: Codec, starts: Iterator[int], length: int, new: str, limit: int
) -> Edited:
    """Put the new text between copies of the old bytes: some encodings have two codes for a character."""
    raw = folded.raw
    joined: list[bytes] = []
    pieces: list[bytes] = []
    spans = Spans()
    endings = Endings(folded)
    named: list[int] = []
    multiline = "\n" in new
    done = copied = 0
    at = len(codec.mark)
    text, encoded = "", b""
    for start in starts:
        first, last = folded.to_raw(start), folded.to_raw(start + length)
        before, text = text, new
        if multiline:
            taken = styles(raw[first:last])
            text = restyle(new, taken, taken[-1] if taken else endings.at(start))
        # The text before a match gives its first byte.
        at += _size(codec, raw[done:first])
        end = at + _size(codec, raw[first:last])
        if not spans or text != before:
            encoded = _encode(codec, raw[:first] if not spans else "", text)
        limit -= len(encoded)
        if limit < 0:
            raise Refused("The file would become too large: replace fewer occurrences, or use a command.")
        spans.add(at, end, len(encoded))
        pieces += [data[copied:at], encoded]
        if len(pieces) >= PART:
            joined.append(b"".join(pieces))
            pieces.clear()
        if len(named) < MAX_NAMED:
            named.append(start)
        at, done, copied = end, last, end
    joined.append(b"".join([*pieces, data[copied:]]))
    return Edited(b"".join(joined), tuple(_line_numbers(folded.text, named)), spans)


def _encode(codec: Codec, before: str, text: str) -> bytes:
    """Encode a replacement. `Unencodable` has the line of the result, for which it needs the text before."""
    try:
        return text.encode(codec.name, codec.errors)
    except UnicodeEncodeError:
        codec.encode(before + text)
        raise


def _size(codec: Codec, text: str) -> int:
    return len(text) if codec.unit == 1 and text.isascii() else len(text.encode(codec.name, codec.errors))


def _line_numbers(text: str, starts: list[int]) -> list[int]:
    numbers: list[int] = []
    line, done = 1, 0
    for start in starts:
        line += text.count("\n", done, start)
        done = start
        numbers.append(line)
    return numbers
