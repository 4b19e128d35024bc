"""Opens the stores of these tests by URL."""

from __future__ import annotations

from deep_sessions import SessionStore
from deep_sessions.stores.sqlite import SqliteStore

__all__ = ["open_for_test"]


def open_for_test(url: str) -> SessionStore:
    """Open a store; a PostgreSQL one only where its driver is."""
    if url.startswith("sqlite:///"):
        return SqliteStore(url.removeprefix("sqlite:///"))
    from deep_sessions.stores.postgresql import PostgresqlStore

    return PostgresqlStore(url)
