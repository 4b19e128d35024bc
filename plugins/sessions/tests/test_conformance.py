"""The stores pass the suite that pytest-deep has for every store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from deep_sessions.store import SessionStore
from deep_sessions.stores.memory import MemoryStore
from deep_sessions.stores.postgresql import PostgresqlStore
from deep_sessions.stores.sqlite import SqliteStore
from pytest_deep import SessionStoreConformance

from tests.drawn import many
from tests.postgresql import Cluster


class OfAnotherAuthor(MemoryStore):
    """Has only what a store must have: `decide` is that of `SessionStore`."""

    decide = SessionStore.decide


class TestMemory(SessionStoreConformance):
    decision_rounds = many(5, 1_000)

    @pytest.fixture
    def store(self) -> SessionStore:
        return MemoryStore()


class TestWithoutDecide(SessionStoreConformance):
    @pytest.fixture
    def store(self) -> SessionStore:
        return OfAnotherAuthor()


class TestSqlite(SessionStoreConformance):
    decision_rounds = many(5, 1_000)

    @pytest.fixture
    def store(self, tmp_path: Path) -> SessionStore:
        return SqliteStore(tmp_path / "sessions.db")

    @pytest.fixture
    def open_again(self, tmp_path: Path) -> Callable[[], SessionStore]:
        return lambda: SqliteStore(tmp_path / "sessions.db")


@pytest.mark.needs("PostgreSQL")
class TestPostgresql(SessionStoreConformance):
    decision_rounds = many(5, 1_000)

    @pytest.fixture
    def url(self, postgresql: Cluster) -> str:
        return postgresql.create_database()

    @pytest.fixture
    def store(self, url: str) -> SessionStore:
        return PostgresqlStore(url)

    @pytest.fixture
    def open_again(self, url: str) -> Callable[[], SessionStore]:
        return lambda: PostgresqlStore(url)
