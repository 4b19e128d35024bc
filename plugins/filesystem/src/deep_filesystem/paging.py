"""Read pages of a file, by line or by byte, in constant memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from .codec import Codec

__all__ = ["BytesSource", "Line", "Page", "PastEnd", "Source", "Stretch", "read_lines", "read_stretch"]

CHUNK = 1024 * 1024
"""Bytes per read. Measured on 186 MB: 256 KiB to 4 MiB scan equally fast; this keeps the peak below 4 MB."""


class Source(Protocol):
    """A source of bytes."""

    async def read(self, start: int, length: int) -> bytes:
        """Read from `start`; fewer than `length` bytes only at the end of the file."""
        ...


@dataclass(frozen=True)
class BytesSource:
    """A file in memory."""

    data: bytes

    async def read(self, start: int, length: int) -> bytes:
        """Read from memory."""
        return self.data[start : start + length]


class PastEnd(ValueError):
    """The page begins after the last line.

    Attributes:
        lines: the number of lines in the file.
    """

    def __init__(self, lines: int) -> None:
        super().__init__(f"the file has {lines} lines")
        self.lines = lines


class Line(NamedTuple):
    """A line to show.

    Attributes:
        text: without its line ending.
        text: without its ending.
        cut: the byte of the file at which to continue, if the line is too long.
    """

    number: int
    text: str
    cut: int | None = None


class Page(NamedTuple):
    """Some lines of a file.

    Attributes:
        lines: the lines, in order.
        ranges: their bytes, ends exclusive; several if a long line was cut.
        end: the byte after the last line shown, or after its shown part.
        complete: whether the page ends with the file's last line.
        final_newline: whether the last line shown has a line feed.
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
        start: their first byte, which is the one requested unless that is inside a character.
        end: the byte after them, where the next stretch begins.
    """

    text: str
    start: int
    end: int


async def read_lines(source: Source, codec: Codec, offset: int, *, limit: int, max_chars: int, line_chars: int) -> Page:
    """Read a page of lines. The next page begins at `offset + len(page.lines)`: none is skipped or repeated.

    Args:
        source: the file.
        codec: its encoding.
        offset: lines to skip.
        limit: maximum lines, at least 1.
        max_chars: ends the page before a line that would exceed it; the first line is always shown.
        line_chars: maximum characters of one line.

    Raises:
        PastEnd: the line does not exist. An empty file has an empty first page instead.
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
                # Its end is far away; the next page looks for it, so that this one stays cheap.
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
    """Read the usual page, ten times as fast: within one chunk, below all limits, decoded at once. None for others."""
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
    """Read characters from a byte on, to page through a line that is too long.

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
    """The part of the file around the current line."""

    def __init__(self, source: Source, codec: Codec) -> None:
        self._source = source
        self._newline = codec.newline
        self._unit = codec.unit
        self._base = 0
        self._data = b""
        self._last = False

    async def ending(self, start: int) -> tuple[int, int] | None:
        """Find the end of the line that begins at `start` and the start of the next; None beyond a chunk."""
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
        """Return the bytes from `start`, after `ending`."""
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
    """Find the byte at which a line begins, counted from 0. Counts line feeds by chunk, not line by line."""
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
    """The offset after the `count`-th line feed of a chunk."""
    if codec.unit == 1:
        return len(chunk) - len(chunk.split(b"\n", count)[-1])
    at = -codec.unit
    for _ in range(count):
        at = chunk.find(codec.newline, at + codec.unit)
        while at % codec.unit:
            at = chunk.find(codec.newline, at + 1)
    return at + codec.unit
