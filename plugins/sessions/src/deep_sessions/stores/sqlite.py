"""The store `sqlite:///path`: sessions in one file, for all processes of one machine."""

# Queries are put together from constants of this module.
# ruff: noqa: S608

from __future__ import annotations

import logging
import os
import sqlite3
import time
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import StoreError
from ..holder import is_dead, seconds_left, this_boot, this_process, uptime
from ..store import Commit, Entry, Lease, Mail, SessionInfo, SessionStatus, SessionStore, Stored, decided_before
from .refusals import busy, call_key, check_id, is_text, lost, not_found
from .sqlite_file import DAMAGE, Durability, SqliteFile
from .sqlite_words import drop

if TYPE_CHECKING:
    from ..full_text import Found

__all__ = ["SqliteStore"]

logger = logging.getLogger("deep.sessions")
SESSION = "key, id, owner, status, created_at, updated_at, seq, base, fence, holder, ends, boot, until"
ENTRY = "session, seq, at, kind, run_id, version, base, data"
FIND = f"SELECT {SESSION}, checksum FROM sessions WHERE id = ?"
SAVE = """
    UPDATE sessions SET status = ?, updated_at = ?, seq = ?, base = ?, fence = ?, holder = ?, ends = ?, boot = ?,
    until = ?, checksum = ? WHERE key = ?"""
FIRST_COLUMNS = 11
"""How many columns the first version of the table `sessions` had before the checksum."""
SMALLEST = 32
"""Bytes that an entry takes at least."""


class _Row(NamedTuple):
    """A row of the table `sessions`.

    Attributes:
        ends: when the lease ends by the wall clock, for other machines.
        boot: the boot of the machine that renewed the lease.
        until: when it ends by the clock of that boot.
    """

    key: int
    id: str
    owner: str | None
    status: SessionStatus
    created_at: float
    updated_at: float
    seq: int
    base: int
    fence: int
    holder: str | None
    ends: float
    boot: str | None
    until: float | None

    @property
    def seconds(self) -> float:
        """How long the lease lasts."""
        return seconds_left(self.boot, self.until, self.ends - time.time())

    @property
    def runner(self) -> str | None:
        """Who holds the session now."""
        return self.holder if self.holder and self.seconds > 0 and not is_dead(self.holder) else None

    def held(self, holder: str, fence: int, ttl: float) -> _Row:
        """Return the row with a lease from now on."""
        boot = this_boot()
        until = None if boot is None else uptime() + ttl
        return self._replace(holder=holder, fence=fence, ends=time.time() + ttl, boot=boot, until=until)

    def free(self) -> _Row:
        """Return the row without a lease."""
        return self._replace(holder=None, ends=0.0, boot=None, until=None)

    def shown(self) -> SessionInfo:
        return SessionInfo(
            self.id, self.owner, self.status, self.created_at, self.updated_at, self.seq, holder=self.runner
        )


