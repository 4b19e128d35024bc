"""What a model or a file wrote takes linear time, leaves the event loop free, and ends when it is cancelled."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from anyio import CancelScope, create_task_group, sleep
from deep_backends import local_backend
from deep_filesystem.codec import Codec, detect
from deep_filesystem.edit import Refused, Span, edit_bytes
from deep_filesystem.seen import MAX_RANGES, Seen
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.workspaces import Workspace

from tests import another_process
from tests.drawn import sample

UTF8 = Codec("utf-8")


def run_within_20_seconds_of_the_processor(script: str) -> None:
    """Run a script in a process that the kernel ends after 20 s of computing: a busy machine changes nothing."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_CPU, (20, 20))\n"
    imports = "from deep_filesystem.codec import Codec, detect\nfrom deep_filesystem.edit import Refused, edit_bytes\n"
    another_process.run(limit + imports + script).check_returncode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "old", "new"),
    sample(
        [
            ("x = 1\n", "x", "yy"),
            ("x = 1 ", "x", "y\ny"),
            ("x = 1\r\n", "x = 1\nx", "y\ny"),
            ("é = 1\n", "1", "\u20ac"),
            ("a", "a", "b"),
        ],
        ("x = 1 ", "x", "y\ny"),
        ("x = 1\r\n", "x = 1\nx", "y\ny"),
    ),
    ids=["lines", "one line", "CRLF", "not ASCII", "letters"],
)
def test_half_a_million_replacements(text: str, old: str, new: str) -> None:
    # Copying the text before each of them takes minutes.
    run_within_20_seconds_of_the_processor(
        f"data = {text!r}.encode() * 400_000\n"
        f"assert len(edit_bytes(data, Codec('utf-8'), {old!r}, {new!r}, replace_all=True).spans) >= 200_000"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("'a' * 20_000_000", "'a' * 10_000_000"),  # ambiguous, and each match overlaps the one before
        ("'x = 1\\n' * 3_000_000", "'\\n' * 300_000 + 'q'"),
        ("'x = 1\\n' * 3_000_000", "'1' * 300_000 + 'q'"),
        ("'e' + '\\u0315\\u0300\\u0327' * 300_000", "'\\u0315\\u0300\\u0327' * 300_000 + 'q'"),
        ("('ab' * 1000 + '\\n') * 10_000", "'ba' * 1000 + 'c'"),
        ("' \\n' * 3_000_000", "' ' * 300_000 + 'q'"),
    ],
    ids=["overlapping", "blank lines", "digits", "combining marks", "nearly equal", "blanks"],
)
def test_a_text_that_is_not_there_or_not_unique(text: str, old: str) -> None:
    run_within_20_seconds_of_the_processor(f"""
try:
    edit_bytes(({text}).encode(), Codec("utf-8"), {old}, "new")
except Refused:
    pass
else:
    raise AssertionError
""")


def test_an_ambiguous_text_takes_no_memory_per_occurrence() -> None:
    data = b"x = 1\n" * 500_000
    tracemalloc.start()
    try:
        with pytest.raises(Refused, match="occurs 500000 times"):
            edit_bytes(data, UTF8, "x", "y")
        assert tracemalloc.get_traced_memory()[1] < 2 * len(data)
    finally:
        tracemalloc.stop()


def test_replacements_larger_than_a_file_may_be_are_refused() -> None:
    with pytest.raises(Refused, match="too large"):
        edit_bytes(b"x" * 1_000, UTF8, "x", "y" * 1_000, replace_all=True, limit=100_000)


def test_what_checks_stops_an_edit() -> None:
    class Stop(Exception):
        pass

    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise Stop

    with pytest.raises(Stop):
        edit_bytes(b"x" * 1_000_000, UTF8, "x", "y", replace_all=True, check=check)
    calls = 0
    with pytest.raises(Stop):
        edit_bytes(b"some words\n" * 100_000, UTF8, "some other words", "y", check=check)


