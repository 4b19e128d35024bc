"""One PostgreSQL database: connections for many threads, transactions, the schema, and what went wrong in words."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, LiteralString, TypeAlias, TypeVar

import psycopg
from psycopg import conninfo
from psycopg.rows import TupleRow

from deep_core import ConfigError

from ..errors import StoreError
from .threads import outcome

__all__ = ["Database", "PostgresqlServer"]

T = TypeVar("T")
Database: TypeAlias = "psycopg.Connection[TupleRow]"
Work: TypeAlias = Callable[["psycopg.Connection[TupleRow]"], T]

MIGRATIONS: tuple[LiteralString, ...] = (
    """
    CREATE SEQUENCE deep_sessions_fence;
    CREATE TABLE deep_sessions (
        key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text COLLATE "C" NOT NULL UNIQUE,
        owner text COLLATE "C", status text NOT NULL, created_at float8 NOT NULL,
        updated_at float8 NOT NULL, seq bigint NOT NULL DEFAULT 0,
        base bigint NOT NULL DEFAULT 0, fence bigint NOT NULL DEFAULT 0, holder text, lock bigint,
        ends float8 NOT NULL DEFAULT 0);
    CREATE INDEX deep_sessions_by_owner ON deep_sessions (owner);
    CREATE TABLE deep_sessions_entries (
        session bigint NOT NULL REFERENCES deep_sessions ON DELETE CASCADE, seq bigint NOT NULL, at float8 NOT NULL,
        kind text NOT NULL, run_id text, version integer NOT NULL, base boolean NOT NULL, data bytea NOT NULL,
        PRIMARY KEY (session, seq));
    CREATE TABLE deep_sessions_ledger (
        session bigint NOT NULL REFERENCES deep_sessions ON DELETE CASCADE, key text COLLATE "C" NOT NULL,
        data bytea NOT NULL, PRIMARY KEY (session, key));
    CREATE TABLE deep_sessions_mail (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        session bigint NOT NULL REFERENCES deep_sessions ON DELETE CASCADE, kind text NOT NULL, data bytea NOT NULL,
        at float8 NOT NULL);
    CREATE INDEX deep_sessions_mail_by_session ON deep_sessions_mail (session, id);
    """,
    """
    ALTER TABLE deep_sessions ADD COLUMN boot text, ADD COLUMN until float8;
    ALTER TABLE deep_sessions_mail ADD COLUMN call text COLLATE "C";
    CREATE UNIQUE INDEX deep_sessions_mail_by_call ON deep_sessions_mail (session, call) WHERE call IS NOT NULL;
    """,
)
"""What makes version n + 1 of the schema out of version n. Only ever append."""
SCHEMA_LOCK = 0x64656570_73657373
"""Of the advisory lock under which one process at a time changes the schema."""

READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
"""Given in full: a database may have other defaults."""
LIMITS = "SET idle_in_transaction_session_timeout = '10s'; SET lock_timeout = '15s'"
"""A process that was stopped in the middle of a transaction would keep its locks, and all others would wait."""
THREADS = 8


class PostgresqlServer:
    """Connections to one database. Each piece of work has a thread and a connection to itself.

    Args:
        url: how to connect, as libpq takes it: a URL or `key=value` pairs.
    """

    def __init__(self, url: str) -> None:
        try:
            given = conninfo.conninfo_to_dict(url)
        except psycopg.Error:
            # Without what psycopg says: it quotes the URL, with its password.
            raise ConfigError(
                "the URL of the PostgreSQL store cannot be read; write postgresql://user:password@host:5432/database, "
                "with %-escapes for special characters, or leave the password to PGPASSWORD or ~/.pgpass"
            ) from None
        self._settings = {"connect_timeout": "10", "application_name": "deep-sessions", **given}
        address = [str(self._settings.get(key) or os.environ.get(f"PG{key.upper()}", "")) for key in ("host", "dbname")]
        self.name = f"postgresql://{address[0]}/{address[1]}"
        self._guard = threading.Lock()
        self._is_closed = False
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._threads = ThreadPoolExecutor(THREADS, "deep-sessions")
        self._idle: list[Database] = []
        self._has_schema = False
        self._alive = _Alive(self._connect)

    # -- work ----------------------------------------------------------------------------------------------------------

    async def write(self, work: Work[T], undo: Callable[[T], Work[object]] | None = None) -> T:
        """Do work in one transaction. If the task is cancelled while it is done, `undo` is done after it."""

        def undo_work(result: T) -> None:
            if undo is not None:
                self._write(undo(result))

        return await outcome(self._submit(partial(self._write, work)), undo_work)

    async def read(self, work: Work[T]) -> T:
        """Do work that reads one state of the database; again, if the connection is lost meanwhile."""
        return await outcome(self._submit(partial(self._read, work)))

    @contextmanager
    def transaction(self, before: Work[object], after: Work[object]) -> Generator[Database]:
        """Open a transaction in the caller's thread, between two pieces of work."""
        with self._explained():
            connection = self._begin(WRITE)
        try:
            with self._explained():
                before(connection)
            try:
                with connection.transaction():  # in which psycopg refuses commit() and rollback()
                    yield connection
            except psycopg.OperationalError as error:
                if not connection.broken:
                    raise  # the block's own
                raise StoreError(f"{self.name}: {_line(error)}; nothing was written") from error
            with self._explained():
                after(connection)
                connection.commit()
        finally:
            self._give_back(connection)

    def own_lock(self) -> int:
        """Return the number of an advisory lock that this process holds as long as it lives."""
        with self._explained():
            return self._alive.number()

    async def close(self) -> None:
        """Close the connections."""
        with self._guard:
            self._is_closed = True
            idle, self._idle = self._idle, []
        self._threads.shutdown(wait=False)
        for connection in idle:
            connection.close()
        self._alive.close()

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        with self._guard:
            self._check_open()
            if self._process != os.getpid():  # a fork copies no thread, and connections must not be shared
                _abandoned.append((self._idle, self._alive))
                self._start()
            return self._threads.submit(work)

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreError(f"the store {self.name} was closed; open it again")

    def _write(self, work: Work[T]) -> T:
        with self._explained():
            return self._do(WRITE, work)

    def _read(self, work: Work[T]) -> T:
        with self._explained():
            try:
                return self._do(READ, work)
            except psycopg.OperationalError:  # this process was stopped for longer than LIMITS, or the server was
                return self._do(READ, work)

    def _do(self, begin: LiteralString, work: Work[T]) -> T:
        connection = self._begin(begin)
        try:
            result = work(connection)
            connection.commit()
            return result
        finally:
            self._give_back(connection)

    @contextmanager
    def _explained(self) -> Generator[None]:
        """Raise the server's errors as StoreError, with the database and what to do."""
        try:
            yield
        except psycopg.errors.DiskFull as error:
            raise StoreError(f"{self.name}: the disk of the server is full: free some space, then try again") from error
        except psycopg.errors.InsufficientPrivilege as error:
            raise StoreError(
                f"{self.name}: {_line(error)}: grant this user the right, or name another database"
            ) from error
        except psycopg.errors.ReadOnlySqlTransaction as error:
            raise StoreError(f"{self.name}: the server only reads; connect to its primary") from error
        except psycopg.OperationalError as error:
            raise StoreError(f"{self.name}: {_line(error)}; check that the server runs, then try again") from error
        except psycopg.Error as error:
            raise StoreError(f"{self.name}: {_line(error)}") from error

    # -- connections ---------------------------------------------------------------------------------------------------

    def _begin(self, begin: LiteralString) -> Database:
        """Return a connection in a new transaction. Connections that the server has closed meanwhile are replaced."""
        while True:
            with self._guard:
                self._check_open()
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = self._connect()
                try:
                    self._create_schema(connection)
                    connection.execute(begin)
                except BaseException:
                    connection.close()
                    raise
                return connection
            try:
                connection.execute(begin)
                return connection
            except psycopg.OperationalError:  # nothing was done yet
                connection.close()

    def _give_back(self, connection: Database) -> None:
        with suppress(psycopg.Error):  # then it is closed
            connection.rollback()
        with self._guard:
            if not connection.closed and not self._is_closed and self._process == os.getpid():
                self._idle.append(connection)
                return
        connection.close()

    def _connect(self) -> Database:
        connection = psycopg.connect(**self._settings, autocommit=True)  # type: ignore[arg-type]
        connection.execute(LIMITS)
        return connection

    def _create_schema(self, connection: Database) -> None:
        if self._has_schema:
            return
        if self._version(connection) != len(MIGRATIONS):
            # Not in the transaction: one that has begun may not see what another process has created meanwhile.
            connection.execute("SELECT pg_advisory_lock(%s)", (SCHEMA_LOCK,))
            try:
                with connection.transaction():
                    connection.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED READ WRITE")  # as in WRITE
                    self._migrate(connection, self._version(connection))
            finally:
                connection.execute("SELECT pg_advisory_unlock(%s)", (SCHEMA_LOCK,))
        self._has_schema = True

    def _version(self, connection: Database) -> int | None:
        """Return the version of the schema; None without one."""
        if _value(connection, "SELECT to_regclass('deep_sessions_schema')") is None:
            return None
        version: int = _value(connection, "SELECT version FROM deep_sessions_schema")
        if version > len(MIGRATIONS):
            raise StoreError(
                f"{self.name} was written by a newer deep-sessions (schema {version}, this one knows "
                f"{len(MIGRATIONS)}): pip install --upgrade deep-sessions"
            )
        return version

    def _migrate(self, connection: Database, version: int | None) -> None:
        if version is None:
            connection.execute("CREATE TABLE deep_sessions_schema (version integer NOT NULL)")
            connection.execute("INSERT INTO deep_sessions_schema VALUES (0)")
        for statements in MIGRATIONS[version or 0 :]:
            connection.execute(statements)
        connection.execute("UPDATE deep_sessions_schema SET version = %s", (len(MIGRATIONS),))


