"""The queue's database in PostgreSQL, for any number of hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, LiteralString, TypeVar, cast

import psycopg
from deep_sessions import is_dead
from psycopg.rows import dict_row

from .database import Database, Row, Run, Work, placeholders
from .errors import QueueError

if TYPE_CHECKING:
    from deep_sessions import PostgresqlStore

__all__ = ["PostgresqlDatabase", "StoresDatabase"]

T = TypeVar("T")
NOW = "extract(epoch from clock_timestamp())::float8"
"""The server's clock: those of its clients may differ."""
LIVES = 5_310_921
"""The class of the advisory locks that workers hold while they live: the server drops one when its process dies."""
SETUP = 5_310_921_001
"""The advisory lock of the process that creates the tables."""
LIMITS = "set idle_in_transaction_session_timeout = '5s'; set lock_timeout = '15s'"
"""A process that is stopped inside a transaction must not keep its locks."""


class PostgresqlDatabase(Database):
    """A connection of the queue's own.

    Args:
        url: `postgresql://user@host/database`.
    """

    serial = "int generated always as identity primary key"
    skip = "for update skip locked"
    jobs = "deep_queue_jobs"
    prefix = "deep_queue_"

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._connection: psycopg.Connection[Any] | None = None
        self._held: set[int] = set()

    def transact(self, work: Work[T]) -> T:
        """Do work; once more if the server has closed the connection meanwhile."""
        is_used = self._connection is not None
        try:
            return self._try(work)
        except psycopg.Error as error:
            if not is_used or not isinstance(error, psycopg.OperationalError):
                raise _explained(error) from error
        try:
            return self._try(work)
        except psycopg.Error as error:
            raise _explained(error) from error

    def _try(self, work: Work[T]) -> T:
        try:
            if self._connection is None:
                self._connection = psycopg.connect(self._url, autocommit=True, application_name="deep-durable")
                self._connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # a database may have another
                self._connection.execute(LIMITS)
                self._held.clear()
            with self._connection.transaction():
                return work(statements(self._connection))
        except psycopg.OperationalError:
            self.disconnect()
            raise

    def has_table(self, run: Run, name: str) -> bool:
        """Read the schema; without the table, wait for the process that creates it, and read it again."""

        def exists() -> bool:
            # Not `to_regclass`: to a transaction in which a table was missing once, it stays missing.
            query = "select 1 from pg_tables where tablename = :name and schemaname = any(current_schemas(false))"
            return bool(run(query, name=name))

        if not exists():
            run("select pg_advisory_xact_lock(:setup)", setup=SETUP)
        return exists()

    def boot(self) -> str:
        """Return the same always: the server's clock is a calendar."""
        return "server"

    def hold(self, run: Run, worker: int) -> None:
        """Lock the worker's number, on the connection that gives its signs of life."""
        if worker not in self._held:
            (row,) = run("select pg_try_advisory_lock(:lives, :worker) as held", lives=LIVES, worker=worker)
            if row["held"]:
                self._held.add(worker)

    def is_dead(self, run: Run, worker: Row) -> bool:
        """Try the worker's lock; on this machine, look for its process too: the server may notice later."""
        number = worker["number"]
        if number in self._held:
            return False
        (row,) = run("select pg_try_advisory_xact_lock(:lives, :worker) as free", lives=LIVES, worker=number)
        return row["free"] or is_dead(worker["holder"])

    def disconnect(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def forget(self) -> None:
        """Keep the connection open: it is the parent's."""
        _abandoned.append(self._connection)
        self._connection = None


_abandoned: list[object] = []


class StoresDatabase(PostgresqlDatabase):
    """The connections of an open store, for who only enqueues and looks.

    Args:
        store: the store.
    """

    def __init__(self, store: PostgresqlStore) -> None:
        super().__init__("")
        self._store = store

    async def do(self, work: Work[T]) -> T:
        """Do work on a connection of the store."""
        return await self._store.in_database(lambda connection: work(statements(connection)))

    def hold(self, run: Run, worker: int) -> None:
        """Refuse: the store's connections come and go."""
        raise QueueError("a worker needs a queue of its own: open_queue(url), with the URL of the store")


def statements(connection: psycopg.Connection[Any]) -> Run:
    """Return what runs statements in the transaction of a connection."""
    cursor = connection.cursor(row_factory=dict_row)

    def run(statement: str, /, **values: object) -> Sequence[Row]:
        cursor.execute(cast("LiteralString", placeholders(statement, NOW)), values)
        return cursor.fetchall() if cursor.description else []

    return run


def _explained(error: psycopg.Error) -> QueueError:
    lines = str(error).strip().splitlines()
    return QueueError(f"the queue in PostgreSQL cannot be used: {lines[0] if lines else type(error).__name__}")