class SqliteStore(SessionStore):
    """Sessions in one SQLite file.

    Every row has a checksum, so that a damaged one is noticed and not read.

    Args:
        path: the file; it is created with its folder, for this user alone.
        durability: `normal` loses nothing when the process is killed; `full` nothing in a power cut either.
        timeout: seconds to wait for another process that writes.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, durability: Durability = "normal", timeout: float = 5.0
    ) -> None:
        self.path = Path(path).absolute()
        self._file = SqliteFile(self.path, durability, timeout)
        self._written: dict[str, tuple[tuple[Any, ...], _Row]] = {}
        """The rows of held sessions as commits wrote them: while the file has the same, the checksum is right."""
        self._unreleased: set[int] = set()
        """Fences of leases that this process gave up while the file could not be written."""

    async def acquire(
        self, session_id: str, *, holder: str | None = None, ttl: float = 30.0, create: bool = True
    ) -> Lease:
        """Acquire the lease."""
        work = partial(self._acquire, session_id, holder or this_process(), ttl, create)
        return await self._file.write(work, undo=lambda lease: partial(self._release, lease))

    def _acquire(self, session_id: str, holder: str, ttl: float, create: bool, db: sqlite3.Connection) -> Lease:
        now = time.time()
        row = self._search(db, session_id)
        if row is None and create:
            cursor = db.execute(
                "INSERT INTO sessions VALUES (NULL, ?, ?, 'idle', ?, ?, 0, 0, 0, NULL, 0, 0, NULL, NULL)",
                (check_id(session_id), self.owner, now, now),
            )
            row = _Row(cursor.lastrowid or 0, session_id, self.owner, "idle", now, now, 0, 0, 0, None, 0.0, None, None)
        row = self._own(session_id, row)
        if row.runner is not None and row.fence not in self._unreleased:
            raise busy(session_id, row.runner, row.seconds)
        db.execute("UPDATE counter SET fence = fence + 1")
        fence = db.execute("SELECT fence FROM counter").fetchone()[0]
        _save(db, row.held(holder, fence, ttl))
        return Lease(session_id, holder, fence, ttl)

    async def renew(self, lease: Lease) -> None:
        """Renew the lease."""
        await self._file.write(lambda db: _save(db, self._held(db, lease).held(lease.holder, lease.fence, lease.ttl)))

    async def release(self, lease: Lease) -> None:
        """End the lease."""
        try:
            await self._file.write(partial(self._release, lease))
        except StoreError:
            self._unreleased.add(lease.fence)
            raise

    def _release(self, lease: Lease, db: sqlite3.Connection) -> None:
        self._written.pop(lease.session_id, None)
        row = self._search(db, lease.session_id)
        if row is not None and row.fence == lease.fence and self.owner in (None, row.owner):
            _save(db, row.free())

    async def commit(self, lease: Lease, commit: Commit) -> int:
        """Write all of it in one transaction."""
        return await self._file.write(partial(self._commit, lease, commit))

    def commit_now(self, lease: Lease, commit: Commit) -> int | None:
        """Write all of it in one transaction, unless the file is in use or the disk must be waited for."""
        size = sum(len(entry.data) for entry in commit.entries) + sum(map(len, commit.put.values()))
        return self._file.write_now(partial(self._commit, lease, commit), size)

    def _commit(self, lease: Lease, commit: Commit, db: sqlite3.Connection) -> int:
        row, now = self._held(db, lease), time.time()
        seq, base = row.seq, row.base
        for entry in commit.entries:
            seq += 1
            base = seq if entry.base else base
            fields = (row.key, seq, now, entry.kind, entry.run_id, entry.version, int(entry.base), entry.data)
            db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*fields, _checksum(fields)))
        for key, data in commit.put.items():
            fields = (row.key, key, data)
            db.execute("REPLACE INTO ledger VALUES (?, ?, ?, ?)", (*fields, _checksum(fields)))
        for key in commit.drop:
            db.execute("DELETE FROM ledger WHERE session = ? AND key = ?", (row.key, key))
        for number in commit.read:
            db.execute("DELETE FROM mail WHERE session = ? AND id = ?", (row.key, number))
        status = commit.status or row.status
        if commit.entries or status != row.status:
            updated = now if commit.entries else row.updated_at
            self._written[row.id] = _save(db, row._replace(seq=seq, base=base, status=status, updated_at=updated))
        return seq

    async def post(self, session_id: str, kind: str, data: bytes) -> int:
        """Leave mail."""

        def post(db: sqlite3.Connection) -> int:
            fields = (self._find(db, session_id).key, kind, data, time.time())
            cursor = db.execute("INSERT INTO mail VALUES (NULL, ?, ?, ?, ?, ?, NULL)", (*fields, _checksum(fields)))
            return cursor.lastrowid or 0

        return await self._file.write(post)

    async def decide(self, session_id: str, seq: int, decisions: Mapping[str, bytes]) -> bool:
        """Leave decisions, if none of the calls has one."""

        def decide(db: sqlite3.Connection) -> bool:
            row, now = self._find(db, session_id), time.time()
            if row.seq != seq:
                return False
            for call, data in decisions.items():
                fields = (row.key, "decision", data, now, call_key(call))
                query = "INSERT OR IGNORE INTO mail VALUES (NULL, ?, ?, ?, ?, ?, ?)"
                if not db.execute(query, (*fields[:4], _checksum(fields), fields[4])).rowcount:
                    raise decided_before(session_id, call)
            return True

        return await self._file.write(decide)

    async def mail(self, session_id: str) -> Sequence[Mail]:
        """Return the mail that waits."""
        return await self._file.read(lambda db: self._mail(db, self._find(db, session_id)))

    async def load(self, session_id: str) -> Stored:
        """Return the last base and what follows it."""
        return await self._file.read(partial(self._load, session_id))

    def _load(self, session_id: str, db: sqlite3.Connection) -> Stored:
        row = self._find(db, session_id)
        first = row.base or 1
        # Not a comprehension: an error would keep its cursor, and with it the closed connection's file and its locks.
        entries = list(_whole(db, row.key, first - 1))
        if missing := set(range(first, row.seq + 1)).difference(entry.seq for entry in entries):
            raise self._damaged(f"entry {min(missing)} of session {session_id}")
        ledger: dict[str, bytes] = {}
        for *fields, checksum in db.execute(
            "SELECT session, key, data, checksum FROM ledger WHERE session = ?", (row.key,)
        ):
            if fields[0] != row.key or checksum != _checksum(fields):
                raise self._damaged(f"a row of the ledger of session {session_id}")
            ledger[fields[1]] = fields[2]
        return Stored(row.shown(), entries, ledger, self._mail(db, row))

    async def entries(self, session_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        """Return entries after a number, without damaged ones."""

        def entries(db: sqlite3.Connection) -> Sequence[Entry]:
            key, last = self._key(db, session_id)
            try:
                return list(islice(_whole(db, key, after), limit))
            except DAMAGE:  # the structure of the file is damaged: look at each row
                most = self._file.path.stat().st_size // SMALLEST
                return list(islice(_salvage(db, key, after, last, most), limit))

        return await self._file.read(entries)

    async def info(self, session_id: str) -> SessionInfo:
        """Return one session."""
        return await self._file.read(lambda db: self._find(db, session_id).shown())

    async def list(
        self,
        *,
        status: SessionStatus | None = None,
        updated_before: float | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> Sequence[SessionInfo]:
        """Return sessions, the most recently updated first."""
        conditions = {"owner = ?": self.owner, "status = ?": status, "updated_at < ?": updated_before}
        conditions = {condition: value for condition, value in conditions.items() if value is not None}
        query = (
            f"SELECT {SESSION}, checksum FROM sessions WHERE {' AND '.join(['1', *conditions])} "
            "ORDER BY updated_at DESC, id LIMIT ? OFFSET ?"
        )
        values = [*conditions.values(), limit, offset]

        def rows(db: sqlite3.Connection) -> Sequence[SessionInfo]:
            found = [_row(fields) for fields in db.execute(query, values).fetchall()]
            if None in found:
                logger.warning("%s: the rows of %d sessions are damaged", self._file.path, found.count(None))
            return [row.shown() for row in found if row is not None]

        return await self._file.read(rows)

    async def adopt(self, session_id: str, *, begins: bool = False) -> None:
        """Give sessions without an owner to this view's."""
        query = f"SELECT id FROM sessions WHERE owner IS NULL AND {'substr(id, 1, ?)' if begins else 'id'} = ?"
        values = (len(session_id), session_id) if begins else (session_id,)

        def find(db: sqlite3.Connection) -> list[str]:
            return [found for (found,) in db.execute(query, values)]

        def change(db: sqlite3.Connection) -> None:
            for found in find(db):
                row = self._search(db, found)
                if row is not None:
                    db.execute("UPDATE sessions SET owner = ? WHERE key = ?", (self.owner, row.key))
                    _save(db, row._replace(owner=self.owner))

        if is_text(session_id) and self.owner is not None and await self._file.read(find):
            await self._file.write(change)

    async def delete(self, session_id: str) -> None:
        """Erase a session: its bytes are overwritten."""

        def delete(db: sqlite3.Connection) -> None:
            row = self._find(db, session_id)
            if row.runner is not None:
                raise busy(session_id, row.runner, row.seconds)
            drop(db, row.key)
            for column in ("entries WHERE session", "ledger WHERE session", "mail WHERE session", "sessions WHERE key"):
                db.execute(f"DELETE FROM {column} = ?", (row.key,))

        await self._file.write(delete)
        await self._file.empty_log()

    async def search(self, words: str, *, limit: int = 50) -> Sequence[Found] | None:
        """Return messages with these words, from an index that is brought up to date first."""
        from ..full_text import new_texts, words_in
        from .sqlite_words import AT_ONCE, Read, add, behind, find

        if not (wanted := words_in(words)):
            return []
        try:
            late = await self._file.write(lambda db: behind(db, self.owner))
            for begin in range(0, len(late), AT_ONCE):
                some = late[begin : begin + AT_ONCE]
                read = [Read(key, after, *await new_texts(self, session_id, after)) for key, session_id, after in some]
                await self._file.write(partial(add, sessions=read))
        except StoreError:  # the file cannot be written, a row is damaged, or this SQLite has no FTS5
            return None
        return await self._file.read(partial(find, owner=self.owner, words=wanted, limit=limit))

    @contextmanager
    def transaction(self, lease: Lease, commit: Commit) -> Generator[sqlite3.Connection]:
        """Open a transaction of the file that also writes `commit`. Other writers wait for its end: keep it short.

        The block cannot end it by itself: its end commits, an exception rolls back.
        """
        held, write = partial(self._held, lease=lease), partial(self._commit, lease, commit)
        with self._file.transaction(held, write) as connection:
            yield connection

    async def aclose(self) -> None:
        """Close the file."""
        await self._file.close()

    def _search(self, db: sqlite3.Connection, session_id: str) -> _Row | None:
        """Return a session's row, whoever owns it."""
        if not is_text(session_id):
            return None
        fields = db.execute(FIND, (session_id,)).fetchone()
        if fields is None:
            return None
        known = self._written.get(session_id)
        if known is not None and known[0] == fields:
            return known[1]
        row = _row(fields)
        if row is None or row.id != session_id:  # a damaged index leads to another row
            raise self._damaged(f"the row of session {session_id}")
        return row

    def _own(self, session_id: str, row: _Row | None) -> _Row:
        if row is None or (self.owner is not None and row.owner != self.owner):
            raise not_found(session_id)
        return row

    def _find(self, db: sqlite3.Connection, session_id: str) -> _Row:
        return self._own(session_id, self._search(db, session_id))

    def _key(self, db: sqlite3.Connection, session_id: str) -> tuple[int, int | None]:
        """Return the key of a session and the number of its last entry; None if its row is damaged."""
        try:
            row = self._find(db, session_id)
            return row.key, row.seq
        except (StoreError, *DAMAGE):
            # The index has the key too. Who owns the session is not certain then.
            found = _try(db, "SELECT key FROM sessions WHERE id = ?", (session_id,)) if self.owner is None else None
            name = _try(db, "SELECT id FROM sessions WHERE key = ?", found) if found else None
            if found is None or name not in (None, (session_id,)):
                raise
            return found[0], None

    def _held(self, db: sqlite3.Connection, lease: Lease) -> _Row:
        row = self._find(db, lease.session_id)
        if row.fence != lease.fence or row.holder is None:
            raise lost(lease, row.runner)
        return row

    def _mail(self, db: sqlite3.Connection, row: _Row) -> Sequence[Mail]:
        found: list[Mail] = []
        query = "SELECT id, session, kind, data, at, call, checksum FROM mail WHERE session = ? ORDER BY id"
        for number, *fields, checksum in db.execute(query, (row.key,)):
            if fields[0] != row.key or checksum != _checksum(_with_a_value(fields, 4)):
                raise self._damaged(f"message {number} for session {row.id}")
            found.append(Mail(number, *fields[1:4]))
        return found

    def _damaged(self, what: str) -> StoreError:
        return StoreError(f"{self._file.path}: {what} is damaged; `deep sessions export SESSION` saves what is whole")


