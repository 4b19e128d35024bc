"""Deep agents in several processes: two on one session, and approvals that outlive who asked and who answered."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from deep_sessions import Commit, DeepAgent, RunResult, SessionBusy, SessionStore, StoreError, open_store
from deep_sessions.fold import fold

from plugins.sessions.tests.deep_agents import answer, ask, create, finish, hold, order
from plugins.sessions.tests.zygote import Zygote
from tests.postgresql import cluster

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.needs("PostgreSQL"))])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/sessions.db"
    return request.getfixturevalue("postgresql").create_database()


@pytest.fixture
async def store(url: str) -> AsyncIterator[SessionStore]:
    store = open_store(url)
    yield store
    await store.aclose()


@pytest.fixture
async def agent(store: SessionStore, tmp_path: Path) -> DeepAgent:
    return await create(store, tmp_path)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(600):
        while not condition():
            await asyncio.sleep(0.01)


async def takeover(run: Callable[[], Awaitable[RunResult]]) -> RunResult:
    async with asyncio.timeout(600):
        while True:
            try:
                return await run()
            except SessionBusy:
                await asyncio.sleep(0.01)


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


# -- two holders -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", [None, "elsewhere"])
async def test_a_second_agent_is_refused_at_once(
    zygote: Zygote, url: str, agent: DeepAgent, tmp_path: Path, host: str | None
) -> None:
    holder = zygote.start(hold, url=url, folder=str(tmp_path), ttl=3600, host=host)
    await until((tmp_path / "inside").exists)
    for use in (agent.run("level 0", session_id="s"), agent.resume("s")):
        with pytest.raises(SessionBusy) as caught:
            await use
        assert f":{holder}:" in caught.value.holder
    (tmp_path / "go").touch()
    assert not zygote.wait(holder)
    assert lines(tmp_path / "ended") == ["completed"]
    assert lines(tmp_path / "effects") == [f"{holder} 1", f"{holder} 2"]
    assert (await agent.run("level 0", session_id="s")).status == "completed"


@pytest.mark.parametrize("host", [None, "elsewhere"])
async def test_the_session_of_a_killed_agent_is_taken_over(
    zygote: Zygote, url: str, agent: DeepAgent, tmp_path: Path, host: str | None
) -> None:
    # On this host the process is known to be dead, and a PostgreSQL server knows it of all hosts: the lease is long.
    knows = host is None or url.startswith("postgresql")
    holder = zygote.start(hold, url=url, folder=str(tmp_path), ttl=3600 if knows else 0.5, host=host)
    await until((tmp_path / "inside").exists)
    zygote.kill(holder)
    result = await (agent.resume("s") if host is None else takeover(lambda: agent.resume("s")))
    assert result.status == "completed"
    assert lines(tmp_path / "effects") == [f"{holder} 1", f"{os.getpid()} 2"], "what is not known to have run runs once"


@pytest.mark.slow
async def test_the_session_of_a_stopped_agent_is_taken_over_and_it_writes_no_more(
    zygote: Zygote, url: str, store: SessionStore, agent: DeepAgent, tmp_path: Path
) -> None:
    holder = zygote.start(hold, url=url, folder=str(tmp_path), ttl=1, stops=True)
    await until((tmp_path / "inside").exists)
    result = await takeover(lambda: agent.resume("s"))
    assert result.status == "completed"
    before = await store.load("s")
    os.kill(holder, signal.SIGCONT)
    assert not zygote.wait(holder)
    assert lines(tmp_path / "ended") == ["LeaseLost"]
    assert await store.load("s") == before
    assert lines(tmp_path / "effects") == [f"{holder} 1", f"{os.getpid()} 2"]


@pytest.mark.exhaustive
@pytest.mark.needs("PostgreSQL")
async def test_a_database_that_goes_ends_a_run_and_the_session_continues_when_it_is_back(tmp_path: Path) -> None:
    with cluster() as server:
        store = open_store(server.create_database())

        async def stop() -> None:
            server.stop()

        agent = await create(store, tmp_path, first=stop)
        with pytest.raises(StoreError, match=r"postgresql://.*check that the server runs, then try again"):
            await agent.run("level 0", session_id="s")
        with pytest.raises(StoreError, match="check that the server runs"):
            await agent.resume("s")
        server.start()
        assert (await agent.resume("s")).status == "completed"  # its lease was not released, and has 30 seconds left
        assert lines(tmp_path / "effects") == [f"{os.getpid()} 1", f"{os.getpid()} 2"]
        await store.aclose()


# -- exactly once ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dies", "on_unknown", "orders"),
    [
        pytest.param("before", "retry", 1, id="a block that was not committed runs again"),
        pytest.param("before", "fail", 0, id="unless its author says otherwise"),
        pytest.param("after", "retry", 1, id="one that was committed does not"),
    ],
)
async def test_an_effect_in_the_stores_database_happens_once(
    zygote: Zygote, url: str, store: SessionStore, dies: str, on_unknown: str, orders: int
) -> None:
    lease = await store.acquire("other")
    with store.transaction(lease, Commit()) as database:
        database.execute("CREATE TABLE orders (name text)")
    assert zygote.wait(zygote.start(order, url=url, dies=dies, on_unknown=on_unknown))
    assert not zygote.wait(zygote.start(order, url=url, on_unknown=on_unknown))
    with store.transaction(lease, Commit()) as database:
        assert database.execute("SELECT count(*) FROM orders").fetchone() == (orders,)
    (result,) = [part for message in fold(await store.load("s")).messages() for part in message.parts[:1]][2:3]
    told = {"before": {"retry": "ordered", "fail": "Nobody knows"}[on_unknown], "after": "did its work"}[dies]
    assert told in str(getattr(result, "content", ""))


# -- approvals ---------------------------------------------------------------------------------------------------------


class Asked:
    """A session that waits; the process that asked is dead."""

    def __init__(self, zygote: Zygote, url: str, folder: Path, depth: int = 0) -> None:
        self._zygote, self._folder = zygote, folder
        self._given: dict[str, Any] = {"url": url, "folder": str(folder), "depth": depth}
        assert zygote.wait(self.start(ask)), "it did not ask"

    def start(self, program: Any, **how: Any) -> int:
        return self._zygote.start(program, **self._given, **how)

    def do(self, program: Any, **how: Any) -> str:
        """Run a program to its end; return what it said."""
        before = len(lines(self._folder / "ended"))
        self._zygote.wait(self.start(program, **how))
        said = lines(self._folder / "ended")[before:]
        return said[0] if said else "died"

    @property
    def effects(self) -> list[str]:
        return [line.split()[1] for line in lines(self._folder / "effects")]


@pytest.mark.slow
@pytest.mark.parametrize("depth", [0, 3])
async def test_processes_that_die_ask_and_answer(
    zygote: Zygote, url: str, store: SessionStore, tmp_path: Path, depth: int
) -> None:
    asked = Asked(zygote, url, tmp_path, depth)
    for n in (1, 2):
        assert (await store.info("s")).status == "awaiting"
        assert asked.effects == ["1"][: n - 1]
        assert asked.do(finish) == "awaiting_human"  # nothing is decided
        assert asked.do(answer) == "done"
        assert asked.do(finish) == ["awaiting_human", "completed"][n - 1]
    assert asked.effects == ["1", "2"]
    assert asked.do(finish) == "NothingToResume"


@pytest.mark.slow
@pytest.mark.parametrize("depth", [0, 3])
def test_a_double_answer_runs_the_call_once(zygote: Zygote, url: str, tmp_path: Path, depth: int) -> None:
    asked = Asked(zygote, url, tmp_path, depth)
    for process in [asked.start(answer) for _ in range(3)]:  # at the same time
        zygote.wait(process)
    said = lines(tmp_path / "ended")
    assert sorted(said) == ["NotPending", "NotPending", "done"]
    assert asked.do(finish, dies=True) == "died"
    assert asked.effects == ["1"]
    assert asked.do(answer, approvals={"c": True}) == "NotPending"
    assert asked.do(finish) == "awaiting_human"  # it asks about the second call
    assert asked.effects == ["1"]


async def test_an_answer_that_was_never_asked_for_runs_nothing(
    zygote: Zygote, url: str, store: SessionStore, tmp_path: Path
) -> None:
    asked = Asked(zygote, url, tmp_path)
    assert asked.do(answer, approvals={"other": True}) == "NotPending"
    await store.post("s", "decision", b'{"other": {"approve": true}}')  # past the agent
    assert asked.do(finish) == "awaiting_human"
    assert asked.effects == []
    assert asked.do(answer) == "done"
    assert asked.do(finish) == "awaiting_human"
    await store.post("s", "decision", b'{"other": {"approve": true}}')
    assert asked.do(finish) == "awaiting_human"
    assert asked.effects == ["1"]


@pytest.mark.slow
async def test_an_answer_about_changed_arguments_runs_nothing(zygote: Zygote, url: str, tmp_path: Path) -> None:
    """The call in the stored conversation is not the one that was asked about."""
    asked = Asked(zygote, url, tmp_path)
    assert asked.do(answer) == "done"
    if url.startswith("sqlite"):
        with sqlite3.connect(tmp_path / "sessions.db") as file:
            file.execute("""UPDATE entries SET data = replace(data, '"n":1', '"n":9') WHERE kind = 'messages'""")
        file.close()
        assert asked.do(finish) == "StoreError", "its checksum is wrong"
    else:
        import psycopg

        with psycopg.connect(url) as server:
            server.execute(
                """UPDATE deep_sessions_entries SET data =
                convert_to(replace(convert_from(data, 'UTF8'), '"n":1', '"n":9'), 'UTF8') WHERE kind = 'messages'"""
            )
        assert asked.do(finish) == "awaiting_human"
    assert asked.effects == []
