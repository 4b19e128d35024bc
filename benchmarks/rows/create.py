"""Make an agent: the first of a process, and those after it."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.contenders import load
from benchmarks.measure import Bench, Figure, Goal, alternate, only

__all__ = ["child", "measure"]

ROUNDS, AGAIN = 5, 20


def measure(bench: Bench) -> list[Figure]:
    """Measure milliseconds of CPU, with everything imported."""
    taken = alternate(bench.contenders, "create", bench.rounds(ROUNDS))
    note = "the first of a process: ours finds and imports its plugins here"
    return [
        bench.figure("create", "ms CPU", only(taken, "again"), Goal(8), table=True),
        bench.figure("create, first", "ms CPU", only(taken, "first"), note=note),
    ]


def child(module: str, answer: Callable[[dict[str, float] | None], None]) -> None:
    """Make one agent, then twenty."""
    contender = load(module)
    answer(None)
    began = time.process_time()
    contender.create()
    first = time.process_time() - began
    began = time.process_time()
    for _ in range(AGAIN):
        contender.create()
    answer({"first": first * 1000, "again": (time.process_time() - began) / AGAIN * 1000})