@pytest.mark.anyio
async def test_a_cancelled_edit_of_a_large_file_ends_at_once_and_its_thread_too(
    tmp_path: Path, new_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("x\n" * 1_000_000)
    session = new_session(Workspace(local_backend(tmp_path)))
    await session.ok("read_file", "a.txt")
    started, ended = threading.Event(), threading.Event()

    def endless(*args: Any, check: Callable[[], None], **kwargs: Any) -> None:
        started.set()
        try:
            while True:
                check()
        finally:
            ended.set()

    monkeypatch.setattr("deep_filesystem.writing.edit_bytes", endless)
    scope = CancelScope()

    async def change() -> None:
        with scope:
            await session.ok("edit_file", "a.txt", "x", "y", True)

    async with create_task_group() as group:
        group.start_soon(change)
        while not started.is_set():
            await sleep(0)  # the loop is free while the thread works
        scope.cancel()
    assert scope.cancelled_caught
    assert ended.wait(60)
    assert (tmp_path / "a.txt").read_text() == "x\n" * 1_000_000


RANGES = st.lists(st.integers(0, 30), max_size=6, unique=True).map(sorted)


@given(RANGES, RANGES, st.lists(st.integers(0, 4), min_size=3, max_size=3))
def test_what_was_seen_moves_with_any_edits(ranges: list[int], spans: list[int], lengths: list[int]) -> None:
    seen = Seen("x", 40, [(a, b) for a, b in zip(ranges[::2], ranges[1::2], strict=False)])
    replaced = [Span(a, b, n) for a, b, n in zip(spans[::2], spans[1::2], lengths, strict=False)]
    marks = ["-"] * 40
    for start, end in seen.ranges:
        marks[start:end] = "s" * (end - start)
    for span in reversed(replaced):
        marks[span.start : span.end] = "s" * span.length
    after = ["-"] * len(marks)
    found = seen.edited(b"-" * len(marks), replaced)
    for start, end in found.ranges:
        after[start:end] = "s" * (end - start)
    assert after == marks
    assert all(before[1] < later[0] for before, later in zip(found.ranges, found.ranges[1:], strict=False))


def test_the_record_of_what_was_seen_is_bounded() -> None:
    spans = [Span(10 * at, 10 * at + 1, 2) for at in range(5_000)]
    assert len(Seen("x", 60_000, []).edited(b"-", spans).ranges) == MAX_RANGES
    assert Seen("x", 60_000, [(0, 60_000)]).edited(b"-", spans).ranges == [(0, 65_000)]


@given(st.lists(st.sampled_from([b"a", b"\xff", b"\xc3", b"\xa9", b"\xe2\x82", "é".encode(), b"\x93"]), max_size=12))
def test_the_eight_bit_encoding_is_chosen_by_counting(parts: list[bytes]) -> None:
    data = b"".join(parts)
    text = data.decode("utf-8", "surrogateescape")
    stray = sum("\udc80" <= char <= "\udcff" for char in text)
    others = sum(char > "\x7f" for char in text) - stray
    if not stray or others > stray:
        expected = "utf-8"
    else:
        expected = "cp1252" if any(0x80 <= byte <= 0x9F for byte in data) else "latin-1"
    assert detect(data).name == expected


@pytest.mark.slow
def test_a_missing_file_among_many_long_names_is_reported_at_once() -> None:
    # Comparing the name with each of them takes minutes and holds the event loop.
    run_within_20_seconds_of_the_processor("""
import asyncio, random
from deep_backends import memory_backend
from deep_filesystem.suggestions import suggestion
from pydantic_ai.workspaces import Workspace
names = ["".join(random.choices("ab", k=length)) for length in (99, 199) for _ in range(20_000)]
workspace = Workspace(memory_backend({f"/workspace/{name}": b"" for name in [*names, "report.txt"]}))
for name in ("ab" * 49, "ab" * 99, "x" * 1_000_000):
    asyncio.run(suggestion(workspace, name))
""")
