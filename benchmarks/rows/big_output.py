"""Big outputs: the characters of a 5 MB tool result in the conversation, and whether all of it stays readable."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from benchmarks.contenders import load
from benchmarks.measure import Bench, Figure, Goal, counted, only

__all__ = ["child", "measure"]

CHARS = 5_000_000


def measure(bench: Bench) -> list[Figure]:
    """Count characters in the conversation; 1 if a file of the workspace holds the whole result, byte for byte."""
    taken = counted(bench.own, "big_output")
    note = "1: a file of the workspace is equal to the result, by its hash"
    return [
        bench.figure("a tool result of 5 MB, in context", "chars", only(taken, "chars"), Goal(2_000), digits=0),
        bench.figure(
            "a tool result of 5 MB, kept", "1 or 0", only(taken, "kept"), Goal(1, least=True), digits=0, note=note
        ),
    ]


def report() -> str:
    """Write the report."""
    return "".join(f"line {number:>9}: nothing to report\n" for number in range(CHARS // 35))


def child(module: str, answer: Callable[[dict[str, float]], None]) -> None:
    """Call an application's tool once."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        seen = asyncio.run(load(module).one_call(root, "report", {}, [report]))
        wanted = sha256(report().encode()).digest()
        kept = any(sha256(file.read_bytes()).digest() == wanted for file in root.rglob("*") if file.is_file())
    answer({"chars": len(seen.text), "kept": kept})
