"""One writer at a time for a file, across sessions, threads and event loops of this process."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager

__all__ = ["holding"]

FIRST_WAIT, LONGEST_WAIT = 0.001, 0.05
"""Seconds between two tries. Doubled each time: a holder needs about a millisecond for a small file."""


class _Entry:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0


_guard = threading.Lock()
_entries: dict[Hashable, _Entry] = {}


@asynccontextmanager
async def holding(key: Hashable) -> AsyncGenerator[None]:
    """Hold the lock of a file. Waiting neither blocks the event loop nor takes a thread, and can be cancelled.

    An `asyncio.Lock` belongs to one loop, and waiting for a `threading.Lock` in the pool of threads could use up the
    threads that its holder needs; so it is tried and slept on.
    """
    with _guard:
        entry = _entries.setdefault(key, _Entry())
        entry.users += 1
    try:
        wait = FIRST_WAIT
        while not entry.lock.acquire(blocking=False):
            from anyio import sleep

            await sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)
        try:
            yield
        finally:
            entry.lock.release()
    finally:
        with _guard:
            entry.users -= 1
            if not entry.users:
                del _entries[key]