def _checksum(fields: Sequence[Any]) -> int:
    """Return the CRC-32 of a row: it notices every flipped bit, and costs a microsecond for two kilobytes."""
    crc, others = 0, [field for field in fields if type(field) is not bytes]
    for field in fields:
        if type(field) is bytes:
            crc = zlib.crc32(field, crc)
    return zlib.crc32(repr(others).encode(), crc)


def _row(fields: Sequence[Any]) -> _Row | None:
    """Return a row of the table `sessions`; None for a damaged one."""
    *values, checksum = fields
    return _Row(*values) if checksum == _checksum(_with_a_value(values, FIRST_COLUMNS)) else None


def _with_a_value(values: Sequence[Any], count: int) -> Sequence[Any]:
    """Return the values of a row without its later columns, if these have none."""
    return values if any(value is not None for value in values[count:]) else values[:count]


def _save(db: sqlite3.Connection, row: _Row) -> tuple[tuple[Any, ...], _Row]:
    """Write a row of the table `sessions`; return it as the file has it, and read."""
    checksum = _checksum(_with_a_value(row, FIRST_COLUMNS))
    values = (row.status, row.updated_at, row.seq, row.base, row.fence, row.holder, row.ends, row.boot, row.until)
    db.execute(SAVE, (*values, checksum, row.key))
    return (*row, checksum), row


