"""Long histories: what a request costs beyond the floor's after 100, 1,000 or 10,000 messages."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.contenders import load
from benchmarks.measure import Bench, Figure, Spread, lockstep, only
from benchmarks.work import prepare

__all__ = ["child", "measure"]

STEPS = 4
"""Requests of one answer, without the first of a run, which reads the history."""


def measure(bench: Bench) -> list[Figure]:
    """Measure CPU milliseconds of a request, and how the overhead grows."""
    out: list[Figure] = []
    beyond: dict[int, float] = {}
    for messages, rounds in ((100, 9), (1_000, 7), (10_000, 5)):
        taken = lockstep(bench.own, "long_history", bench.rounds(rounds), 1, messages=messages)
        name = f"a request after {messages:,} messages"
        out.append(bench.figure(name, "ms CPU", only(taken, "cpu")))
        if "floor" in taken[0]:
            beyond[messages] = Spread.of([each["ours"]["cpu"] - each["floor"]["cpu"] for each in taken]).median
    if beyond:
        note = "the floor itself grows with the history; ours should add the cost of what is new"
        values = {f"{count:,} messages": Spread.of([value]) for count, value in beyond.items()}
        out.append(Figure("beyond the floor, by messages", "ms CPU", values, note=note))
    return out


def child(module: str, answer: Callable[[dict[str, float] | None], None], *, messages: int) -> None:
    """Continue the same history again and again."""
    contender = load(module)

    def request() -> dict[str, float]:
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory).resolve()
            prepare(root, STEPS + 1)
            came: list[float] = []
            note = partial(_note, came)
            asyncio.run(contender.continued(root, messages, STEPS + 1, note))
        return {"cpu": (came[-1] - came[1]) / STEPS * 1000}

    request()
    answer(None)
    while True:
        answer(request())


def _note(came: list[float], turn: int) -> None:
    came.append(time.process_time())
