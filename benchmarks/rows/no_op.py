"""Plugins at scale: a turn of the kernel without a plugin, and with forty no-op plugins, with the floor's tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.measure import Bench, Contender, Figure, Goal, lockstep, only
from benchmarks.rows.turn import ASYNC_FLOOR

__all__ = ["measure"]

TURNS, SLICE, ROUNDS = 50, 10, 7
SETS = 8
"""The goal is 5 %. The medians of one set were 1.02, 1.08 and 1.12 for the same code."""
LINES = {"the kernel without a plugin": "no_op:NONE", "40 no-op plugins": "no_op:FORTY"}
GOAL = Goal(1.05, of="ratio")


def measure(bench: Bench) -> list[Figure]:
    """Measure CPU milliseconds a turn, streamed and not; the kernel alone beside both floors."""
    floors = [each for each in bench.own if each.name == "floor"]
    out: list[Figure] = []
    for streamed in (False, True):
        taken = _taken(bench, floors, list(LINES.values()), streamed)
        for name, module in LINES.items():
            rounds = _picked(bench, taken, floors, module)
            out.append(bench.figure(f"{name}, a turn{', streamed' if streamed else ''}", "ms CPU", rounds, GOAL))
    if floors:
        taken = _taken(bench, [ASYNC_FLOOR], ["no_op:ASYNC"], streamed=False)
        rounds = _picked(bench, taken, [ASYNC_FLOOR], "no_op:ASYNC")
        title = "the kernel without a plugin, a turn, beside async tools"
        out.append(bench.figure(title, "ms CPU", rounds, floor=ASYNC_FLOOR.name, note="ours with the same async tools"))
    return out


def _taken(bench: Bench, floors: Sequence[Contender], modules: Sequence[str], streamed: bool) -> list[dict[str, float]]:
    kernels = [replace(each, name=f"{each.name} {module}", module=module) for module in modules for each in bench.ours]
    rounds = bench.rounds(ROUNDS)
    taken = lockstep([*floors, *kernels], "turn", rounds, TURNS // SLICE, sets=SETS, turns=TURNS, streamed=streamed)
    return only(taken, "cpu")


def _picked(
    bench: Bench, taken: Sequence[dict[str, float]], floors: Sequence[Contender], module: str
) -> list[dict[str, float]]:
    names = {each.name: each.name for each in floors} | {each.name: f"{each.name} {module}" for each in bench.ours}
    return [{who: each[name] for who, name in names.items()} for each in taken]
