"""`open_store`: URLs, plugins' stores, and messages without secrets."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deep_sessions
import pytest
from deep_sessions import MemoryStore, PostgresqlStore, SessionStore, SqliteStore, StoreError, open_store

from deep_core import ConfigError, Kernel, MissingExtra, PluginError, hookimpl
from tests.postgresql import Cluster


def create_session(store: SessionStore) -> None:
    async def create() -> None:
        await store.release(await store.acquire("s"))
        await store.aclose()

    asyncio.run(create())


def synchronous(store: SqliteStore) -> int:
    async def ask() -> int:
        return await store._file.read(lambda db: db.execute("PRAGMA synchronous").fetchone()[0])

    return asyncio.run(ask())


class Stores:
    """A plugin with a store."""

    def __init__(self, stores: Any) -> None:
        self.stores = stores

    @hookimpl(of="sessions")
    def deep_session_stores(self, context: Any) -> Any:
        assert context.plugin
        return self.stores


@pytest.fixture
def make_kernel() -> Callable[..., Kernel]:
    return lambda *plugins, **how: Kernel(plugins=[deep_sessions, *plugins], discover=False, **how)


def test_memory_lasts_as_long_as_the_store() -> None:
    assert isinstance(open_store("memory:"), MemoryStore)


def test_a_relative_file_stands_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    create_session(open_store("sqlite:///data/my%20sessions.db"))
    assert (tmp_path / "data" / "my sessions.db").exists()


def test_an_absolute_file_and_one_in_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for url in (f"sqlite:///{tmp_path}/absolute.db", "sqlite:///~/home.db"):
        create_session(open_store(url))
    assert {path.name for path in tmp_path.glob("*.db")} == {"absolute.db", "home.db"}


def test_a_file_is_its_owners_alone(tmp_path: Path) -> None:
    create_session(open_store(f"sqlite:///{tmp_path}/new/sessions.db"))
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "new" / "sessions.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("query", "level"), [("", 1), ("?durability=normal", 1), ("?durability=full", 2)])
def test_full_durability_synchronizes_every_commit(tmp_path: Path, query: str, level: int) -> None:
    store = open_store(f"sqlite:///{tmp_path}/sessions.db{query}")
    assert isinstance(store, SqliteStore)
    assert synchronous(store) == level
    asyncio.run(store.aclose())


@pytest.mark.needs("PostgreSQL")
def test_postgresql(postgresql: Cluster) -> None:
    store = open_store(postgresql.create_database())
    assert isinstance(store, PostgresqlStore)
    create_session(store)


def test_an_owner_sees_its_own() -> None:
    assert open_store("memory:", owner="ann").owner == "ann"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlit:///x.db", r"begin with 'sqlit': there are memory:.*Did you mean 'sqlite'\?"),
        ("sessions.db", r"For a file write sqlite:///sessions.db"),
        ("redis://:hunter2@host", r"begin with 'redis'.*pip install"),
        ("sqlite://sessions.db", r"sqlite:///relative.db"),
        ("sqlite:///:memory:", r"in memory has memory:"),
        ("sqlite:///x.db?durabilty=full", r"\?durabilty=…: there is no such option. Did you mean 'durability'\?"),
        ("sqlite:///x.db?durability=fast", r"write normal or full"),
        ("postgresql://u:hunter2@host:x y/db", r"the URL of the PostgreSQL store cannot be read; write postgresql://"),
        ("postgresql://u:hunter2@host/db?nonsense=1", r"cannot be read"),
    ],
)
def test_a_wrong_url_is_explained_without_its_secrets(
    url: str, message: str, make_kernel: Callable[..., Kernel]
) -> None:
    with make_kernel() as kernel, pytest.raises(ConfigError, match=message) as caught:
        open_store(url, kernel=kernel)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_database_that_is_not_there_is_named_without_the_password() -> None:
    store = open_store("postgresql://me:hunter2@127.0.0.1:1/sessions")
    with pytest.raises(StoreError, match=r"^postgresql://127.0.0.1/sessions: .*check that the server") as caught:
        asyncio.run(store.list())
    assert "hunter2" not in f"{caught.value} {caught.value.__cause__}"


def test_without_the_extra_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deep_sessions.stores.postgresql_server", None)
    with pytest.raises(MissingExtra, match=r"pip install 'deep-sessions\[postgresql\]'"):
        open_store("postgresql://host/db")


def test_a_plugin_adds_a_store(make_kernel: Callable[..., Kernel]) -> None:
    opened: list[str] = []

    def open_redis(url: str) -> SessionStore:
        opened.append(url)
        return MemoryStore()

    with make_kernel(Stores({"redis": open_redis})) as kernel:
        assert open_store("redis://host/1", owner="ann", kernel=kernel).owner == "ann"
        assert isinstance(open_store("memory:", kernel=kernel), MemoryStore)
    assert opened == ["redis://host/1"]


def test_two_plugins_with_one_scheme_are_an_error(make_kernel: Callable[..., Kernel]) -> None:
    with make_kernel(Stores({"sqlite": sqlite3.connect})) as kernel, pytest.raises(PluginError, match="sqlite"):
        open_store("memory:", kernel=kernel)


def test_a_plugin_that_fails_is_left_out(make_kernel: Callable[..., Kernel]) -> None:
    class Fails:
        @hookimpl(of="sessions")
        def deep_session_stores(self, context: Any) -> Any:
            raise RuntimeError("no redis here")

    with make_kernel() as kernel:
        assert isinstance(open_store("memory:", kernel=kernel), MemoryStore)
    with make_kernel(Fails()) as kernel, pytest.raises(PluginError, match="no redis here"):
        open_store("memory:", kernel=kernel)  # a plugin given by hand must work
