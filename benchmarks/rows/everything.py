"""Ours with every plugin of this repository, for orientation: the other rows have the seven features."""

from __future__ import annotations

from benchmarks.measure import Bench, Contender, Figure, counted, lockstep, only, ordered, scratch
from benchmarks.rows.cold_start import start
from benchmarks.rows.turn import SLICE

__all__ = ["measure"]

TURNS, ROUNDS, STARTS = 50, 7, 9


def measure(bench: Bench) -> list[Figure]:
    """Measure what a user of everything notices: a start, a turn, and the characters of a request."""
    if len(bench.ours) > 1:
        return []
    both = [*(each for each in bench.own if each.name == "floor"), Contender("ours", "ours:ALL")]
    with scratch() as home:
        starts = [
            {who.name: start(who, home) for who in ordered(both, number)} for number in range(bench.rounds(STARTS) + 1)
        ][1:]  # the first one writes the byte code
    turns = lockstep(both, "turn", bench.rounds(ROUNDS), TURNS // SLICE, turns=TURNS)
    static = counted(both, "static_cost")
    return [
        bench.figure("every plugin: cold start, CPU", "ms CPU", only(starts, "cpu"), digits=0),
        bench.figure(f"every plugin: a turn, {TURNS} turns", "ms CPU", only(turns, "cpu")),
        bench.figure("every plugin: tools in a request", "tools", only(static, "tools"), digits=0),
        bench.figure("every plugin: static characters a request", "chars", only(static, "chars"), digits=0),
    ]
