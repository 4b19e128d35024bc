"""One SQLite file: one thread with one connection, transactions, the schema, and what went wrong in words."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from ..errors import StoreError
from .threads import outcome

__all__ = ["DAMAGE", "Durability", "SqliteFile"]

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
Durability = Literal["normal", "full"]
"""What survives a power cut: with `full`, every commit. `kill -9` loses nothing with either."""
LOG_BYTES = 4_000_000
"""The log is moved into the file at about this size, as SQLite does by itself at 1,000 pages."""
PAGES_OF_A_COMMIT = 24_000
"""Bytes that a commit adds to the log beside its data: the pages that it touches."""

APPLICATION = 0x64656570  # "deep"
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE counter (fence INTEGER NOT NULL)",
        "INSERT INTO counter VALUES (0)",
        """CREATE TABLE sessions (
            key INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, owner TEXT, status TEXT NOT NULL,
            created_at REAL NOT NULL, updated_at REAL NOT NULL, seq INTEGER NOT NULL, base INTEGER NOT NULL,
            fence INTEGER NOT NULL, holder TEXT, ends REAL NOT NULL, checksum INTEGER NOT NULL)""",
        """CREATE TABLE entries (
            session INTEGER NOT NULL, seq INTEGER NOT NULL, at REAL NOT NULL, kind TEXT NOT NULL, run_id TEXT,
            version INTEGER NOT NULL, base INTEGER NOT NULL, data BLOB NOT NULL, checksum INTEGER NOT NULL)""",
        "CREATE UNIQUE INDEX entries_by_number ON entries (session, seq)",
        """CREATE TABLE ledger (
            session INTEGER NOT NULL, key TEXT NOT NULL, data BLOB NOT NULL, checksum INTEGER NOT NULL)""",
        "CREATE UNIQUE INDEX ledger_by_key ON ledger (session, key)",
        """CREATE TABLE mail (
            id INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL, kind TEXT NOT NULL, data BLOB NOT NULL,
            at REAL NOT NULL, checksum INTEGER NOT NULL)""",
        "CREATE INDEX mail_by_session ON mail (session, id)",
    ),
    (
        "ALTER TABLE sessions ADD COLUMN boot TEXT",
        "ALTER TABLE sessions ADD COLUMN until REAL",
        "ALTER TABLE mail ADD COLUMN call TEXT",
        "CREATE UNIQUE INDEX mail_by_call ON mail (session, call) WHERE call IS NOT NULL",
    ),
)
"""What makes version n + 1 of the schema out of version n. Only ever append.

Columns that come later are in a row's checksum only where they have a value, so that earlier rows keep theirs.
"""

_opening = threading.Lock()
"""Closing a file drops all locks that the process has on it, so no connection may open while one is created."""

DAMAGE = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What a damaged file raises. SQLite quotes a damaged schema in its message, which Python then cannot decode."""
FAILURES = (sqlite3.Error, OSError, UnicodeDecodeError)

DAMAGED = "the file is damaged: `deep sessions export SESSION` saves what is whole; then move the file away"
ADVICE = {
    "SQLITE_FULL": "the disk is full: free some space, then try again",
    "SQLITE_READONLY": "the file cannot be written: let this user write the file and its folder, or name another file",
    "SQLITE_PERM": "the file cannot be opened: let this user read and write it, or name another file",
    "SQLITE_CANTOPEN": "the file cannot be opened: let this user write its folder, or name another file",
    "SQLITE_NOTADB": "the file is no SQLite database: name another file, or move this one away",
    "SQLITE_BUSY": "another process keeps the file locked: find out which (fuser), then try again",
    "SQLITE_IOERR": "the disk fails, or is full: check it (df, dmesg), then try again",
    "SQLITE_CORRUPT": DAMAGED,
    "SQLITE_ERROR": DAMAGED,  # no table or column has the name that it should have
    "SQLITE_CONSTRAINT": DAMAGED,  # as the number that grows with each acquisition, if it is gone
}


