"""Cold start: from starting the interpreter to the first request of an agent, in a fresh process."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import NOISE, Contender, Figure, Goal, figure, only, ordered, scratch, variables

__all__ = ["measure"]

ROUNDS = 25
"""Starts of one and the same code differ by a half; fifteen left a median that was 1.04 one time and 1.13 another."""
CODE = """
from benchmarks.contenders import load
from pathlib import Path
seen = load({module!r}).first_request(Path.cwd())
import json
print(json.dumps(seen[2:]))
"""


def measure(contenders: Sequence[Contender]) -> list[Figure]:
    """Milliseconds of the clock, and of CPU."""
    taken: list[dict[str, dict[str, float]]] = []
    with scratch() as home:
        for number in range(ROUNDS + 1):
            answers = {contender.name: _start(contender, home) for contender in ordered(contenders, number)}
            taken.append({contender.name: answers[contender.name] for contender in contenders})
    del taken[0]  # it wrote the byte code
    return [
        figure(
            "cold start to the first request",
            "ms",
            only(taken, "wall"),
            Goal(1.10, of="ratio", gate=True, margin=NOISE),
            digits=0,
            table=True,
        ),
        figure("cold start, CPU", "ms CPU", only(taken, "cpu"), digits=0),
    ]


def _start(contender: Contender, home: Path) -> dict[str, float]:
    began = time.monotonic()
    done = subprocess.run(
        [contender.python, "-c", CODE.format(module=contender.module)],
        cwd=home,
        env=variables(home),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{contender.name}: {done.stderr}")
    came, cpu = json.loads(done.stdout.splitlines()[-1])
    return {"wall": (came - began) * 1000, "cpu": cpu * 1000}
