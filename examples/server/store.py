"""Store sessions in SQLite, one row each, so that a restart finds them unchanged."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

__all__ = ["Row", "Store"]

T = TypeVar("T")
SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,         -- SHA-256 of the owner's token: the file alone opens nobody's session
    title TEXT NOT NULL,
    created TEXT NOT NULL,       -- ISO 8601, UTC
    deps TEXT NOT NULL,          -- DeepAgentDeps.dump(): the plugins' state
    conversation TEXT NOT NULL,  -- ConversationTypeAdapter: the messages, and the calls that wait for a person
    items TEXT NOT NULL,         -- what the page shows
    approval TEXT NOT NULL,      -- what the page asks, or null
    running INTEGER NOT NULL     -- 1 while a run is under way: found at a start, the server was stopped in it
);
CREATE TABLE IF NOT EXISTS newcomers (  -- who made a first session within the last day
    address TEXT NOT NULL,
    created TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS sessions_of_owner ON sessions (owner, created);
"""


@dataclass(frozen=True)
class Row:
    """One stored session; the schema explains the columns."""

    id: str
    owner: str
    title: str
    created: str
    deps: str
    conversation: str
    items: str = "[]"
    approval: str = "null"
    running: bool = False


class Store:
    """The database. Every method waits in a thread and does not block the event loop."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.executescript(SCHEMA)

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    async def add(self, row: Row, *, address: str, most: int) -> bool:
        """Store a new session, unless its owner has `most`, or that many new owners of this address came in a day."""
        columns = "id, owner, title, created, deps, conversation, items, approval, running"
        values = ":id, :owner, :title, :created, :deps, :conversation, :items, :approval, :running"
        a_day_ago = (datetime.fromisoformat(row.created) - timedelta(days=1)).isoformat(timespec="seconds")

        def work(db: sqlite3.Connection) -> bool:
            # One transaction: of many requests at once, none is counted late.
            count = "SELECT count(*) FROM"
            db.execute("DELETE FROM newcomers WHERE created < ?", [a_day_ago])
            [own] = db.execute(f"{count} sessions WHERE owner = ?", [row.owner]).fetchone()
            [new] = db.execute(f"{count} newcomers WHERE address = ?", [address]).fetchone()
            if own >= most or (not own and new >= most):
                return False
            if not own:
                db.execute("INSERT INTO newcomers (address, created) VALUES (?, ?)", [address, row.created])
            db.execute(f"INSERT INTO sessions ({columns}) VALUES ({values})", vars(row))
            return True

        return await self._do(work)

    async def get(self, session_id: str) -> Row | None:
        """One session, or None."""
        found = await self._do(lambda db: db.execute("SELECT * FROM sessions WHERE id = ?", [session_id]).fetchone())
        return None if found is None else Row(*found[:-1], running=bool(found[-1]))

    async def of_owner(self, owner: str) -> list[dict[str, str]]:
        """The sessions of one owner, newest first: id, title, created."""
        query = "SELECT id, title, created FROM sessions WHERE owner = ? ORDER BY created DESC, id"
        found = await self._do(lambda db: db.execute(query, [owner]).fetchall())
        return [{"id": row[0], "title": row[1], "created": row[2]} for row in found]

    async def save(self, session_id: str, **columns: str | bool) -> None:
        """Write these columns of a session, all or none."""
        assignments = ", ".join(f"{name} = :{name}" for name in columns)
        query = f"UPDATE sessions SET {assignments} WHERE id = :id"
        await self._do(lambda db: db.execute(query, {**columns, "id": session_id}))

    async def _do(self, query: Callable[[sqlite3.Connection], T]) -> T:
        def work() -> T:
            with self._lock, self._db:
                return query(self._db)

        return await asyncio.to_thread(work)