class SqliteFile:
    """A SQLite database for many threads and event loops: one connection, which one thread uses at a time.

    A thread of its own does the work, so that a slow disk or another process never stops an event loop. The exception
    is `write_now`: a commit that neither waits nor syncs costs less than to wake another thread.
    """

    def __init__(self, path: Path, durability: Durability, timeout: float) -> None:
        self.path = path
        self._synchronous = durability.upper()
        self._timeout = timeout
        self._lock = threading.Lock()
        self._is_closed = False
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._use = threading.Lock()
        """Held by the thread that uses the connection."""
        self._written = 0
        """Bytes that `write_now` has written since the log was looked at."""
        self._thread = ThreadPoolExecutor(1, "deep-sessions")
        self._connection: sqlite3.Connection | None = None
        self._waits = -1
        """The milliseconds that the connection waits for another process."""
        self._opened: tuple[int, int] | None = None

    # -- work ----------------------------------------------------------------------------------------------------------

    async def write(self, work: Work[T], undo: Callable[[T], Work[object]] | None = None) -> T:
        """Do work in one transaction. If the task is cancelled while it is done, `undo` is done after it."""

        def undo_work(result: T) -> None:
            if undo is not None:
                self._write(undo(result))

        return await outcome(self._submit(partial(self._write, work)), undo_work)

    def write_now(self, work: Work[T], size: int) -> T | None:
        """Do work in one transaction in this thread, if it has to wait for nothing; return None if it has to.

        Args:
            work: what returns something other than None.
            size: about how many bytes it writes.
        """
        if self._synchronous != "NORMAL" or self._is_closed or self._process != os.getpid():
            return None
        if not self._use.acquire(blocking=False):
            return None
        try:
            self._written += size + PAGES_OF_A_COMMIT
            # When the log is long, `_write` moves it into the file and begins it anew: both wait for the disk.
            if self._written > LOG_BYTES or self._connection is None or self._opened != _identity(self.path):
                return None
            connection = self._connection
            self._wait(connection, 0)
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:  # another process writes; or the file fails, as `_write` will say
                return None
            return _finish(connection, work)
        except FAILURES as error:
            self._disconnect()
            raise self._explain(error) from error
        finally:
            self._use.release()

    async def read(self, work: Work[T]) -> T:
        """Do work that reads one state of the file. It also reads what can be read of a damaged or read-only file."""
        return await outcome(self._submit(partial(self._read, work)))

    @contextmanager
    def transaction(self, before: Work[object], after: Work[object]) -> Generator[sqlite3.Connection]:
        """Open a transaction in the caller's thread, on a connection of its own, between two pieces of work."""
        with self._explained():
            connection = self._open()
        with closing(connection):  # which rolls back what was not committed
            with self._explained():
                connection.execute("BEGIN IMMEDIATE")
                before(connection)
            connection.set_authorizer(_refuse_end)
            yield connection
            connection.set_authorizer(None)
            with self._explained():
                after(connection)
                connection.execute("COMMIT")

    async def empty_log(self) -> None:
        """Move what was committed into the file itself, so that the log keeps no copy of what was deleted."""
        await outcome(self._submit(self._checkpoint))

    def _checkpoint(self) -> None:
        with self._use:
            _checkpoint(self._connect(), "TRUNCATE")

    async def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._is_closed = True
        with suppress(RuntimeError):  # closed before
            await outcome(self._thread.submit(self._end))
        self._thread.shutdown(wait=False)

    def _end(self) -> None:
        with self._use:
            self._disconnect()

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        with self._lock:
            if self._is_closed:
                raise StoreError(f"the store {self.path} was closed; open it again")
            if self._process != os.getpid():  # a fork copies no thread, and SQLite's connections must not be shared
                _abandoned.append(self._connection)
                self._start()
            return self._thread.submit(work)

    def _write(self, work: Work[T]) -> T:
        with self._use, self._explained():
            try:
                connection = self._connect()
                if self._written > LOG_BYTES:
                    _checkpoint(connection, "PASSIVE")
                    self._written = 0
                self._written += PAGES_OF_A_COMMIT
                return _transaction(connection, "BEGIN IMMEDIATE", work)
            except FAILURES:
                self._disconnect()  # the next call opens the file again: whatever was wrong may be over
                raise

    def _read(self, work: Work[T]) -> T:
        with self._use, self._explained():
            try:
                return _transaction(self._connect(), "BEGIN", work)
            except FAILURES as error:
                self._disconnect()
                if _kind(error) == "SQLITE_BUSY":
                    raise
                with suppress(*DAMAGE), closing(self._read_only()) as connection:
                    connection.execute("BEGIN")  # without COMMIT, which fails in a truncated file
                    return work(connection)
                raise

    @contextmanager
    def _explained(self) -> Generator[None]:
        """Raise the database's errors as StoreError, with the file and what to do."""
        try:
            yield
        except FAILURES as error:
            raise self._explain(error) from error

    def _explain(self, error: Exception) -> StoreError:
        why = error.strerror if isinstance(error, OSError) else ADVICE.get(_kind(error))
        return StoreError(f"{self.path}: {why or error}")

    # -- the connection ------------------------------------------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None or self._opened != _identity(self.path):
            self._disconnect()
            self._connection, self._waits = self._open(), -1
            self._connection.execute("PRAGMA wal_autocheckpoint = 0")  # see `write_now`
            self._opened = _identity(self.path)
        self._wait(self._connection, round(self._timeout * 1000))
        return self._connection

    def _wait(self, connection: sqlite3.Connection, milliseconds: int) -> None:
        """Set how long the connection waits for another process that writes."""
        if self._waits != milliseconds:
            connection.execute(f"PRAGMA busy_timeout = {milliseconds}")
            self._waits = milliseconds

    def _open(self) -> sqlite3.Connection:
        with _opening:
            _create(self.path)
            connection = sqlite3.connect(
                self.path, timeout=self._timeout, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            return connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _prepare(self, connection: sqlite3.Connection) -> None:
        version = self._version(connection)
        ends = time.monotonic() + self._timeout
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                # Of two that create the file, SQLite lets one wait and refuses the other at once.
                if _kind(error) != "SQLITE_BUSY" or time.monotonic() > ends:
                    raise
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten
        if version < len(MIGRATIONS):
            _transaction(connection, "BEGIN IMMEDIATE", self._migrate)

    def _migrate(self, connection: sqlite3.Connection) -> None:
        for statements in MIGRATIONS[self._version(connection) :]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")

    def _version(self, connection: sqlite3.Connection) -> int:
        """Return the version of the file's schema; 0 for an empty file."""
        # First: another process may create the tables between two statements, together with the application's id.
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return 0
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise StoreError(f"{self.path} is a database of another program; name another file")
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > len(MIGRATIONS):
            raise StoreError(
                f"{self.path} was written by a newer deep-sessions (schema {version}, this one knows "
                f"{len(MIGRATIONS)}): pip install --upgrade deep-sessions"
            )
        return version

    def _read_only(self) -> sqlite3.Connection:
        """Open a file that cannot be opened for writing, or is shorter than it says."""
        log = Path(f"{self.path}-wal")
        # SQLite ignores the log of an immutable file: then what was written last would be missing.
        modes = ["mode=ro"] if log.exists() and log.stat().st_size else ["mode=ro", "immutable=1"]
        for mode in modes:
            connection = sqlite3.connect(f"{self.path.as_uri()}?{mode}", uri=True, isolation_level=None)
            try:
                connection.execute("PRAGMA writable_schema = ON")  # lets SQLite read a truncated file
                self._version(connection)
                return connection
            except DAMAGE:
                connection.close()
        raise sqlite3.OperationalError("unable to read the file")


_abandoned: list[sqlite3.Connection | None] = []
"""Connections of the parent process: closing one in the child would touch the parent's locks."""


def _checkpoint(connection: sqlite3.Connection, mode: str) -> None:
    # A reader may keep the log in use, or the disk may be full: then a later checkpoint does it.
    with suppress(sqlite3.Error):
        connection.execute(f"PRAGMA wal_checkpoint({mode})")


def _transaction(connection: sqlite3.Connection, begin: str, work: Work[T]) -> T:
    connection.execute(begin)
    return _finish(connection, work)


def _finish(connection: sqlite3.Connection, work: Work[T]) -> T:
    try:
        result = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            with suppress(sqlite3.Error):  # the caller closes the connection, which rolls back too
                connection.execute("ROLLBACK")
        raise
    return result


def _refuse_end(action: int, *_: object) -> int:
    """Refuse BEGIN, COMMIT and ROLLBACK, so that the transaction ends with its block."""
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_TRANSACTION else sqlite3.SQLITE_OK


def _create(path: Path) -> None:
    """Create the file, for its owner alone. SQLite gives its other files the same permissions."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _identity(path: Path) -> tuple[int, int] | None:
    """Tell a file from one that has replaced it: SQLite would write to a file that was deleted."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _kind(error: Exception) -> str:
    """Return the error's main code. An error without one comes from a value that cannot be read."""
    name: str = getattr(error, "sqlite_errorname", "SQLITE_CORRUPT")
    return "_".join(name.split("_")[:2])
