"""The queue's database in a SQLite file, for all processes of one machine."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

from deep_sessions import is_dead

from .database import Database, Row, Run, Work
from .errors import QueueError

__all__ = ["SqliteDatabase"]

T = TypeVar("T")
WAIT = 10.0
"""Seconds that a transaction waits for one of another process."""
BOOT = Path("/proc/sys/kernel/random/boot_id")


class SqliteDatabase(Database):
    """A file beside the one of the sessions: workers that look for work do not wait for what sessions write.

    Args:
        path: the file. It is created with its folder, for this user alone.
    """

    serial = "integer primary key autoincrement"
    skip = ""  # one transaction writes at a time
    jobs = "workflow_input"  # DBOS, which came before, had its payloads there: what attacked them attacks ours
    prefix = "queue_"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path.absolute()
        self._connection: sqlite3.Connection | None = None

    def transact(self, work: Work[T]) -> T:
        """Do work; open the file again after a failure."""
        try:
            if self._connection is None:
                self._connection = _connect(self.path)
            connection = self._connection
            connection.execute("begin immediate")
            try:
                result = work(_statements(connection))
                connection.execute("commit")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("rollback")
                raise
        except (sqlite3.Error, OSError) as error:
            self.disconnect()
            raise QueueError(f"the queue {self.path} cannot be used: {error}") from error
        return result

    def has_table(self, run: Run, name: str) -> bool:
        """Read the schema. The transaction has the file to itself."""
        names = {row["name"] for row in run("select name from sqlite_master where type = 'table'")}
        if name not in names and self.jobs in names:
            raise QueueError(f"{self.path} is the queue of an older deep-durable: move the file away")
        return name in names

    def boot(self) -> str:
        """Return the boot of this machine."""
        return _boot()

    def hold(self, run: Run, worker: int) -> None:
        """Do nothing: the worker's row names its process."""

    def is_dead(self, run: Run, worker: Row) -> bool:
        """Look for the process."""
        return is_dead(worker["holder"])

    def disconnect(self) -> None:
        """Close the file."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def forget(self) -> None:
        """Keep the connection open: closing it would drop the locks of the parent process."""
        _abandoned.append(self._connection)
        self._connection = None


_abandoned: list[sqlite3.Connection | None] = []


def _statements(connection: sqlite3.Connection) -> Run:
    def run(statement: str, /, **values: object) -> Sequence[Row]:
        cursor = connection.execute(statement, values)
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    return run


def _connect(path: Path) -> sqlite3.Connection:
    if sqlite3.sqlite_version_info < (3, 35):
        raise QueueError(
            f"a queue in a file needs SQLite 3.35, and this Python has {sqlite3.sqlite_version}: use a newer Python, "
            "or keep the sessions in postgresql://…"
        )
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, timeout=WAIT, isolation_level=None, check_same_thread=False)
    try:
        connection.create_function("now", 0, _now)
        _to_wal(connection)
        connection.execute("pragma synchronous = normal")
    except BaseException:
        connection.close()
        raise
    return connection


def _to_wal(connection: sqlite3.Connection) -> None:
    ends = time.monotonic() + WAIT
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError:
            # Of two processes that create the file, SQLite lets one wait and refuses the other at once.
            if time.monotonic() > ends:
                raise
            time.sleep(0.01)


@cache
def _boot() -> str:
    try:
        return BOOT.read_text("ascii").strip()
    except OSError:
        return ""


def _now() -> float:
    """Return the seconds since the boot, which no one sets; where the system does not tell them, since 1970."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if _boot() else time.time()
