"""The index of words of a PostgreSQL database, made at the first search: a run writes none of it.

The words are ours and not those of PostgreSQL's parsers, which depend on the locale, and take `money.py` for a host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..full_text import Found, excerpt, words_in

if TYPE_CHECKING:
    from .postgresql_server import Database

__all__ = ["add", "behind", "find"]

TABLE = """
    CREATE TABLE IF NOT EXISTS deep_sessions_word_places (
        session bigint PRIMARY KEY REFERENCES deep_sessions ON DELETE CASCADE, seq bigint NOT NULL);
    CREATE TABLE IF NOT EXISTS deep_sessions_words (
        session bigint NOT NULL REFERENCES deep_sessions ON DELETE CASCADE, seq bigint NOT NULL, role text NOT NULL,
        text text NOT NULL, words tsvector NOT NULL);
    CREATE INDEX IF NOT EXISTS deep_sessions_words_by_word ON deep_sessions_words USING gin (words);
    CREATE INDEX IF NOT EXISTS deep_sessions_words_by_session ON deep_sessions_words (session);
"""

LONGEST_WORD = 500
"""Characters: a word of a tsvector has at most 2,046 bytes."""


def behind(db: Database, owner: str | None) -> list[tuple[int, str, int]]:
    """Return the sessions whose last entries are not in the index: key, id, and the last entry that is."""
    if db.execute("SELECT to_regclass('deep_sessions_words')").fetchone() == (None,):
        db.execute("SELECT pg_advisory_xact_lock(%s)", (0x64656570_776F7264,))  # two that create one table fail
        db.execute(TABLE)
    query = (
        "SELECT s.key, s.id, coalesce(p.seq, 0) FROM deep_sessions s "
        "LEFT JOIN deep_sessions_word_places p ON p.session = s.key "
        "WHERE s.seq > coalesce(p.seq, 0) AND (%(owner)s::text IS NULL OR s.owner = %(owner)s)"
    )
    return [(row[0], row[1], row[2]) for row in db.execute(query, {"owner": owner})]


def add(db: Database, key: int, after: int, texts: Sequence[tuple[int, str, str]], last: int) -> None:
    """Add the texts of a session up to its entry `last`, unless another process has added them meanwhile."""
    exists = db.execute("SELECT 1 FROM deep_sessions WHERE key = %s FOR KEY SHARE", (key,)).fetchone()
    insert = "INSERT INTO deep_sessions_word_places VALUES (%s, 0) ON CONFLICT DO NOTHING"
    if exists is None or (db.execute(insert, (key,)).rowcount == 0 and not after):
        return
    query = "UPDATE deep_sessions_word_places SET seq = %s WHERE session = %s AND seq = %s"
    if not db.execute(query, (last, key, after)).rowcount:
        return
    for seq, role, text in texts:
        shown = text.encode("utf-8", "replace").decode().replace("\0", " ")
        db.execute(
            "INSERT INTO deep_sessions_words VALUES (%s, %s, %s, %s, array_to_tsvector(%s::text[]))",
            (key, seq, role, shown, [word for word in {*words_in(shown)} if len(word) <= LONGEST_WORD]),
        )


def find(db: Database, owner: str | None, words: Sequence[str], limit: int) -> list[Found]:
    """Return the messages that have words which begin so, those of the newest sessions first."""
    query = (
        "SELECT s.id, w.role, w.text FROM deep_sessions_words w JOIN deep_sessions s ON s.key = w.session "
        "WHERE w.words @@ %(words)s::tsquery AND (%(owner)s::text IS NULL OR s.owner = %(owner)s) "
        "ORDER BY s.updated_at DESC, s.id, w.seq LIMIT %(limit)s"
    )
    wanted = " & ".join(f"'{word}':*" for word in words)
    rows = db.execute(query, {"words": wanted, "owner": owner, "limit": limit})
    return [Found(row[0], row[1], excerpt(row[2], words)) for row in rows]
