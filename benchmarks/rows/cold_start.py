"""Cold start: from starting the interpreter to an agent's first request, to the end of a command, to a prompt."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.measure import NOISE, Bench, Contender, Figure, Goal, only, ordered, scratch, variables

__all__ = ["measure", "start"]

ROUNDS = 50
"""Starts of the same code differ by a half: the median of 25 was 1.06, 1.14 and 1.16."""
COMMANDS = 9
"""The rounds in which the commands start too."""
CODE = """
from benchmarks.contenders import load
from pathlib import Path
seen = load({module!r}).first_request(Path.cwd())
import json
print(json.dumps(seen[2:]))
"""
ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\r")
PROMPT = b"\n>"


def measure(bench: Bench) -> list[Figure]:
    """Measure milliseconds of the clock, and of CPU."""
    with scratch() as folder:
        # The first round is dropped: it writes the byte code and the kernel's cache.
        taken = [_round(bench, folder, number) for number in range(bench.rounds(ROUNDS) + 1)][1:]
    starts = [{who.name: each[who.name] for who in bench.contenders} for each in taken]
    goal = Goal(1.10, of="ratio", gate=True, margin=NOISE)
    out = [
        bench.figure("cold start to the first request", "ms", only(starts, "wall"), goal, digits=0, table=True),
        bench.figure("cold start, CPU", "ms CPU", only(starts, "cpu"), Goal(1.05, of="ratio"), digits=0),
    ]
    note = "the floor is its cold start, above"
    for name, (_, limit) in STARTED.items():
        own = {who.name: f"{name}, {who.name}" if who in bench.ours else who.name for who in bench.own}
        rounds = [
            {who: each[side]["wall"] for who, side in own.items()}
            for each in taken[: bench.rounds(COMMANDS)]
        ]  # fmt: skip
        out.append(bench.figure(name, "ms", rounds, Goal(limit, of="ratio"), digits=0, note=note))
    return out


def _round(bench: Bench, folder: Path, number: int) -> dict[str, dict[str, float]]:
    """Time each start once, one after the other; the commands in the first rounds only."""
    sides = {who.name: partial(start, who, _home(folder, who)) for who in bench.contenders}
    if number <= bench.rounds(COMMANDS):
        for name, (command, _) in STARTED.items():
            sides |= {f"{name}, {who.name}": partial(command, who, _home(folder, who)) for who in bench.ours}
    return {side: sides[side]() for side in ordered(list(sides), number)}


def _home(folder: Path, contender: Contender) -> Path:
    # Not one for all: an older commit cannot read the store of a newer one, so it stored nothing, and looked fast.
    home = folder / contender.name
    home.mkdir(exist_ok=True)
    return home


def start(contender: Contender, home: Path) -> dict[str, float]:
    """Start an interpreter and an agent; return the milliseconds to its first request, of the clock and of CPU."""
    began = time.monotonic()
    command = [contender.python, "-c", CODE.format(module=contender.module)]
    came, cpu = json.loads(_output(command, contender, home).splitlines()[-1])
    return {"wall": (came - began) * 1000, "cpu": cpu * 1000}


def _run(contender: Contender, home: Path) -> dict[str, float]:
    """Time `deep run` until it has ended."""
    began = time.monotonic()
    command = [contender.python, "-m", "deep_cli", "run", "hi", "-m", "demo:echo"]
    assert "hi" in _output(command, contender, home)
    return {"wall": (time.monotonic() - began) * 1000}


def _output(command: list[str], contender: Contender, home: Path) -> str:
    done = subprocess.run(
        command,
        cwd=home,
        env=variables(home, contender.repository),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{contender.name}: {done.stderr}")
    return done.stdout


def _chat(contender: Contender, home: Path) -> dict[str, float]:
    """Time `deep chat` on a terminal until it shows its prompt."""
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
    env = {**variables(home, contender.repository), "TERM": "xterm-256color"}
    began, shown = time.monotonic(), b""
    with subprocess.Popen(
        [contender.python, "-m", "deep_cli", "chat", "-m", "demo:echo"],
        cwd=home,
        env=env,
        stdin=there,
        stdout=there,
        stderr=there,
        start_new_session=True,
    ) as process:
        os.close(there)
        try:
            while PROMPT not in ESCAPES.sub(b"", shown):
                shown += os.read(here, 65536)
            lasted = time.monotonic() - began
        except OSError as error:  # the other end is closed
            raise RuntimeError(f"{contender.name}: deep chat ended without a prompt: {shown!r}") from error
        finally:
            process.kill()
            os.close(here)
    return {"wall": lasted * 1000}


STARTED: dict[str, tuple[Callable[[Contender, Path], dict[str, float]], float]] = {
    'deep run "hi" -m demo:echo': (_run, 1.3),
    "deep chat to its prompt": (_chat, 1.2),
}
"""Command -> what times it, and its goal in cold starts of the floor."""
