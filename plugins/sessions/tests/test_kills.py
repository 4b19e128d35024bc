"""Real processes, killed at writes and at any moment: what is reopened is valid, and no effect ran twice.

CI kills the processes of about 100 sessions, `make test-nightly` of 3,000 and at every write.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deep_sessions import Entry
from deep_sessions.entries import read_entry
from deep_sessions.fold import fold
from deep_sessions.ledger_rows import UNKNOWN
from pydantic_ai.messages import ToolReturnPart

from plugins.sessions.tests.longrun import EFFECTS
from plugins.sessions.tests.stores import open_for_test
from plugins.sessions.tests.test_crashes import assert_valid
from plugins.sessions.tests.zygote import Zygote
from tests.drawn import many

PARALLEL = 3
"""The most effects that are under way at once."""
STORES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.needs("PostgreSQL"))]


class Killed:
    """Sessions that are killed and finished, in one store.

    Attributes:
        kills: how many processes were killed.
    """

    def __init__(self, zygote: Zygote, url: str, folder: Path) -> None:
        self.kills = 0
        self._zygote, self._url, self._folder = zygote, url, folder
        self._numbers = itertools.count(1)

    def kill_and_finish(self, *kills: dict[str, Any]) -> bool:
        """Kill a new session's processes in these ways, then let one run it to its end. Return whether any died."""
        number = next(self._numbers)
        # A file of its own for each session, so that its creation is interrupted too.
        url = self._url.format(number=number)
        name, effects = f"s{number}", self._folder / f"{number}.effects"
        killed = sum(self._zygote.run(url, name, effects, **how) for how in kills)
        assert not self._zygote.run(url, name, effects)
        ran = Counter(map(int, effects.read_text().split()))
        assert not [n for n, times in ran.items() if times > 1], f"{kills}: {ran}"
        missing = EFFECTS - ran.keys()
        assert len(missing) <= killed * PARALLEL, f"{kills}: {missing} never ran"
        assert len(asyncio.run(unknown_of_a_finished(url, name))) >= len(missing), f"{kills}: {missing} lost in silence"
        self.kills += killed
        return killed > 0


async def unknown_of_a_finished(url: str, session_id: str) -> set[object]:
    """Check a session that has ended; return the calls of which the model read that nobody knows whether they ran."""
    store = open_for_test(url)
    try:
        stored = await store.load(session_id)
        assert_valid(fold(stored).messages())
        assert (stored.info.status, dict(stored.ledger), list(stored.mail)) == ("idle", {}, [])
        entries = await store.entries(session_id)
    finally:
        await store.aclose()
    assert [entry.seq for entry in entries] == [*range(1, stored.info.seq + 1)]
    return {(part.tool_call_id, part.timestamp) for part in returns(entries) if part.content == UNKNOWN}


def returns(entries: Iterable[Entry]) -> Iterator[ToolReturnPart]:
    """Yield the results of all calls, of subagents and of what was cut away too."""
    for entry in entries:
        data: Any = read_entry(entry)
        for message in data.get("messages", ()):
            yield from (part for part in message.parts if isinstance(part, ToolReturnPart))


@pytest.fixture(params=STORES)
def killed(request: pytest.FixtureRequest, zygote: Zygote, tmp_path: Path) -> Iterator[Killed]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/{{number}}.db"
    else:
        url = request.getfixturevalue("postgresql").create_database()
    found = Killed(zygote, url, tmp_path)
    yield found
    print(f"{request.param}: {found.kills} kills")


@pytest.mark.slow
def test_a_process_killed_at_a_write_loses_at_most_the_step(killed: Killed) -> None:
    for after in (False, True):
        # Some results wait for the next write: on a busy machine more of them, so that a run has 35 to 50 writes.
        writes = itertools.count(1, many(19, 1))
        last = next(write for write in writes if not killed.kill_and_finish({"write": write, "after": after}))
        assert last > 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(many(1, 51)))
def test_processes_killed_at_any_moment_one_after_the_other(killed: Killed, seed: int) -> None:
    draw = random.Random(seed)
    for number in itertools.count(1):
        killed.kill_and_finish(*({"part": draw.uniform(0.0, 1.2)} for _ in range(draw.randint(2, 4))))
        if number >= many(2, 28) and killed.kills > 0:  # a run may end before the moment comes
            break
