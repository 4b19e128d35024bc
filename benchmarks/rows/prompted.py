"""Tools as text: a turn of a model without tool calls, beside the same turn of one that has them."""

from __future__ import annotations

from benchmarks.measure import NOISE, Bench, Contender, Figure, Goal, lockstep, only

__all__ = ["measure"]

ROUNDS = {50: 9, 200: 3}
"""Turns of a run -> rounds."""
SLICE = 10
GOAL = Goal(1.25, of="ratio", gate=True, margin=NOISE)
NATIVE = Contender("native calls", "ours")


def measure(bench: Bench) -> list[Figure]:
    """Measure CPU milliseconds a turn, and the ratio to native calls."""
    if len(bench.ours) > 1:
        return []
    out: list[Figure] = []
    for turns, rounds in ROUNDS.items():
        prompted = Contender("ours", "prompted", floor=NATIVE.name)
        taken = lockstep([NATIVE, prompted], "turn", bench.rounds(rounds), turns // SLICE, turns=turns)
        name = f"a turn of prompted tools, {turns} turns"
        out.append(bench.figure(name, "ms CPU", only(taken, "cpu"), GOAL, floor=NATIVE.name))
    return out
