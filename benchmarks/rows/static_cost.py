"""What each request carries beside the conversation: tools and prompt, in characters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.contenders import load
from benchmarks.measure import Bench, Figure, Goal, counted, only

__all__ = ["child", "measure"]


def measure(bench: Bench) -> list[Figure]:
    """Count tools, and characters of names, descriptions, schemas, instructions and the harness's own messages."""
    taken = counted(bench.contenders, "static_cost")
    note = "four characters are about one token"
    return [
        bench.figure("tools in a request", "tools", only(taken, "tools"), digits=0, table=True),
        bench.figure(
            "static characters a request", "chars", only(taken, "chars"), Goal(6000, gate=True), digits=0, note=note,
            table=True,
        ),
    ]  # fmt: skip


def child(module: str, answer: Callable[[dict[str, float]], None]) -> None:
    """Count those of a first request."""
    tools, chars = load(module).static_cost(Path.cwd())
    answer({"tools": tools, "chars": chars})