def _entry(key: int, fields: Sequence[Any]) -> Entry | None:
    """Return an entry of a session; None for a damaged one, and for another's, to which a damaged index leads."""
    *values, checksum = fields
    if values[0] != key or checksum != _checksum(values):
        return None
    _, seq, at, kind, run_id, version, base, data = values
    return Entry(kind, data, run_id, version, bool(base), seq, at)


def _whole(db: sqlite3.Connection, key: int, after: int) -> Iterator[Entry]:
    query = f"SELECT {ENTRY}, checksum FROM entries WHERE session = ? AND seq > ? ORDER BY seq"
    for fields in db.execute(query, (key, after)):
        if entry := _entry(key, fields):
            yield entry


def _salvage(db: sqlite3.Connection, key: int, after: int, last: int | None, most: int) -> Iterator[Entry]:
    """Yield the entries that can be reached by number through the index, or row by row without it.

    Args:
        db: the file.
        key: of the session.
        after: the number before the first.
        last: the number of the last; None if that is not known.
        most: how many rows the file can have at most: a damaged number may be huge.
    """
    query = f"SELECT {ENTRY}, checksum FROM entries WHERE"
    if last is None:
        last = _number(db, "SELECT max(seq) FROM entries WHERE session = ?", key)
    rowid = _number(db, "SELECT max(rowid) FROM entries")
    rows = [
        *(_try(db, f"{query} session = ? AND seq = ?", (key, seq)) for seq in range(after + 1, min(last, most) + 1)),
        *(_try(db, f"{query} rowid = ?", (number,)) for number in range(1, min(rowid, most) + 1)),
    ]
    found = {entry.seq: entry for fields in rows if fields and (entry := _entry(key, fields))}
    yield from (found[seq] for seq in sorted(found) if seq > after)


def _number(db: sqlite3.Connection, query: str, *values: object) -> int:
    found = _try(db, query, values)
    return found[0] or 0 if found else 0


def _try(db: sqlite3.Connection, query: str, values: Sequence[object]) -> Sequence[Any] | None:
    try:
        return db.execute(query, values).fetchone()
    except DAMAGE:
        return None