class _Alive:
    """An advisory lock on a connection of its own: the server drops it when the process dies."""

    def __init__(self, connect: Callable[[], Database]) -> None:
        self._connect = connect
        self._guard = threading.Lock()
        self._number = secrets.randbits(62)
        self._connection: Database | None = None
        self._is_locked = self._is_closed = False

    def number(self) -> int:
        """Return the number of the lock, after making sure that it is held.

        After a connection was lost, the server may hold the lock for the old one until it notices; then a later call
        takes it over.
        """
        with self._guard:
            if self._is_closed:  # by another thread, while this one worked
                raise StoreError("the store was closed; open it again")
            if not self._is_locked or not self._answers():
                if self._connection is None or self._connection.closed:
                    self._connection = self._connect()
                self._is_locked = _value(self._connection, "SELECT pg_try_advisory_lock(%s)", self._number)
            return self._number

    def _answers(self) -> bool:
        try:
            return self._connection is not None and _value(self._connection, "SELECT true")
        except psycopg.OperationalError:
            return False

    def close(self) -> None:
        with self._guard:
            self._is_closed = True
            if self._connection is not None:
                self._connection.close()


_abandoned: list[object] = []
"""Connections of the parent process: closing one in the child would end the parent's."""


def _value(connection: Database, query: LiteralString, *values: object) -> Any:
    (row,) = connection.execute(query, values).fetchall()
    return row[0]


def _line(error: psycopg.Error) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
