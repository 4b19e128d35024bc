"""Pages put together are the file, whatever its size, and cost what they show."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass, field

import anyio
import pytest
from deep_filesystem import paging
from deep_filesystem.codec import Codec, detect
from deep_filesystem.paging import BytesSource, PastEnd, read_lines, read_stretch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drawn import examples

CODECS = [
    Codec("utf-8"),
    Codec("utf-8", b"\xef\xbb\xbf"),
    Codec("utf-16-le", b"\xff\xfe"),
    Codec("utf-16-be", b"\xfe\xff"),
]
text = st.text(st.sampled_from("aé€\U0001f600\t\n\n\r\u0a0a\u0d0a"), max_size=60)


async def _all_pages(data: bytes, codec: Codec, limit: int, max_chars: int, line_chars: int) -> tuple[list[str], bytes]:
    lines: list[str] = []
    seen = b""
    offset = 0
    while True:
        page = await read_lines(
            BytesSource(data), codec, offset, limit=limit, max_chars=max_chars, line_chars=line_chars
        )
        assert [line.number for line in page.lines] == list(range(offset + 1, offset + 1 + len(page.lines)))
        lines += [line.text for line in page.lines]
        seen += b"".join(data[start:end] for start, end in page.ranges)
        offset += len(page.lines)
        if page.complete:
            return lines, seen
        assert page.lines, "a page that is not the last shows something"


@given(text, st.sampled_from(CODECS), st.integers(1, 5), st.integers(1, 30), st.sampled_from([4, 8, 64, 1 << 20]))
@settings(max_examples=examples(300))
def test_pages_neither_skip_nor_repeat_a_line(
    content: str, codec: Codec, limit: int, max_chars: int, chunk: int
) -> None:
    data = codec.encode(content)
    with pytest.MonkeyPatch.context() as patch:
        # Chunks smaller than a line need a line_chars that fits in them, as a megabyte has room for any option.
        patch.setattr(paging, "CHUNK", max(chunk, 4 * 60 + 8))
        lines, seen = anyio.run(_all_pages, data, codec, limit, max_chars, 60)
    expected = content.split("\n")
    if not expected[-1]:
        expected.pop()
    assert lines == [each.removesuffix("\r") for each in expected]
    assert seen == data


short = st.lists(st.text(st.sampled_from("aé€\t\u0a0a"), max_size=3), max_size=30).map("\n".join)


@given(short, st.sampled_from(CODECS), st.integers(1, 9), st.integers(1, 30), st.sampled_from([24, 28, 32, 40]))
@settings(max_examples=examples(500))
def test_pages_neither_skip_nor_repeat_a_line_at_the_end_of_a_chunk(
    content: str, codec: Codec, limit: int, max_chars: int, chunk: int
) -> None:
    data = codec.encode(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paging, "CHUNK", chunk)
        lines, seen = anyio.run(_all_pages, data, codec, limit, max_chars, 4)
    assert "".join(f"{line}\n" for line in lines) == (
        content if content.endswith("\n") or not content else content + "\n"
    )
    assert seen == data


@given(text, st.sampled_from(CODECS), st.integers(0, 40), st.sampled_from([4, 8, 16]))
@settings(max_examples=examples(300))
def test_a_line_is_found_across_chunks(content: str, codec: Codec, offset: int, chunk: int) -> None:
    lines = content.split("\n")
    if not lines[-1]:
        lines.pop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paging, "CHUNK", chunk)
        if offset >= len(lines) and offset:
            with pytest.raises(PastEnd) as caught:
                anyio.run(_first_line, codec.encode(content), codec, offset)
            assert caught.value.lines == len(lines)
        elif lines:
            found = anyio.run(_first_line, codec.encode(content), codec, offset)
            assert lines[offset].removesuffix("\r").startswith(found)


async def _first_line(data: bytes, codec: Codec, offset: int) -> str:
    page = await read_lines(BytesSource(data), codec, offset, limit=1, max_chars=1, line_chars=1)
    return page.lines[0].text


@given(text, st.sampled_from(CODECS), st.integers(1, 9))
def test_stretches_neither_skip_nor_repeat_a_character(content: str, codec: Codec, max_chars: int) -> None:
    data = codec.encode(content)

    async def read() -> str:
        parts: list[str] = []
        at = 0
        while at < len(data):
            stretch = await read_stretch(BytesSource(data), codec, at, max_chars=max_chars)
            assert stretch.end > at
            parts.append(stretch.text)
            at = stretch.end
        return "".join(parts)

    assert anyio.run(read) == content


def test_a_byte_inside_a_character_begins_at_the_character() -> None:
    data = "a€b".encode()

    async def read(byte: int) -> tuple[str, int]:
        stretch = await read_stretch(BytesSource(data), Codec("utf-8"), byte, max_chars=9)
        return stretch.text, stretch.start

    assert [anyio.run(read, byte) for byte in (1, 2, 3, 4)] == [("€b", 1), ("€b", 1), ("€b", 1), ("b", 4)]


def test_a_long_line_is_cut_and_can_be_read_on() -> None:
    data = b"short\n" + b"x" * 10_000 + b"y\nlast\n"

    async def read() -> None:
        page = await read_lines(BytesSource(data), Codec("utf-8"), 0, limit=10, max_chars=5000, line_chars=100)
        assert [(line.number, len(line.text), line.cut) for line in page.lines] == [
            (1, 5, None),
            (2, 100, 106),
            (3, 4, None),
        ]
        assert page.ranges == ((0, 106), (10_008, 10_013))
        assert page.complete
        stretch = await read_stretch(BytesSource(data), Codec("utf-8"), 106, max_chars=9_902)
        assert stretch.text == "x" * 9_900 + "y\n"

    anyio.run(read)


@dataclass
class Huge:
    """A file of equal lines that nobody has to store. Counts what is asked of it."""

    line: bytes
    count: int
    reads: list[int] = field(default_factory=list[int])

    async def read(self, start: int, length: int) -> bytes:
        size = len(self.line) * self.count
        length = max(0, min(length, size - start))
        self.reads.append(length)
        skip = start % len(self.line)
        return (self.line * (length // len(self.line) + 2))[skip : skip + length]


def test_the_millionth_line_of_a_huge_file_takes_a_few_chunks_of_memory() -> None:
    source = Huge(b"%0177d\n" % 7, 1_050_000)  # 187 MB
    tracemalloc.start()
    try:
        page = anyio.run(
            lambda: read_lines(source, Codec("utf-8"), 1_000_000, limit=20, max_chars=40_000, line_chars=4000)
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [line.number for line in page.lines] == list(range(1_000_001, 1_000_021))
    assert page.ranges == ((178 * 1_000_000, 178 * 1_000_020),)
    assert peak < 10_000_000
    # Each byte before the page is read once, and one chunk for the page itself.
    assert sum(source.reads) <= 178 * 1_000_000 + 3 * paging.CHUNK


@pytest.mark.slow
def test_one_line_of_50_mb_is_cut_without_reading_it_all() -> None:
    source = Huge(b"x" * 50_000_000, 1)
    page = anyio.run(lambda: read_lines(source, Codec("utf-8"), 0, limit=20, max_chars=40_000, line_chars=4000))
    (line,) = page.lines
    assert (len(line.text), line.cut, page.complete) == (4000, 4000, False)
    assert sum(source.reads) <= 2 * paging.CHUNK


def test_utf16_line_feeds_are_distinguished_from_their_halves() -> None:
    data = "\u0a0a\u0a00x\n\u0d0ay\n".encode("utf-16")  # the other characters have 0x0A in a byte
    codec = detect(data)
    lines, seen = anyio.run(_all_pages, data, codec, 1, 100, 100)
    assert lines == ["\u0a0a\u0a00x", "\u0d0ay"]
    assert seen == data
