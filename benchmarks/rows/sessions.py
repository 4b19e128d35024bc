"""Many sessions on one agent: 40 side by side, 20 turns each."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.contenders import load
from benchmarks.measure import Bench, Figure, Goal, lockstep, only
from benchmarks.work import check, prepare

__all__ = ["child", "measure"]

SESSIONS, TURNS, ROUNDS, WARM = 40, 20, 5, 4


def measure(bench: Bench) -> list[Figure]:
    """Measure turns a second, and CPU milliseconds a turn."""
    taken = lockstep(bench.contenders, "sessions", bench.rounds(ROUNDS), 1)
    goal = Goal(0.8, of="ratio", least=True)
    return [
        bench.figure("40 sessions x 20 turns", "turns/s", only(taken, "wall"), goal, digits=0, table=True),
        bench.figure("40 sessions x 20 turns, CPU", "ms CPU a turn", only(taken, "cpu")),
    ]


def child(module: str, answer: Callable[[dict[str, float] | None], None]) -> None:
    """Run all sessions again and again, after a few that warm up."""
    contender = load(module)

    def rates(sessions: int) -> dict[str, float]:
        with tempfile.TemporaryDirectory() as directory:
            roots = [Path(directory).resolve() / f"s{number}" for number in range(sessions)]
            for root in roots:
                root.mkdir()
                prepare(root, TURNS)
            began, cpu = time.perf_counter(), time.process_time()
            asyncio.run(contender.many(roots, TURNS))
            lasted, spent = time.perf_counter() - began, time.process_time() - cpu
            for root in roots:
                check(root, TURNS)
        return {"wall": sessions * TURNS / lasted, "cpu": spent / sessions / TURNS * 1000}

    rates(WARM)
    answer(None)
    while True:
        answer(rates(SESSIONS))
