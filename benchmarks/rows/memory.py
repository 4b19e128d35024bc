"""Memory of a finished session, and of one that waits for its user."""

from __future__ import annotations

import asyncio
import gc
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.contenders import load
from benchmarks.measure import Bench, Figure, Goal, counted, only
from benchmarks.work import prepare

__all__ = ["child", "measure"]

TURNS, HELD, IDLE = 20, 40, 1_000


def measure(bench: Bench) -> list[Figure]:
    """Measure resident memory in MB a session."""
    # The goals are far away, so one round does; a comparison of two commits needs the spread.
    taken = counted(bench.own, "memory", bench.rounds(5) if len(bench.ours) > 1 else 1)
    return [
        bench.figure(
            "a finished session of 20 turns, held", "MB", only(taken, "held"), Goal(0.35), digits=3,
            note="its deps and its messages, which hold 90 KB of text",
        ),
        bench.figure("a finished session, dropped", "MB", only(taken, "dropped"), digits=3, note="what it leaves"),
        bench.figure("an idle session of 1,000", "MB", only(taken, "idle"), Goal(0.3), digits=3, note="after one turn"),
    ]  # fmt: skip


def resident() -> float:
    """Return the resident memory of this process in MB."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def child(module: str, answer: Callable[[dict[str, float]], None]) -> None:
    """Run sessions on one agent, one after the other."""
    contender = load(module)

    def grown(count: int, turns: int, hold: bool) -> float:
        held: list[Any] = []
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory).resolve()

            async def sessions() -> None:
                for number in range(count):
                    place = root / f"s{number}"
                    place.mkdir()
                    prepare(place, turns)
                    ended = await contender.session_of(place, turns)
                    if hold:
                        held.append(ended)

            before = resident()
            asyncio.run(sessions())
            return (resident() - before) / count

    grown(2 * HELD, TURNS, hold=False)  # the heap grows by a megabyte once in about the first hundred
    dropped = grown(HELD, TURNS, hold=False)
    answer({"dropped": dropped, "held": grown(HELD, TURNS, hold=True), "idle": grown(IDLE, 1, hold=True)})
