"""Cost of a turn: CPU time of one request and its three calls, at 50, 200 and 400 turns of one run."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.contenders import load
from benchmarks.measure import NOISE, Bench, Contender, Figure, Goal, lockstep, only
from benchmarks.work import check, prepare

__all__ = ["ASYNC_FLOOR", "child", "measure"]

SLICE = 10
"""Turns that a contender does before the next one works."""
WARM = 20
"""Turns that warm up a process."""
ROUNDS = {50: 7, 200: 5, 400: 5}
"""Turns of a run -> rounds of a set."""
SETS = {50: 3, 200: 1, 400: 1}
GOALS = {50: 1.2, 400: 1.15}
ASYNC_GOALS = {50: 1.25, 200: 1.12}
ASYNC_FLOOR = Contender("floor, async tools", "floor:ASYNC")


def measure(bench: Bench) -> list[Figure]:
    """Measure CPU milliseconds: 50 turns beside both floors, 200 beside async tools, 400 beside the floor.

    A run of 400 turns takes ten seconds: with a third contender it would be a quarter of `make bench`.
    """
    floors = [ASYNC_FLOOR] if bench.contenders[0].name == "floor" else []
    both = [*bench.contenders[:1], *floors, *bench.contenders[1:]]
    return [
        *_figures(bench, both, 50),
        *_figures(bench, [*floors, *bench.ours], 200),
        *_figures(bench, bench.contenders, 400),
    ]


def _figures(bench: Bench, contenders: Sequence[Contender], turns: int) -> list[Figure]:
    name, rounds = f"a turn, {turns} turns", bench.rounds(ROUNDS[turns])
    taken = lockstep(contenders, "turn", rounds, turns // SLICE, sets=SETS[turns], turns=turns)
    cpu, wall = only(taken, "cpu"), only(taken, "wall")
    out: list[Figure] = []
    if turns in GOALS or len(bench.ours) > 1:
        goal = Goal(GOALS[turns], of="ratio", gate=True, margin=NOISE) if turns in GOALS else None
        out.append(bench.figure(name, "ms CPU", cpu, goal, table=True))
        note = "for orientation: our backend flushes every write to the disk, the floor does not"
        out.append(bench.figure(f"{name}, wall", "ms", wall, note=note))
    if ASYNC_FLOOR in contenders:
        beside = [{who: each[who] for who in (ASYNC_FLOOR.name, "ours")} for each in cpu]
        goal = Goal(ASYNC_GOALS[turns], of="ratio")
        title = f"{name}, beside async tools"
        out.append(bench.figure(title, "ms CPU", beside, goal, floor=ASYNC_FLOOR.name, table=True))
    return out


def child(module: str, answer: Callable[[Any], None], *, turns: int, streamed: bool = False) -> None:
    """Run sessions of `turns` turns one after the other; answer the milliseconds a turn of each slice."""
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
