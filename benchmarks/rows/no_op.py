"""Plugins at scale: a turn with forty plugins that do nothing, streamed and not, and the floor with the same tools."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.measure import Contender, Figure, Goal, figure, lockstep, only

__all__ = ["measure"]

TURNS, SLICE, ROUNDS = 50, 10, 7


def measure(contenders: Sequence[Contender]) -> list[Figure]:
    """CPU milliseconds a turn, of the kernel alone too."""
    floor = next(contender for contender in contenders if contender.name == "floor")
    measured = [floor, Contender("kernel, no plugin", "no_op:NONE"), Contender("ours", "no_op:FORTY")]
    out: list[Figure] = []
    for streamed in (False, True):
        taken = lockstep(measured, "turn", ROUNDS, TURNS // SLICE, turns=TURNS, streamed=streamed)
        name = f"40 no-op plugins, a turn{', streamed' if streamed else ''}"
        out.append(figure(name, "ms CPU", only(taken, "cpu"), Goal(1.05, of="ratio")))
    return out
