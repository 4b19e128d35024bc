"""Searches beside ripgrep: glob wide and narrow, grep rare and frequent, in trees of 1,000 to 100,000 files."""

from __future__ import annotations

import asyncio
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.contenders import load
from benchmarks.measure import NOISE, Bench, Child, Figure, Goal, ordered, ready, scratch

__all__ = ["child", "measure"]

ROUNDS = 9
TREES = (1_000, 20_000, 100_000)
IN_A_FOLDER, RULES_EVERY = 20, 10
ENDINGS = ("py", "py", "ts", "md", "json", "yaml", "log", "py", "js", "css")
RARE, FREQUENT, NO_FILE = "needle-42", "import os", "*.none"
SEARCHES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "glob **/*": ("glob", {"pattern": "**/*"}, ["--files"]),
    "glob pkg3/**/*.json": ("glob", {"pattern": "pkg3/**/*.json"}, ["--files", "--glob=*.json", "pkg3"]),
    "grep rare": ("grep", {"pattern": RARE}, ["--files-with-matches", RARE]),
    "grep frequent": ("grep", {"pattern": FREQUENT}, ["--files-with-matches", FREQUENT]),
    "grep in no file": (
        "grep",
        {"pattern": RARE, "glob": NO_FILE},
        ["--files-with-matches", f"--glob={NO_FILE}", RARE],
    ),
}
"""Name -> tool, its arguments, ripgrep's arguments."""


def measure(bench: Bench) -> list[Figure]:
    """Compare on the same tree, warm: wall and processor time, and the memory of ours. Nothing without ripgrep."""
    program = shutil.which("rg")
    if program is None:
        return []
    goal, without = Goal(1.3, of="ratio", margin=NOISE), Goal(4, of="ratio")
    note = "the floor of this line is ripgrep itself, as a process with its start; ours is beyond a small call"
    out: list[Figure] = []
    for files in TREES:
        with scratch() as root, scratch() as home:
            _make_tree(root, files)
            for name, (tool, args, arguments) in SEARCHES.items():
                taken = _rounds(bench, root, home, tool, args, [program, *arguments])
                for value, unit in (("ms", "ms"), ("cpu", "ms of CPU")):
                    values = [{who: each[value] for who, each in answers.items()} for answers in taken]
                    out.append(bench.figure(f"{name}, {files:,} files", unit, values, goal, digits=1, note=note))
                grown = [{who: each["mb"] for who, each in answers.items() if who != "floor"} for answers in taken]
                out.append(bench.figure(f"{name}, {files:,} files, peak memory", "MB more", grown, Goal(40)))
                if tool == "grep":  # glob never uses ripgrep
                    slow = _rounds(bench, root, home, tool, args, [program, *arguments], "ours:WITHOUT_RIPGREP")
                    values = [{who: each["cpu"] for who, each in answers.items()} for answers in slow]
                    title = f"{name}, {files:,} files, without ripgrep"
                    out.append(bench.figure(title, "ms of CPU", values, without, digits=1, note=note))
    return out


def _rounds(
    bench: Bench,
    root: Path,
    home: Path,
    tool: str,
    args: dict[str, Any],
    command: Sequence[str],
    module: str = "ours",
) -> list[dict[str, dict[str, float]]]:
    taken: list[dict[str, dict[str, float]]] = []
    with ExitStack() as stack:
        ours = [replace(each, module=module) for each in bench.ours if each.has(module)]
        made = [Child(each, "search", home, root=str(root), tool=tool, args=args) for each in ours]
        children = [stack.enter_context(child) for child in made]
        ready(*children)
        sides: dict[str, Callable[[], dict[str, float]]] = {"floor": partial(_ran, command, root)}
        sides.update({child.name: child.ask for child in children})
        for number in range(bench.rounds(ROUNDS) + 1):
            taken.append({who: sides[who]() for who in ordered(list(sides), number)})
    return taken[1:]


def _make_tree(root: Path, files: int) -> None:
    (root / ".gitignore").write_text("*.log\nbuild/\n/dist\n*.tmp\n!keep.log\n")
    for number in range(files):
        place = number // IN_A_FOLDER
        folder = root / f"pkg{place % 10}" / f"mod{place // 10 % 20}" / f"sub{place}"
        if number % IN_A_FOLDER == 0:
            folder.mkdir(parents=True)
            if place % RULES_EVERY == 0:
                (folder / ".gitignore").write_text("gen_*\n/out/\n*.bak\n")
                (folder / "build").mkdir()
                (folder / "build" / "made.py").write_text(f"{FREQUENT}\n")
        text = f"line {number}\n{FREQUENT}\n" * 10 + (f"{RARE}\n" if number % 1_000 == 42 else "")
        (folder / f"file{number}.{ENDINGS[number % len(ENDINGS)]}").write_text(text)


def _ran(command: Sequence[str], root: Path) -> dict[str, float]:
    before, began = _children(), time.perf_counter()
    done = subprocess.run(command, cwd=root, capture_output=True, check=False)
    assert done.returncode in ((0,) if done.stdout else (1, 2)), done.stderr  # 2: there was no file to search
    return {"ms": (time.perf_counter() - began) * 1000, "cpu": (_children() - before) * 1000}


def _children() -> float:
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def child(module: str, answer: Callable[[Any], None], *, root: str, tool: str, args: dict[str, Any]) -> None:
    """Answer each question with one call: its time, by the clock and of the processor, beyond that of a small call."""
    contender = load(module)
    place = Path(root).resolve()

    def call(name: str, arguments: dict[str, Any]) -> tuple[Any, float]:
        before = time.process_time() + _children()
        seen = asyncio.run(contender.one_call(place, name, arguments))
        return seen, (time.process_time() + _children() - before) * 1000

    small = {"pattern": "absent"} if tool == "glob" else {"path": "."}
    for _ in range(2):
        call("glob" if tool == "glob" else "ls", small)
    answer(None)
    while True:
        without, base = call("glob" if tool == "glob" else "ls", small)
        seen, cpu = call(tool, args)
        assert ("No matches" in seen.text) == (args.get("glob") == NO_FILE), seen.text
        answer({"ms": max(seen.ms - without.ms, 0.01), "cpu": max(cpu - base, 0.01), "mb": seen.mb})
