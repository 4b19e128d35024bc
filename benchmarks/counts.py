"""Counts that a busy machine does not change: modules, function calls, requests, characters, bytes kept.

`python -m benchmarks.counts NAME [ARGUMENT…]` prints one count as JSON, from a process of its own.
tests/test_gates.py holds them to benchmarks/gates.json.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import json
import runpy
import sys
import tempfile
import threading
import tracemalloc
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.contenders import load
from benchmarks.measure import REPOSITORY
from benchmarks.rows.compaction import TURNS as COMPACTED_TURNS
from benchmarks.rows.compaction import WINDOW
from benchmarks.work import prepare

__all__ = ["COUNTS"]

OURS = (str(REPOSITORY / "deep_core"), str(REPOSITORY / "plugins"))


class Calls:
    """Count the calls of Python functions in all threads: all of them, and those of our code."""

    def __init__(self) -> None:
        self.all = 0
        self.ours = 0

    def _called(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            self.all += 1
            self.ours += frame.f_code.co_filename.startswith(OURS)

    def on(self) -> None:
        """Start counting."""
        threading.setprofile(self._called)
        sys.setprofile(self._called)

    def off(self) -> None:
        """Stop counting."""
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def calls_per_turn(contender: str, turns: str) -> dict[str, float]:
    """Count the calls of a turn, from the first request to the last, after a session that warms up."""
    calls, count = Calls(), int(turns)

    def pause(turn: int) -> None:
        if turn == 0:
            calls.on()
        elif turn == count:
            calls.off()

    _work(contender, 2, lambda turn: None)
    _work(contender, count, pause)
    return {"all": calls.all / count, "ours": calls.ours / count}


def calls_per_request(contender: str, messages: str) -> dict[str, float]:
    """Count the calls of a request that continues a history, without the first of the run, which reads it."""
    calls, steps = Calls(), 4

    def pause(turn: int) -> None:
        if turn == 1:
            calls.on()
        elif turn == steps + 1:
            calls.off()

    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        prepare(root, steps + 1)
        asyncio.run(load(contender).continued(root, int(messages), steps + 1, pause))
    return {"all": calls.all / steps, "ours": calls.ours / steps}


def requests(contender: str, turns: str) -> int:
    """Count the requests of so many turns."""
    came: list[int] = []
    _work(contender, int(turns), came.append)
    return len(came)


def summaries(contender: str) -> int:
    """Count the summary calls of the row `compaction`."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        prepare(root, COMPACTED_TURNS)
        return asyncio.run(load(contender).compact(root, COMPACTED_TURNS, WINDOW))[0]


def static_chars(contender: str) -> int:
    """Count the characters that every request carries."""
    with tempfile.TemporaryDirectory() as directory:
        return load(contender).static_cost(Path(directory).resolve())[1]


def modules_of_a_request(contender: str) -> list[str]:
    """List the modules imported at the first request."""
    static_chars(contender)
    return _imported()


def modules_of_an_import(module: str) -> list[str]:
    """List the modules that an import brings."""
    before = set(_imported())
    import_module(module)
    return sorted(set(_imported()) - before)


def modules_of_a_command(*arguments: str) -> list[str]:
    """List the modules that a command imports; drop its output."""
    before = set(_imported())
    sys.argv = ["deep", *arguments]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        runpy.run_module("deep_cli", run_name="__main__")
    return sorted(set(_imported()) - before)


def _imported() -> list[str]:
    """List the imported modules without the standard library, which differs between versions of Python."""
    return sorted(name for name in sys.modules if name.partition(".")[0] not in sys.stdlib_module_names)


def kept_per_session(contender: str) -> float:
    """Measure the bytes that a finished and dropped session keeps allocated."""
    subject, sessions = load(contender), 20

    async def run(count: int) -> None:
        for _ in range(count):
            with tempfile.TemporaryDirectory() as directory:
                root = Path(directory).resolve()
                prepare(root, 2)
                await subject.session_of(root, 2)

    asyncio.run(run(10))
    gc.collect()
    tracemalloc.start()
    asyncio.run(run(sessions))
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return kept / sessions


def peak_of_a_page(contender: str) -> int:
    """Measure the peak of allocated bytes while 20 lines far into a file of 10 MB are read."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        with (root / "big.log").open("w") as file:
            file.writelines(f"{number:>99}\n" for number in range(100_000))
        args = {"path": "big.log", "offset": 90_000, "limit": 20}
        asyncio.run(load(contender).one_call(root, "read_file", {"path": "big.log", "limit": 1}))
        tracemalloc.start()
        seen = asyncio.run(load(contender).one_call(root, "read_file", args))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert "90000" in seen.text, seen.text
    return peak


def _work(contender: str, turns: int, pause: Callable[[int], None]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        prepare(root, turns)
        asyncio.run(load(contender).work(root, turns, pause))


COUNTS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        calls_per_turn,
        calls_per_request,
        requests,
        summaries,
        static_chars,
        modules_of_a_request,
        modules_of_an_import,
        modules_of_a_command,
        kept_per_session,
        peak_of_a_page,
    )
}

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    print(json.dumps(COUNTS[name](*arguments)))
