"""What every request carries beside the conversation: tools and prompt, in characters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.contenders import load
from benchmarks.measure import Contender, Figure, Goal, counted, figure, only

__all__ = ["child", "measure"]


def measure(contenders: Sequence[Contender]) -> list[Figure]:
    """Tools, and characters of names, descriptions, schemas, instructions and the harness's own messages."""
    taken = counted(contenders, "static_cost")
    note = "four characters are about one token"
    return [
        figure("tools in a request", "tools", only(taken, "tools"), digits=0, table=True),
        figure(
            "static characters a request", "chars", only(taken, "chars"), Goal(6000, gate=True), digits=0, note=note,
            table=True,
        ),
    ]  # fmt: skip


def child(module: str, answer: Callable[[dict[str, float]], None]) -> None:
    """Of a first request."""
    tools, chars = load(module).static_cost(Path.cwd())
    answer({"tools": tools, "chars": chars})
