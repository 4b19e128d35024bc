"""Leases do not follow a clock that someone sets, and files of the version before open as they are."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest
from deep_sessions import LeaseLost, NotPending, SessionBusy, SessionStore, holder, open_store
from deep_sessions.holder import seconds_left, this_boot, uptime
from deep_sessions.stores import sqlite_file
from deep_sessions.stores.sqlite import _checksum  # pyright: ignore[reportPrivateUsage]

pytestmark = pytest.mark.anyio
HOUR = 3600.0
on_linux = pytest.mark.skipif(this_boot() is None, reason="this system has no clock that nobody sets")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.needs("PostgreSQL"))])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/s.db"
    return request.getfixturevalue("postgresql").create_database()


@pytest.fixture
async def two(url: str) -> AsyncGenerator[tuple[SessionStore, SessionStore]]:
    """Two programs' stores."""
    mine, other = open_store(url), open_store(url)
    yield mine, other
    await mine.aclose()
    await other.aclose()


@on_linux
@pytest.mark.parametrize("jump", [HOUR, -HOUR, 400 * 24 * HOUR])
async def test_a_clock_that_jumps_takes_no_lease_and_keeps_none(
    two: tuple[SessionStore, SessionStore], jump: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = two
    real = time.time
    lease = await mine.acquire("s", ttl=30)
    ended = await mine.acquire("t", holder="elsewhere:1:0", ttl=0.0)
    monkeypatch.setattr(time, "time", lambda: real() + jump)
    with pytest.raises(SessionBusy) as busy:
        await other.acquire("s", holder="elsewhere:1:0")
    assert 0 < busy.value.seconds <= 30
    assert (await other.info("s")).holder is not None
    assert await other.acquire("t")
    monkeypatch.undo()
    await mine.renew(lease)
    with pytest.raises(LeaseLost):
        await mine.renew(ended)


@on_linux
async def test_another_boot_is_measured_by_the_wall_clock(
    two: tuple[SessionStore, SessionStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another host, and of this one before it was started anew: their time since boot says nothing here."""
    mine, other = two
    monkeypatch.setattr("deep_sessions.stores.sqlite.this_boot", lambda: "another")
    monkeypatch.setattr("deep_sessions.stores.postgresql.this_boot", lambda: "another")
    monkeypatch.setattr("deep_sessions.stores.sqlite.uptime", lambda: uptime() + 100 * HOUR)
    monkeypatch.setattr("deep_sessions.stores.postgresql.uptime", lambda: uptime() + 100 * HOUR)
    await mine.acquire("held", holder="elsewhere:1:0", ttl=HOUR)
    await mine.acquire("over", holder="elsewhere:1:0", ttl=0.0)
    monkeypatch.undo()
    with pytest.raises(SessionBusy):
        await other.acquire("held")
    assert await other.acquire("over")


def test_seconds_are_those_of_this_boot_or_of_the_wall() -> None:
    boot = this_boot()
    assert seconds_left(None, None, 7.0) == 7.0
    assert seconds_left("another", uptime() + 99, 7.0) == 7.0
    if boot is not None:
        assert 98 < seconds_left(boot, uptime() + 99, 7.0) <= 99
        assert seconds_left(boot, uptime() - 1, 7.0) < 0


def test_a_system_without_such_a_clock_has_no_boot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(holder, "_PROC", tmp_path)
    assert this_boot.__wrapped__() is None
    monkeypatch.undo()
    monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    assert this_boot.__wrapped__() is None


# -- the version before ------------------------------------------------------------------------------------------------


@pytest.fixture
def earlier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], str]:
    """Writes a file as the first version did: a session whose calls wait, with a lease, an entry and a decision."""

    def write(ends: float) -> str:
        path = tmp_path / "earlier.db"
        db = sqlite3.connect(path)
        for statement in sqlite_file.MIGRATIONS[0]:
            db.execute(statement)
        session = (1, "s", None, "awaiting", 1.0, 2.0, 1, 0, 1, "elsewhere:1:0", ends)
        entry = (1, 1, 2.0, "messages", None, 1, 0, b"{}")
        mail = (1, "decision", b'{"a": {"approve": true}}', 2.0)
        db.execute(f"INSERT INTO sessions VALUES ({'?, ' * 11}?)", (*session, _checksum(session)))
        db.execute(f"INSERT INTO entries VALUES ({'?, ' * 8}?)", (*entry, _checksum(entry)))
        db.execute("INSERT INTO mail VALUES (NULL, ?, ?, ?, ?, ?)", (*mail, _checksum(mail)))
        db.execute("UPDATE counter SET fence = 1")
        db.execute(f"PRAGMA application_id = {sqlite_file.APPLICATION}")
        db.execute("PRAGMA user_version = 1")
        db.commit()
        db.close()
        return f"sqlite:///{path}"

    return write


async def test_a_file_of_the_version_before_opens_with_all_that_it_has(earlier: Callable[[float], str]) -> None:
    store = open_store(earlier(0.0))
    stored = await store.load("s")
    assert ([entry.data for entry in stored.entries], [mail.kind for mail in stored.mail]) == ([b"{}"], ["decision"])
    assert (stored.info.status, stored.info.holder) == ("awaiting", None)
    assert await store.decide("s", 1, {"b": b'{"b": {}}'})
    with pytest.raises(NotPending):
        await store.decide("s", 1, {"b": b'{"b": {}}'})
    lease = await store.acquire("s")
    assert lease.fence == 2
    await store.renew(lease)
    await store.release(lease)
    assert (await store.info("s")).holder is None
    await store.aclose()


async def test_a_lease_of_the_version_before_holds_until_its_end(earlier: Callable[[float], str]) -> None:
    store = open_store(earlier(time.time() + HOUR))
    with pytest.raises(SessionBusy):
        await store.acquire("s")
    await store.aclose()
