"""Stores and processes: killed in the middle of a commit, stopped, two at a time; and a tool's own transaction."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from deep_sessions import Commit, Lease, LeaseLost, NewEntry, SessionBusy, SessionStore, StoreError, open_store

from tests.another_process import Started, start

pytestmark = pytest.mark.anyio

COMMITTER = """
import asyncio, sys
from deep_sessions import Commit, NewEntry, open_store

async def main(url, ttl, waits):
    store = open_store(url)
    lease = await store.acquire("s", ttl=float(ttl))
    number = (await store.info("s")).seq
    while True:
        number += 2
        commit = Commit([NewEntry("messages", b"%d" % number)] * 2, put={str(number): b"{}"})
        assert await store.commit(lease, commit) == number
        print(number, flush=True)
        if waits:
            sys.stdin.readline()

asyncio.run(main(*sys.argv[1:]))
"""


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


@contextmanager
def committer(url: str, *, ttl: float = 3600, waits: str = "") -> Generator[Started]:
    """A process that holds session s and commits to it; with `waits`, once for each line that it reads."""
    pipe = subprocess.PIPE
    process = start("-c", COMMITTER, url, str(ttl), waits, text=True, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read(process: Started) -> int:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        pytest.fail(process.communicate()[1])
    return int(line)


async def takeover(store: SessionStore, **how: Any) -> Lease:
    async with asyncio.timeout(60):
        while True:
            try:
                return await store.acquire("s", **how)
            except SessionBusy:
                await asyncio.sleep(0.01)


async def test_kill_at_any_moment_loses_nothing_and_leaves_nothing_half(url: str, store: SessionStore) -> None:
    draw, last = random.Random(13), 0
    for _ in range(8):
        with committer(url) as process:  # it takes over from the killed one at once, though that had an hour left
            for _ in range(draw.randrange(1, 40)):
                last = read(process)
            process.kill()
            rest = process.communicate()[0].split()
        last = int(rest[-1]) if rest and rest[-1].isdecimal() else last
        stored = await store.load("s")
        assert stored.info.seq >= last, "a commit that was confirmed is gone"
        assert [entry.seq for entry in stored.entries] == [*range(1, stored.info.seq + 1)]
        assert sorted(map(int, stored.ledger)) == [*range(2, stored.info.seq + 1, 2)]
        assert stored.info.holder is None
        last = stored.info.seq


async def test_of_two_processes_one_holds_a_session(url: str, store: SessionStore) -> None:
    with committer(url, waits="yes") as process:
        read(process)
        with pytest.raises(SessionBusy) as caught:
            await store.acquire("s")
        assert f":{process.pid}:" in caught.value.holder
        with pytest.raises(SessionBusy):
            await store.delete("s")
        number = await store.post("s", "cancel", b"{}")
        assert [mail.id for mail in await store.mail("s")] == [number]


@pytest.mark.slow
async def test_a_stopped_process_is_taken_over_and_then_refused(url: str, store: SessionStore) -> None:
    with committer(url, ttl=0.5, waits="yes") as process:
        read(process)
        process.send_signal(signal.SIGSTOP)
        lease = await takeover(store, ttl=3600)
        process.send_signal(signal.SIGCONT)
        error = process.communicate("\n")[1]
        assert "LeaseLost: session s: the lease of" in error
        assert await store.commit(lease, Commit([NewEntry("messages", b"{}")])) == 3
        assert [entry.seq for entry in await store.entries("s")] == [1, 2, 3]


@pytest.mark.needs("PostgreSQL")
async def test_a_process_of_another_host_is_taken_over_when_it_dies(postgresql: Any) -> None:
    """Its host name is another one, so that only the server knows that it is dead."""
    url = postgresql.create_database()
    elsewhere = f"import socket; socket.gethostname = lambda: 'elsewhere'\n{COMMITTER}"
    process = start("-c", elsewhere, url, "3600", "", text=True, stdout=subprocess.PIPE)
    store = open_store(url)
    try:
        read(process)
        with pytest.raises(SessionBusy) as caught:
            await store.acquire("s")
        assert caught.value.holder.startswith("elsewhere:")
        process.kill()
        process.wait()
        await takeover(store)
    finally:
        process.kill()
        process.communicate()
        await store.aclose()


@pytest.mark.needs("PostgreSQL")
async def test_a_read_whose_connection_is_lost_is_done_again_and_a_write_is_an_error(postgresql: Any) -> None:
    from deep_sessions.stores.postgresql_server import PostgresqlServer

    server = PostgresqlServer(postgresql.create_database())
    is_lost = iter([True, False, True])

    def work(connection: Any) -> str:
        if next(is_lost):
            connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return "done"

    assert await server.read(work) == "done"
    with pytest.raises(StoreError, match="terminating connection"):
        await server.write(work)
    await server.close()


# -- a tool's transaction ----------------------------------------------------------------------------------------------


async def test_an_effect_in_the_stores_database_commits_with_its_record(url: str, store: SessionStore) -> None:
    lease = await store.acquire("s")
    with store.transaction(lease, Commit()) as connection:
        connection.execute("CREATE TABLE orders (name text)")
    with store.transaction(lease, Commit([NewEntry("note", b"{}")], put={"k": b"{}"})) as connection:
        connection.execute("INSERT INTO orders VALUES ('tea')")
    with pytest.raises(ZeroDivisionError):  # noqa: PT012, SIM117
        with store.transaction(lease, Commit(put={"other": b"{}"})) as connection:
            connection.execute("INSERT INTO orders VALUES ('coffee')")
            raise ZeroDivisionError
    stored = await store.load("s")
    assert (dict(stored.ledger), stored.info.seq) == ({"k": b"{}"}, 1)
    with store.transaction(lease, Commit()) as connection:
        assert connection.execute("SELECT name FROM orders").fetchall() == [("tea",)]


async def test_the_block_of_a_transaction_cannot_end_it(url: str, store: SessionStore) -> None:
    lease = await store.acquire("s")
    with pytest.raises(Exception, match=r"not authorized|forbidden"):  # noqa: PT012, SIM117
        with store.transaction(lease, Commit(put={"k": b"{}"})) as connection:
            connection.execute("CREATE TABLE orders (name text)")
            connection.commit()
    assert dict((await store.load("s")).ledger) == {}
    with store.transaction(lease, Commit()) as connection:
        connection.execute("CREATE TABLE orders (name text)")  # it was rolled back


async def test_a_transaction_needs_the_lease(url: str, store: SessionStore) -> None:
    lost = await store.acquire("s")
    await store.release(lost)
    with pytest.raises(LeaseLost), store.transaction(lost, Commit()):
        pytest.fail("the block ran")
    assert (await store.info("s")).seq == 0


@pytest.mark.needs("PostgreSQL")
async def test_a_lease_that_is_taken_over_in_the_block_writes_nothing(postgresql: Any) -> None:
    """In SQLite no other writer comes between."""
    store = open_store(postgresql.create_database())
    lease = await store.acquire("s", ttl=0.0)
    with pytest.raises(LeaseLost):  # noqa: PT012, SIM117
        with store.transaction(lease, Commit([NewEntry("note", b"{}")])) as connection:
            connection.execute("CREATE TABLE orders (name text)")
            await store.acquire("s")
    assert (await store.info("s")).seq == 0
    await store.aclose()


@pytest.mark.needs("PostgreSQL")
async def test_a_decision_waits_for_a_commit_under_way_and_is_about_what_it_left(postgresql: Any) -> None:
    store = open_store(postgresql.create_database())
    lease = await store.acquire("s")
    seq = await store.commit(lease, Commit([NewEntry("messages", b"1")]))

    def waiting(db: Any) -> int:
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        return db.execute(query).fetchone()[0]

    with store.transaction(lease, Commit([NewEntry("messages", b"2")])) as db:
        db.execute("SELECT 1 FROM deep_sessions WHERE id = 's' FOR UPDATE")
        decision = asyncio.ensure_future(store.decide("s", seq, {"call": b"{}"}))
        async with asyncio.timeout(60):
            while not decision.done() and not await store.in_database(waiting):
                await asyncio.sleep(0.01)
    assert await decision is False
    assert await store.mail("s") == []
    await store.aclose()
