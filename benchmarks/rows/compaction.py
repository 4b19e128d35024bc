"""Compaction: the summary calls of 120 turns in a window of 60,000 tokens."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.contenders import load
from benchmarks.measure import Bench, Figure, Goal, counted, only
from benchmarks.work import check, prepare

__all__ = ["child", "measure"]

TURNS, WINDOW = 120, 60_000
UNABLE = ("floor", "langchain_floor", "harness:FILES", "harness:CODER")
"""Contenders without compaction."""


def measure(bench: Bench) -> list[Figure]:
    """Count summary calls, and the largest request in percent of the window (four characters a token)."""
    able = [contender for contender in bench.contenders if contender.module not in UNABLE]
    taken = counted(able, "compaction")
    note = "of the largest request; above 100 the provider would have refused it"
    calls = only(taken, "calls")
    return [
        bench.figure("compaction: summary calls in 120 turns", "calls", calls, Goal(4, gate=True), digits=0),
        bench.figure("compaction: fullest window", "% of 60 k tokens", only(taken, "fullest"), digits=0, note=note),
    ]


def child(module: str, answer: Callable[[dict[str, float]], None]) -> None:
    """Do the work in a window that it fills more than twice."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        prepare(root, TURNS)
        calls, chars = asyncio.run(load(module).compact(root, TURNS, WINDOW))
        check(root, TURNS)
    answer({"calls": calls, "fullest": 100 * chars / 4 / WINDOW})
