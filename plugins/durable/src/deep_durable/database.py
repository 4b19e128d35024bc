"""What a queue needs of a database: transactions in plain SQL that SQLite and PostgreSQL both read."""

from __future__ import annotations

import asyncio
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, Protocol, TypeVar

__all__ = ["Database", "Row", "Run", "Work", "placeholders"]

T = TypeVar("T")
Row = Mapping[str, Any]


class Run(Protocol):
    """Runs one statement of a transaction."""

    def __call__(self, statement: str, /, **values: object) -> Sequence[Row]:
        """Return its rows. `:name` is a value, `now()` the seconds of the database's clock."""
        ...


Work = Callable[[Run], T]


class Database(ABC):
    """One database, for one queue."""

    serial: str
    """The type of a key that the database numbers."""
    skip: str
    """What a subquery ends with, so that two workers that claim at once claim different rows."""
    jobs: str
    """The name of the table of jobs."""
    prefix: str
    """What the names of the other tables begin with."""

    def __init__(self) -> None:
        self._process = 0
        self._thread: ThreadPoolExecutor | None = None

    async def do(self, work: Work[T]) -> T:
        """Do work in one transaction, in a thread of its own. A cancelled task leaves all of it done, or nothing.

        Raises:
            QueueError: the database cannot be reached; nothing was done.
        """
        if self._thread is None or self._process != os.getpid():
            # A fork copies no thread, and connections must not be shared.
            self._process, self._thread = os.getpid(), ThreadPoolExecutor(1, "deep-queue")
            self.forget()
        return await asyncio.wrap_future(self._thread.submit(self.transact, work))

    async def aclose(self) -> None:
        """Close the connection."""
        if self._thread is not None and self._process == os.getpid():
            await asyncio.wrap_future(self._thread.submit(self.disconnect))
            self._thread.shutdown(wait=False)
            self._thread = None

    def close(self) -> None:
        """Close the connection soon."""
        if self._thread is not None and self._process == os.getpid():
            self._thread.submit(self.disconnect)
            self._thread.shutdown(wait=False)
            self._thread = None

    @abstractmethod
    def transact(self, work: Work[T]) -> T:
        """Do work in one transaction, in this thread."""

    @abstractmethod
    def disconnect(self) -> None:
        """Close the connection, in this thread."""

    @abstractmethod
    def forget(self) -> None:
        """Forget the connection, which belongs to the process that forked this one."""

    @abstractmethod
    def has_table(self, run: Run, name: str) -> bool:
        """Whether the table exists. If not, no other process creates it until the end of the transaction."""

    @abstractmethod
    def boot(self) -> str:
        """Return which clock `now()` reads: after a restart of the machine, it may be another one."""

    @abstractmethod
    def hold(self, run: Run, worker: int) -> None:
        """Show that this process is a worker, until it dies. Called at each sign of life."""

    @abstractmethod
    def is_dead(self, run: Run, worker: Row) -> bool:
        """Whether the process of a worker has died, as far as that can be known at once."""


@lru_cache(maxsize=256)
def placeholders(statement: str, now: str) -> str:
    """Return a statement as psycopg takes it.

    Args:
        statement: with `:name` and `now()`.
        now: what the database calls its clock.
    """
    return re.sub(r"(?<![:\w]):([a-z]\w*)", r"%(\1)s", statement).replace("now()", now)
