"""Cost of a turn: CPU time of one request and its three calls, at 50 and at 400 turns of one run."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.contenders import load
from benchmarks.measure import NOISE, Contender, Figure, Goal, figure, lockstep, only
from benchmarks.work import check, prepare

__all__ = ["child", "measure"]

SLICE = 10
"""Turns between two changes of contender."""
WARM = 20
"""Turns that warm a process up."""


def measure(contenders: Sequence[Contender]) -> list[Figure]:
    """CPU milliseconds a turn."""
    out: list[Figure] = []
    for turns, rounds, limit in ((50, 11, 1.2), (400, 5, 1.15)):
        taken = lockstep(contenders, "turn", rounds, turns // SLICE, turns=turns)
        goal = Goal(limit, of="ratio", gate=True, margin=NOISE)
        out.append(figure(f"a turn, {turns} turns", "ms CPU", only(taken, "cpu"), goal, table=True))
        note = "for orientation: our backend flushes every write to the disk, the floor does not"
        out.append(figure(f"a turn, {turns} turns, wall", "ms", only(taken, "wall"), note=note))
    return out


def child(module: str, answer: Callable[[Any], None], *, turns: int, streamed: bool = False) -> None:
    """Sessions of `turns` turns, one after the other; after each slice its milliseconds a turn."""
    contender = load(module)
    began = cpu = 0.0

    def pause(turn: int) -> None:
        nonlocal began, cpu
        if turn and turn % SLICE == 0:
            spent, lasted = time.process_time() - cpu, time.perf_counter() - began
            answer({"cpu": spent / SLICE * 1000, "wall": lasted / SLICE * 1000})
        if turn % SLICE == 0:
            began, cpu = time.perf_counter(), time.process_time()

    def session(turns: int, pause: Callable[[int], None]) -> None:
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory).resolve()
            prepare(root, turns)
            asyncio.run(contender.work(root, turns, pause, streamed=streamed))
            check(root, turns)

    session(WARM, lambda turn: None)
    answer(None)
    while True:
        session(turns, pause)
