"""Big files: a page far into a log of 178 MB, a single line of 50 MB, a search through 100,000 files beside ripgrep."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.contenders import load
from benchmarks.measure import (
    NOISE,
    Bench,
    Child,
    Figure,
    Goal,
    alternate,
    only,
    ordered,
    ready,
    scratch,
)

__all__ = ["child", "measure"]

ROUNDS, GREPS = 5, 9
LOG_LINES, LOG_LINE = (
    1_780_000,
    "2026-01-01T00:00:00 worker {:07} did its work and all was well, as it was before, it said\n",
)
LONG_LINE = 50_000_000
FILES, NEEDLE = 100_000, "needle-42"


def measure(bench: Bench) -> list[Figure]:
    """Measure each read in a fresh process; the files are made once."""
    with scratch() as root:
        _make_files(root)
        calls: dict[str, tuple[str, dict[str, Any]]] = {
            "20 lines at line 1,000,000 of 178 MB": (
                "read_file",
                {"path": "big.log", "offset": 1_000_000, "limit": 20},
            ),
            "a line of 50 MB": ("read_file", {"path": "line.txt"}),
        }
        out: list[Figure] = []
        for name, (tool, args) in calls.items():
            taken = alternate(bench.own, "big_files", bench.rounds(ROUNDS), root=str(root), tool=tool, args=args)
            out.append(bench.figure(name, "ms", only(taken, "ms"), Goal(150, gate=True), digits=0))
            out.append(bench.figure(f"{name}, peak memory", "MB more", only(taken, "mb"), Goal(10, gate=True)))
            out.append(bench.figure(f"{name}, shown", "chars", only(taken, "chars"), digits=0))
        return [*out, *_grep(bench, root)]


def _make_files(root: Path) -> None:
    with (root / "big.log").open("w") as file:
        for first in range(0, LOG_LINES, 10_000):
            file.writelines(LOG_LINE.format(number) for number in range(first, first + 10_000))
    (root / "line.txt").write_text("x" * LONG_LINE)
    for number in range(FILES):
        folder = root / "tree" / f"{number // 1000:03}"
        if number % 1000 == 0:
            folder.mkdir(parents=True)
        text = f"file {number}\n" * 20 + (f"{NEEDLE}\n" if number % 1000 == 42 else "")
        (folder / f"f{number}.txt").write_text(text)


def _grep(bench: Bench, root: Path) -> list[Figure]:
    """Compare with ripgrep on the same tree, warm. Nothing without ripgrep."""
    program = shutil.which("rg")
    if program is None:
        return []
    args = {"pattern": NEEDLE, "path": "tree", "output_mode": "files_with_matches"}
    command = [program, "--hidden", "--no-ignore", "--files-with-matches", NEEDLE, os.fspath(root / "tree")]
    taken: list[dict[str, float]] = []
    with scratch() as home:
        for number in range(bench.rounds(GREPS) + 1):
            with ExitStack() as stack:
                made = [Child(each, "big_files", home, root=str(root), tool="grep", args=args) for each in bench.ours]
                children = [stack.enter_context(child) for child in made]
                ready(*children)
                sides = {"floor": partial(_ran, command), **{child.name: partial(_asked, child) for child in children}}
                taken.append({who: sides[who]() for who in ordered(list(sides), number)})
    note = "the floor of this line is ripgrep itself, as a process"
    goal = Goal(1.3, of="ratio", gate=True, margin=NOISE)
    return [bench.figure("grep in 100,000 files", "ms", taken[1:], goal, digits=0, note=note)]


def _asked(process: Child) -> float:
    return process.ask()["ms"]


def _ran(command: Sequence[str]) -> float:
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stdout.count(b"\n") == FILES // 1000
    return (time.perf_counter() - began) * 1000


def child(module: str, answer: Callable[[Any], None], *, root: str, tool: str, args: dict[str, Any]) -> None:
    """Make a small call to warm up, then the one that counts."""
    contender = load(module)
    place = Path(root).resolve()
    asyncio.run(contender.one_call(place, "ls", {"path": "."}))
    answer(None)
    seen = asyncio.run(contender.one_call(place, tool, args))
    if tool == "grep":
        assert seen.text.count("f") >= 50, seen.text
    answer({"ms": seen.ms, "mb": seen.mb, "chars": len(seen.text)})
