"""Real processes, killed at every write and at any moment: what is reopened is valid, and no effect ran twice."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deep_sessions.fold import fold

from plugins.sessions.tests.longrun import EFFECTS
from plugins.sessions.tests.stores import open_for_test
from plugins.sessions.tests.test_crashes import assert_valid
from tests.drawn import many

KILLED = (9, 27)
"""SIGKILL and SIGPROF."""
PARALLEL = 3
"""The most effects that are under way at once."""


class Zygote:
    """Runs sessions in processes of their own."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "plugins.sessions.tests.zygote"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, url: str, effects: Path, **how: Any) -> int:
        """Run the session until it ends or is killed; return the signal, or 0."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"url": url, "effects": str(effects), **how}) + "\n")
        self.process.stdin.flush()
        status = int(self.process.stdout.readline())
        assert status >= 0, "the run failed; its traceback is above"
        return status


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    made = Zygote()
    with made.process:
        yield made


def kill_and_finish(zygote: Zygote, url: str, effects: Path, kills: list[dict[str, Any]]) -> int:
    """Kill the session's processes in these ways, then let one run it to its end. Return how many were killed."""
    killed = sum(zygote.run(url, effects, **how) in KILLED for how in kills)
    assert zygote.run(url, effects) == 0
    ran = Counter(map(int, effects.read_text().split()))
    twice = [n for n, times in ran.items() if times > 1]
    assert not twice, f"{kills}: {twice} ran twice"
    missing = EFFECTS - ran.keys()
    assert len(missing) <= killed * PARALLEL, f"{kills}: {missing} never ran"
    store = open_for_test(url)
    stored = asyncio.run(store.load("s"))
    asyncio.run(store.aclose())
    assert_valid(fold(stored).messages())
    assert stored.info.status == "idle"
    assert not stored.ledger
    return killed


@pytest.fixture
def place(tmp_path: Path) -> Callable[[], tuple[str, Path]]:
    """Makes (URL, effects file) of a new session."""
    count = 0

    def make() -> tuple[str, Path]:
        nonlocal count
        count += 1
        return f"sqlite:///{tmp_path / f'{count}.db'}", tmp_path / f"{count}.effects"

    return make


@pytest.mark.more
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_process_killed_at_a_write_loses_at_most_the_step(zygote: Zygote, place: Any, after: bool) -> None:
    killed = 0
    for write in range(1, 50, many(1, 16)):  # some results wait for the next write, so a run has 40 to 50 of them
        killed += kill_and_finish(zygote, *place(), [{"write": write, "after": after}])
    assert killed > many(30, 2)


@pytest.mark.more
def test_processes_killed_at_any_moment_one_after_the_other(zygote: Zygote, place: Any) -> None:
    draw, killed = random.Random(13), 0
    for _ in range(many(100, 2)):
        kills = [{"cpu": draw.uniform(0.01, 0.4)} for _ in range(draw.randint(2, 4))]
        killed += kill_and_finish(zygote, *place(), kills)
    assert killed > 0
