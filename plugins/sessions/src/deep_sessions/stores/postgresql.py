"""The store `postgresql://…`: sessions in one database, for many machines."""

# Queries are put together from constants of this module.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from deep_core import MissingExtra

from ..errors import StoreError
from ..holder import is_dead, seconds_left, this_boot, this_process, uptime
from ..store import Commit, Entry, Lease, Mail, SessionInfo, SessionStatus, SessionStore, Stored, decided_before
from .refusals import busy, call_key, check_id, is_text, lost, not_found

if TYPE_CHECKING:
    import psycopg
    from psycopg.rows import TupleRow

    from ..full_text import Found
    from .postgresql_server import Database

__all__ = ["PostgresqlStore"]

T = TypeVar("T")
NOW = "extract(epoch FROM clock_timestamp())::float8"
"""The server's clock: those of its clients may differ."""
SESSION = (
    f"key, id, owner, status, created_at, updated_at, seq, base, fence, holder, lock, ends - {NOW}, boot, until, "
    # Shared, so that two that look at the same time do not take each other for the holder.
    "CASE WHEN holder IS NOT NULL THEN pg_try_advisory_xact_lock_shared(lock) END"
)
ENTRY = "kind, data, run_id, version, base, seq, at"


COMMIT = f"""
WITH held AS (
    UPDATE deep_sessions SET
        base = CASE WHEN %(base)s > 0 THEN seq + %(base)s ELSE base END, seq = seq + %(count)s,
        status = coalesce(%(status)s, status), updated_at = CASE WHEN %(count)s > 0 THEN {NOW} ELSE updated_at END
    WHERE id = %(id)s AND fence = %(fence)s AND holder IS NOT NULL
        AND (%(owner)s::text IS NULL OR owner = %(owner)s)
    RETURNING key, seq, updated_at
), entries AS (
    INSERT INTO deep_sessions_entries (session, seq, at, kind, run_id, version, base, data)
    SELECT held.key, held.seq - %(count)s + new.number, held.updated_at, kind, run_id, version, is_base, data
    FROM held, unnest(%(kind)s::text[], %(run_id)s::text[], %(version)s::integer[], %(is_base)s::boolean[],
        %(data)b::bytea[]) WITH ORDINALITY AS new (kind, run_id, version, is_base, data, number)
), put AS (
    INSERT INTO deep_sessions_ledger (session, key, data)
    SELECT held.key, row.key, row.data FROM held, unnest(%(key)s::text[], %(row)b::bytea[]) AS row (key, data)
    ON CONFLICT (session, key) DO UPDATE SET data = EXCLUDED.data
), dropped AS (
    DELETE FROM deep_sessions_ledger AS row USING held WHERE row.session = held.key AND row.key = ANY(%(drop)s::text[])
), read AS (
    DELETE FROM deep_sessions_mail AS mail USING held
    WHERE mail.session = held.key AND mail.id = ANY(%(read)s::bigint[])
)
SELECT seq FROM held
"""
"""One statement, so that a commit costs one round trip between BEGIN and COMMIT."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of the table `deep_sessions`.

    Attributes:
        lock: the number of the advisory lock of the holder's process; None if that is not known.
        by_server: seconds until the lease ends, by the server's clock.
        boot: the boot of the machine that renewed the lease.
        until: when it ends by the clock of that boot.
        is_free: whether the advisory lock is free, so that the holder is dead; None without a lock or lease.
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
    lock: int | None
    by_server: float
    boot: str | None
    until: float | None
    is_free: bool | None

    @property
    def seconds(self) -> float:
        """How long the lease lasts."""
        return seconds_left(self.boot, self.until, self.by_server)

    @property
    def runner(self) -> str | None:
        """Who holds the session now."""
        is_held = self.holder is not None and self.seconds > 0 and not self.is_free and not is_dead(self.holder)
        return self.holder if is_held else None

    def shown(self) -> SessionInfo:
        return SessionInfo(
            self.id, self.owner, self.status, self.created_at, self.updated_at, self.seq, holder=self.runner
        )


class PostgresqlStore(SessionStore):
    """Sessions in a PostgreSQL database, in tables whose names begin with `deep_sessions`, created on first use.

    Beside the lease, a process that runs sessions holds an advisory lock, which the server drops when the process dies:
    then others take over at once, also on other machines.

    Args:
        url: `postgresql://user:password@host/database`, or whatever libpq takes.

    Raises:
        MissingExtra: `deep-sessions[postgresql]` is not installed.
        ConfigError: the URL cannot be read.
    """

    def __init__(self, url: str) -> None:
        try:
            from .postgresql_server import PostgresqlServer
        except ImportError as error:
            raise MissingExtra("sessions[postgresql]") from error
        self._server = PostgresqlServer(url)
        self._unreleased: set[int] = set()
        """Fences of leases that this process gave up while the server could not be reached."""

    async def acquire(
        self, session_id: str, *, holder: str | None = None, ttl: float = 30.0, create: bool = True
    ) -> Lease:
        """Acquire the lease. Only a holder without a name of its own is known to be dead on other machines."""
        work = partial(self._acquire, session_id, holder, ttl, create)
        return await self._server.write(work, undo=lambda lease: partial(self._release, lease))

    def _acquire(self, session_id: str, holder: str | None, ttl: float, create: bool, db: Database) -> Lease:
        # The lock is this process's: it says nothing about a holder with another name. It is taken before the row is
        # read, because who reads keeps others from a lock that is free until its transaction ends.
        lock = self._server.own_lock() if holder in (None, this_process()) else None
        if create:
            query = (
                "INSERT INTO deep_sessions (id, owner, status, created_at, updated_at) SELECT %s, %s, 'idle', t, t "
                f"FROM (SELECT {NOW} AS t) AS now ON CONFLICT (id) DO NOTHING"
            )
            run(db, query, (check_id(session_id), self.owner))
        row = self._find(db, session_id, lock=True)
        if row.runner is not None and row.fence not in self._unreleased:
            raise busy(session_id, row.runner, row.seconds)
        holder = holder or this_process()
        query = (
            "UPDATE deep_sessions SET fence = nextval('deep_sessions_fence'), holder = %s, lock = %s, "
            f"ends = {NOW} + %s, boot = %s, until = %s WHERE key = %s RETURNING fence"
        )
        return Lease(session_id, holder, value(db, query, holder, lock, *_lasting(ttl), row.key), ttl)

    async def renew(self, lease: Lease) -> None:
        """Renew the lease."""
        await self._server.write(partial(self._renew, lease))

    def _renew(self, lease: Lease, db: Database) -> None:
        if lease.holder == this_process():
            self._server.own_lock()  # before the row is read, as in `_acquire`
        row = self._held(db, lease)
        query = f"UPDATE deep_sessions SET ends = {NOW} + %s, boot = %s, until = %s WHERE key = %s"
        run(db, query, (*_lasting(lease.ttl), row.key))

    async def release(self, lease: Lease) -> None:
        """End the lease."""
        try:
            await self._server.write(partial(self._release, lease))
        except StoreError:
            self._unreleased.add(lease.fence)
            raise

    def _release(self, lease: Lease, db: Database) -> None:
        db.execute(
            "UPDATE deep_sessions SET holder = NULL, lock = NULL, ends = 0, boot = NULL, until = NULL "
            "WHERE id = %s AND fence = %s "
            "AND (%s::text IS NULL OR owner = %s)",
            (lease.session_id, lease.fence, self.owner, self.owner),
        )

    async def commit(self, lease: Lease, commit: Commit) -> int:
        """Write all of it in one transaction."""
        return await self._server.write(partial(self._commit, lease, commit))

    def _commit(self, lease: Lease, commit: Commit, db: Database) -> int:
        entries, drop = [*commit.entries], [*commit.drop]
        bases = [number for number, entry in enumerate(entries, 1) if entry.base]
        put = {key: data for key, data in commit.put.items() if key not in drop}
        values = {
            "id": lease.session_id,
            "fence": lease.fence,
            "owner": self.owner,
            "status": commit.status,
            "base": max(bases, default=0),
            "count": len(entries),
            "drop": drop,
            "read": [*commit.read],
            "kind": [entry.kind for entry in entries],
            "run_id": [entry.run_id for entry in entries],
            "version": [entry.version for entry in entries],
            "is_base": [entry.base for entry in entries],
            "data": [entry.data for entry in entries],
            "key": [*put],
            "row": [*put.values()],
        }
        found = run(db, COMMIT, values).fetchone()
        if found is None:
            self._held(db, lease)
            raise StoreError(f"{self._server.name}: session {lease.session_id} changed while it was written; try again")
        return found[0]

    async def search(self, words: str, *, limit: int = 50) -> Sequence[Found]:
        """Return messages with these words, from an index that is brought up to date first."""
        from ..full_text import new_texts, words_in
        from .postgresql_words import add, behind, find

        if not (wanted := words_in(words)):
            return []
        for key, session_id, after in await self._server.write(lambda db: behind(db, self.owner)):
            texts, last = await new_texts(self, session_id, after)
            await self._server.write(partial(add, key=key, after=after, texts=texts, last=last))
        return await self._server.read(partial(find, owner=self.owner, words=wanted, limit=limit))

    @contextmanager
    def transaction(self, lease: Lease, commit: Commit) -> Generator[Database]:
        """Open a transaction of the database that also writes `commit`.

        The block cannot end it by itself: its end commits, an exception rolls back.
        """
        # Without a lock on the session's row: other commits of the session need not wait for the block.
        held, write = partial(self._held, lease=lease, lock=False), partial(self._commit, lease, commit)
        with self._server.transaction(held, write) as connection:
            yield connection

    async def in_database(self, work: Callable[[Database], T]) -> T:
        """Do work of another module in one transaction, on a connection of this store."""
        return await self._server.write(work)

    async def post(self, session_id: str, kind: str, data: bytes) -> int:
        """Leave mail."""

        def post(db: Database) -> int:
            # The row's lock gives mail of one session its numbers in the order in which it becomes visible.
            row = self._find(db, session_id, lock=True)
            query = f"INSERT INTO deep_sessions_mail (session, kind, data, at) VALUES (%s, %s, %b, {NOW}) RETURNING id"
            return value(db, query, row.key, kind, data)

        return await self._server.write(post)

    async def decide(self, session_id: str, seq: int, decisions: Mapping[str, bytes]) -> bool:
        """Leave decisions, if none of the calls has one."""

        def decide(db: Database) -> bool:
            row = self._find(db, session_id, lock=True)
            if row.seq != seq:
                return False
            query = (
                "INSERT INTO deep_sessions_mail (session, kind, data, at, call) "
                f"VALUES (%s, 'decision', %b, {NOW}, %s) ON CONFLICT DO NOTHING"
            )
            for call, data in decisions.items():
                if not run(db, query, (row.key, data, call_key(call))).rowcount:
                    raise decided_before(session_id, call)
            return True

        return await self._server.write(decide)

    async def mail(self, session_id: str) -> Sequence[Mail]:
        """Return the mail that waits."""
        return await self._server.read(lambda db: _mail(db, self._find(db, session_id).key))

    async def load(self, session_id: str) -> Stored:
        """Return the last base and what follows it."""

        def load(db: Database) -> Stored:
            row = self._find(db, session_id)
            first = row.base or 1
            entries = _entries(db, "session = %s AND seq >= %s", (row.key, first))
            if missing := set(range(first, row.seq + 1)).difference(entry.seq for entry in entries):
                raise StoreError(
                    f"{self._server.name}: entry {min(missing)} of session {session_id} is missing; "
                    "`deep sessions export SESSION` saves the others"
                )
            ledger = run(db, "SELECT key, data FROM deep_sessions_ledger WHERE session = %s", (row.key,))
            return Stored(row.shown(), entries, dict(ledger.fetchall()), _mail(db, row.key))

        return await self._server.read(load)

    async def entries(self, session_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        """Return entries after a number."""

        def entries(db: Database) -> Sequence[Entry]:
            return _entries(db, "session = %s AND seq > %s", (self._find(db, session_id).key, after), limit)

        return await self._server.read(entries)

    async def info(self, session_id: str) -> SessionInfo:
        """Return one session."""
        return await self._server.read(lambda db: self._find(db, session_id).shown())

    async def list(
        self,
        *,
        status: SessionStatus | None = None,
        updated_before: float | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> Sequence[SessionInfo]:
        """Return sessions, the most recently updated first."""
        conditions = {"owner = %s": self.owner, "status = %s": status, "updated_at < %s": updated_before}
        conditions = {condition: value for condition, value in conditions.items() if value is not None}
        where = " AND ".join(["true", *conditions])
        query = f"SELECT {SESSION} FROM deep_sessions WHERE {where} ORDER BY updated_at DESC, id LIMIT %s OFFSET %s"
        values = (*conditions.values(), limit, offset)
        return await self._server.read(lambda db: [row.shown() for row in _rows(db, query, values)])

    async def adopt(self, session_id: str, *, begins: bool = False) -> None:
        """Give sessions without an owner to this view's."""
        query = "UPDATE deep_sessions SET owner = %s WHERE owner IS NULL AND "
        query += "starts_with(id, %s)" if begins else "id = %s"
        if is_text(session_id) and self.owner is not None:
            await self._server.write(lambda db: run(db, query, (self.owner, session_id)))

    async def delete(self, session_id: str) -> None:
        """Erase a session."""

        def delete(db: Database) -> None:
            row = self._find(db, session_id, lock=True)
            if row.runner is not None:
                raise busy(session_id, row.runner, row.seconds)
            db.execute("DELETE FROM deep_sessions WHERE key = %s", (row.key,))

        await self._server.write(delete)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._server.close()

    def _find(self, db: Database, session_id: str, *, lock: bool = False) -> _Row:
        """Return a session's row; with `lock`, other writers of the session wait for this transaction."""
        query = f"SELECT {SESSION} FROM deep_sessions WHERE id = %s{' FOR UPDATE' if lock else ''}"
        rows = _rows(db, query, (session_id,)) if is_text(session_id) else []
        if not rows or self.owner not in (None, rows[0].owner):
            raise not_found(session_id)
        return rows[0]

    def _held(self, db: Database, lease: Lease, *, lock: bool = True) -> _Row:
        row = self._find(db, lease.session_id, lock=lock)
        if row.fence != lease.fence or row.holder is None:
            raise lost(lease, row.runner)
        return row


