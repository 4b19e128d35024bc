"""The index of words of a SQLite file, made by FTS5 at the first search: a run writes none of it.

The tables are no part of the schema: an earlier version of this package ignores them, and what it deletes is dropped
from them at the next search.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..full_text import Found

__all__ = ["AT_ONCE", "Read", "add", "behind", "drop", "find"]

AT_ONCE = 100
"""Sessions that one transaction adds: each transaction waits for the disk."""

TABLES = (
    "CREATE TABLE IF NOT EXISTS word_places (session INTEGER PRIMARY KEY, seq INTEGER NOT NULL)",
    "CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(text, session UNINDEXED, seq UNINDEXED, role UNINDEXED)",
)


class Read(NamedTuple):
    """What was read of one session.

    Attributes:
        key: the session's.
        after: the last entry that the index had.
        texts: the texts of the entries after it: number of the entry, role, text.
        last: the last entry that was read.
    """

    key: int
    after: int
    texts: Sequence[tuple[int, str, str]]
    last: int


def behind(db: sqlite3.Connection, owner: str | None) -> list[tuple[int, str, int]]:
    """Return the sessions whose last entries are not in the index: key, id, and the last entry that is."""
    for statement in TABLES:
        db.execute(statement)
    for (key,) in db.execute(
        "SELECT session FROM word_places WHERE session NOT IN (SELECT key FROM sessions)"
    ).fetchall():
        drop(db, key)
    query = (
        "SELECT s.key, s.id, coalesce(p.seq, 0) FROM sessions s LEFT JOIN word_places p ON p.session = s.key "
        "WHERE s.seq > coalesce(p.seq, 0) AND (? IS NULL OR s.owner = ?)"
    )
    return db.execute(query, (owner, owner)).fetchall()


def add(db: sqlite3.Connection, sessions: Iterable[Read]) -> None:
    """Add what was read of sessions, unless another process has added it meanwhile."""
    for key, after, texts, last in sessions:
        row = db.execute("SELECT seq FROM word_places WHERE session = ?", (key,)).fetchone()
        if (row[0] if row else 0) != after:
            continue
        db.executemany(
            "INSERT INTO words (text, session, seq, role) VALUES (?, ?, ?, ?)",
            [(text.encode("utf-8", "replace").decode(), key, seq, role) for seq, role, text in texts],
        )
        db.execute("REPLACE INTO word_places VALUES (?, ?)", (key, last))


def find(db: sqlite3.Connection, owner: str | None, words: Sequence[str], limit: int) -> list[Found]:
    """Return the messages that have words which begin so, those of the newest sessions first."""
    from ..full_text import Found, excerpt

    query = (
        "SELECT s.id, w.role, w.text FROM words w JOIN sessions s ON s.key = w.session "
        "WHERE words MATCH ? AND (? IS NULL OR s.owner = ?) ORDER BY s.updated_at DESC, s.id, w.seq LIMIT ?"
    )
    wanted = " ".join(f'"{word}"*' for word in words)
    return [
        Found(id, role, excerpt(text, words)) for id, role, text in db.execute(query, (wanted, owner, owner, limit))
    ]


def drop(db: sqlite3.Connection, key: int) -> None:
    """Erase what the index has of a session, if there is one: its bytes are overwritten."""
    if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'word_places'").fetchone() is None:
        return
    if db.execute("DELETE FROM word_places WHERE session = ?", (key,)).rowcount:
        db.execute("DELETE FROM words WHERE session = ?", (key,))
        db.execute("INSERT INTO words (words) VALUES ('optimize')")  # else a deleted word stays in its segment
