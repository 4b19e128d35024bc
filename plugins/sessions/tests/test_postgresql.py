"""The store in PostgreSQL: what only a server with many connections can break."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from deep_sessions import Commit, NewEntry, SessionBusy, SessionStore, StoreError, open_store

from tests.postgresql import Cluster

pytestmark = [pytest.mark.anyio, pytest.mark.needs("PostgreSQL")]
OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
LOST = f"SELECT pg_terminate_backend(pid) {OTHERS}"
WAITING = f"SELECT count(*) {OTHERS} AND wait_event_type = 'Lock'"
NOTE = NewEntry("note", b"{}")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def url(postgresql: Cluster) -> str:
    return postgresql.create_database()


@pytest.fixture
async def store(url: str) -> AsyncIterator[SessionStore]:
    store = open_store(url)
    yield store
    await store.aclose()


@pytest.fixture
def server(url: str) -> Any:
    """A connection beside the store's own."""
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


# -- the lock of a process that lives ----------------------------------------------------------------------------------


async def test_two_that_look_at_the_same_time_do_not_take_each_other_for_the_holder(
    store: SessionStore, server: Any
) -> None:
    await store.release(await store.acquire("s"))
    server.execute("UPDATE deep_sessions SET holder = 'elsewhere:1:gone.1', lock = 77, ends = 'infinity', boot = NULL")
    with server.transaction():
        assert server.execute("SELECT pg_try_advisory_xact_lock_shared(77)").fetchone() == (True,)  # it looks
        assert (await store.info("s")).holder is None
        await store.acquire("s")


async def test_a_process_whose_connections_were_lost_takes_its_lock_back_when_it_renews(
    url: str, store: SessionStore, server: Any
) -> None:
    lease, other = await store.acquire("s"), open_store(url)
    server.execute(LOST)
    await until(lambda: server.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone() == (0,))
    await store.renew(lease)
    with pytest.raises(SessionBusy):
        await other.acquire("s")
    await other.aclose()


async def test_connections_that_the_server_closed_meanwhile_are_replaced(store: SessionStore, server: Any) -> None:
    lease = await store.acquire("s")
    server.execute(LOST)
    assert await store.commit(lease, Commit([NOTE])) == 1


# -- transactions ------------------------------------------------------------------------------------------------------


async def test_a_load_sees_one_state(url: str, store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process commits between two of its queries."""
    from deep_sessions.stores import postgresql

    lease, read = await store.acquire("s"), postgresql._entries
    await store.commit(lease, Commit([NOTE]))

    async def commit() -> None:
        other = open_store(url)
        await other.commit(lease, Commit([NOTE], put={"k": b"{}"}))
        await other.aclose()

    def between(*given: Any) -> Any:
        thread = threading.Thread(target=asyncio.run, args=(commit(),))
        thread.start()
        thread.join()
        return read(*given)

    with monkeypatch.context() as patched:
        patched.setattr(postgresql, "_entries", between)
        stored = await store.load("s")
    assert (stored.info.seq, [entry.seq for entry in stored.entries], dict(stored.ledger)) == (1, [1], {})
    assert (await store.info("s")).seq == 2


@pytest.mark.parametrize("setting", ["transaction_read_only = on", "transaction_isolation = 'serializable'"])
async def test_the_defaults_of_a_database_change_nothing(url: str, server: Any, setting: str) -> None:
    server.execute(f"ALTER DATABASE {server.info.dbname} SET default_{setting}")
    store, other = open_store(url), open_store(url)
    await asyncio.gather(*(each.acquire(name) for each, name in ((store, "a"), (other, "b"))))
    assert {info.id for info in await store.list()} == {"a", "b"}
    await asyncio.gather(store.aclose(), other.aclose())


async def test_an_entry_that_is_missing_is_noticed(store: SessionStore, server: Any) -> None:
    await store.commit(await store.acquire("s"), Commit([NOTE, NOTE, NOTE]))
    server.execute("DELETE FROM deep_sessions_entries WHERE seq = 2")
    with pytest.raises(StoreError, match=r"entry 2 of session s is missing; `deep sessions export SESSION` saves"):
        await store.load("s")
    assert [entry.seq for entry in await store.entries("s")] == [1, 3]


# -- the schema, and processes -----------------------------------------------------------------------------------------


async def test_of_two_that_create_the_schema_one_waits_for_the_other(url: str, server: Any) -> None:
    from deep_sessions.stores.postgresql_server import MIGRATIONS, SCHEMA_LOCK

    server.execute("SELECT pg_advisory_lock(%s)", (SCHEMA_LOCK,))
    store = open_store(url)
    second = asyncio.ensure_future(store.acquire("s"))
    await until(lambda: second.done() or server.execute(WAITING).fetchone() == (1,))
    with server.transaction():
        server.execute("CREATE TABLE deep_sessions_schema (version integer NOT NULL)")
        server.execute("INSERT INTO deep_sessions_schema VALUES (%s)", (len(MIGRATIONS),))
        for statements in MIGRATIONS:
            server.execute(statements)
    server.execute("SELECT pg_advisory_unlock(%s)", (SCHEMA_LOCK,))
    await second
    assert server.execute("SELECT version FROM deep_sessions_schema").fetchall() == [(len(MIGRATIONS),)]
    await store.aclose()


async def test_a_newer_schema_stays_as_it_is(url: str, store: SessionStore, server: Any) -> None:
    await store.acquire("s")
    server.execute("UPDATE deep_sessions_schema SET version = 99")
    older = open_store(url)
    with pytest.raises(StoreError, match=r"newer deep-sessions \(schema 99, .*pip install --upgrade"):
        await older.info("s")
    await older.aclose()
    assert server.execute("SELECT version FROM deep_sessions_schema").fetchall() == [(99,)]


@pytest.mark.slow
async def test_a_forked_process_has_connections_of_its_own(url: str) -> None:
    program = """
import asyncio, os, sys
from deep_sessions import Commit, NewEntry, open_store
store = open_store(sys.argv[1])
lease = asyncio.run(store.acquire("s"))
child = os.fork()
for _ in range(50):
    asyncio.run(store.commit(lease, Commit([NewEntry("messages", b"{}")])))
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(asyncio.run(store.info("s")).seq)
"""
    command = [sys.executable, "-W", "ignore", "-c", program, url]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout.strip(), done.stderr) == ("100", "")


async def test_a_closed_store_says_so(url: str, store: SessionStore) -> None:
    lease = await store.acquire("s")
    await store.aclose()
    with pytest.raises(StoreError, match="was closed; open it again"):
        await store.commit(lease, Commit([NOTE]))