def _lasting(ttl: float) -> tuple[float, str | None, float | None]:
    """Return a lease's seconds, for the server's clock, and its end by the clock of this machine."""
    boot = this_boot()
    return ttl, boot, None if boot is None else uptime() + ttl


def run(db: Database, query: str, values: Sequence[object] | Mapping[str, object]) -> psycopg.Cursor[TupleRow]:
    """Run a query."""
    return db.execute(cast("Any", query), values, binary=True)


def value(db: Database, query: str, *values: object) -> Any:
    """Return the one value of a query."""
    (found,) = run(db, query, values).fetchall()
    return found[0]


def _rows(db: Database, query: str, values: Sequence[object]) -> list[_Row]:
    return [_Row(*fields) for fields in run(db, query, values)]


def _entries(db: Database, where: str, values: Sequence[object], limit: int | None = None) -> list[Entry]:
    query = f"SELECT {ENTRY} FROM deep_sessions_entries WHERE {where} ORDER BY seq LIMIT %s"
    return [Entry(*fields) for fields in run(db, query, (*values, limit))]


def _mail(db: Database, key: int) -> Sequence[Mail]:
    query = "SELECT id, kind, data, at FROM deep_sessions_mail WHERE session = %s ORDER BY id"
    return [Mail(*fields) for fields in run(db, query, (key,))]
