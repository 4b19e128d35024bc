"""Pages of a file, by line or by byte, in memory that does not grow with the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from .codec import Codec

__all__ = ["BytesSource", "Line", "Page", "PastEnd", "Source", "Stretch", "read_lines", "read_stretch"]

CHUNK = 1024 * 1024
"""Bytes of one read. Measured on 186 MB: 256 KiB to 4 MiB scan equally fast; this keeps the peak below 4 MB."""


class Source(Protocol):
    """Where the bytes come from."""

    async def read(self, start: int, length: int) -> bytes:
        """The bytes from `start`; fewer than `length` only at the end of the file."""
        ...


@dataclass(frozen=True)
class BytesSource:
    """A file in memory."""

    data: bytes

    async def read(self, start: int, length: int) -> bytes:
        """As `Source.read`."""
        return self.data[start : start + length]


class PastEnd(ValueError):
    """The page begins behind the last line.

    Attributes:
        lines: how many the file has.
    """

    def __init__(self, lines: int) -> None:
        super().__init__(f"the file has {lines} lines")
        self.lines = lines


class Line(NamedTuple):
    """A line to show.

    Attributes:
        number: counted from 1.
        text: without its ending.
        cut: the byte of the file to read on at, where the line is too long to be shown whole.
    """

    number: int
    text: str
    cut: int | None = None


class Page(NamedTuple):
    """Some lines of a file.

    Attributes:
        lines: the lines, in order.
        ranges: the bytes they are, ends exclusive; more than one where a long line was cut.
        end: the byte behind the last line shown, or behind what is shown of it.
        complete: the last line of the page is the last of the file.
        final_newline: the last line shown has a line feed.
    """

    lines: tuple[Line, ...]
    ranges: tuple[tuple[int, int], ...]
    end: int
    complete: bool
    final_newline: bool


class Stretch(NamedTuple):
    """Some characters of a file, by byte.

    Attributes:
        text: the characters.
        start: the byte they begin at, which is the one asked for unless that was inside a character.
        end: the byte behind them, where the next stretch begins.
    """

    text: str
    start: int
    end: int


async def read_lines(source: Source, codec: Codec, offset: int, *, limit: int, max_chars: int, line_chars: int) -> Page:
    """A page of lines. The next page begins at `offset + len(page.lines)`: no line is skipped, none repeated.

    Args:
        source: the file.
        codec: its encoding.
        offset: lines to skip.
        limit: lines to read at most, at least 1.
        max_chars: ends the page before a line that would bring it above; the first line is shown regardless.
        line_chars: characters of one line that are shown.

    Raises:
        PastEnd: there is no such line. An empty file has an empty first page instead.
    """
    start = await _seek(source, codec, offset)
    if codec.unit == 1:
        page = await _plain_page(source, codec, offset, start, limit, max_chars, line_chars)
        if page is not None:
            return page
    window = _Window(source, codec)
    lines: list[Line] = []
    ranges: list[tuple[int, int]] = []
    first = at = start if offset else 0  # the byte order mark counts as seen with the first line
    chars, complete, newline = 0, False, False
    while len(lines) < limit:
        begin = start if not lines else at
        found = await window.ending(begin)
        text_end, following = found if found is not None else (begin + CHUNK, begin + CHUNK)
        if text_end == following == begin:
            complete = True
            break
        line = await _line(window, codec, begin, text_end, line_chars, len(lines) + offset + 1)
        if lines and chars + len(line.text) > max_chars:
            break
        lines.append(line)
        chars += len(line.text) + 1
        newline = following > text_end
        if line.cut is not None:
            ranges.append((first, line.cut))
            first = following
            if found is None:
                # Its end is not in sight; the next page looks for it. This one stays cheap.
                return Page(tuple(lines), tuple(ranges), line.cut, complete=False, final_newline=False)
        at = following
    if complete and not lines:
        at = start  # nothing but a byte order mark
    if at > first:
        ranges.append((first, at))
    complete = complete or await window.ends_at(at)
    if not lines and offset:
        raise PastEnd(offset)
    return Page(tuple(lines), tuple(ranges), at, complete, newline)


async def _plain_page(
    source: Source, codec: Codec, offset: int, start: int, limit: int, max_chars: int, line_chars: int
) -> Page | None:
    """The usual page, ten times as fast: within one chunk, below all limits, decoded at once. None for any other."""
    chunk = await source.read(start, CHUNK)
    lines = chunk.split(b"\n", limit)
    rest = lines.pop()
    if len(chunk) == CHUNK and (len(lines) < limit or not rest):
        return None
    complete, newline = not rest, True
    if len(lines) < limit:
        if rest:
            lines.append(rest)
            newline, rest = False, b""
        complete = True
    size = len(chunk) - len(rest)
    if not lines or size > max_chars or max(map(len, lines)) > line_chars:
        return None
    texts = codec.show(b"\n".join(lines)).split("\n")
    shown = tuple(Line(number, text.removesuffix("\r")) for number, text in enumerate(texts, offset + 1))
    return Page(shown, ((start if offset else 0, start + size),), start + size, complete, newline)


async def read_stretch(source: Source, codec: Codec, byte: int, *, max_chars: int) -> Stretch:
    """Characters from a byte on: the way through a line that is too long.

    Raises:
        PastEnd: the file ends before `byte`; `lines` is then its size in bytes.
    """
    start = max(byte, len(codec.mark))
    start -= start % codec.unit
    if codec.name == "utf-8" and start:
        before = await source.read(max(0, start - 3), min(3, start) + 1)
        here = min(3, start)
        while here > 0 and start > len(codec.mark) and here < len(before) and before[here] & 0xC0 == 0x80:
            here, start = here - 1, start - 1
    data = await source.read(start, 4 * max_chars + 4)
    text, size = codec.take(data, max_chars)
    return Stretch(text, 0 if start == len(codec.mark) else start, start + size)


async def _line(window: _Window, codec: Codec, start: int, end: int, line_chars: int, number: int) -> Line:
    raw = await window.bytes(start, min(end, start + 4 * line_chars + 8))
    text = codec.show(raw)
    if start + len(raw) < end or len(text) > line_chars:
        shown, size = codec.take(raw, line_chars)
        return Line(number, shown, start + size)
    return Line(number, text.removesuffix("\r"))


class _Window:
    """The part of the file around the line that is being read."""

    def __init__(self, source: Source, codec: Codec) -> None:
        self._source = source
        self._newline = codec.newline
        self._unit = codec.unit
        self._base = 0
        self._data = b""
        self._last = False

    async def ending(self, start: int) -> tuple[int, int] | None:
        """Where the line that begins at `start` ends, and where the next begins; None beyond a chunk."""
        at = self._find(start)
        if at is None and not self._last:
            await self._load(start)
            at = self._find(start)
        if at is not None:
            return at, at + self._unit
        if not self._last:
            return None
        end = self._base + len(self._data)
        return end, end

    async def bytes(self, start: int, end: int) -> bytes:
        """The bytes from `start`, where `ending` was just asked for."""
        return self._data[start - self._base : end - self._base]

    async def ends_at(self, at: int) -> bool:
        """Whether the file ends at `at`."""
        if self._last:
            return at >= self._base + len(self._data)
        if at < self._base + len(self._data):
            return False
        return not await self._source.read(at, 1)

    async def _load(self, start: int) -> None:
        self._base = start
        self._data = await self._source.read(start, CHUNK)
        self._last = len(self._data) < CHUNK

    def _find(self, start: int) -> int | None:
        at = self._data.find(self._newline, start - self._base) if self._data else -1
        while at >= 0 and at % self._unit != 0:
            at = self._data.find(self._newline, at + 1)
        return self._base + at if at >= 0 else None


async def _seek(source: Source, codec: Codec, line: int) -> int:
    """The byte at which a line begins, counted from 0. Counts line feeds by chunk, not line by line."""
    start = len(codec.mark)
    left = line
    ended = True
    while left:
        chunk = await source.read(start, CHUNK)
        found = _count(chunk, codec)
        if found >= left:
            return start + _behind(chunk, codec, left)
        left -= found
        start += len(chunk)
        ended = chunk.endswith(codec.newline) if chunk else ended
        if len(chunk) < CHUNK:
            raise PastEnd(line - left + (0 if ended else 1))
    return start


def _count(chunk: bytes, codec: Codec) -> int:
    if codec.unit == 1:
        return chunk.count(b"\n")
    return chunk.decode(codec.name, "replace").count("\n")


def _behind(chunk: bytes, codec: Codec, count: int) -> int:
    """The offset behind the `count`-th line feed of a chunk that has so many."""
    if codec.unit == 1:
        return len(chunk) - len(chunk.split(b"\n", count)[-1])
    at = -codec.unit
    for _ in range(count):
        at = chunk.find(codec.newline, at + codec.unit)
        while at % codec.unit:
            at = chunk.find(codec.newline, at + 1)
    return at + codec.unit
