"""Lock files for one writer at a time, across sessions, threads and event loops of this process."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager

__all__ = ["holding"]

FIRST_WAIT, LONGEST_WAIT = 0.001, 0.05
"""Seconds between two tries, doubled each time: a holder needs about a millisecond for a small file."""


class _Entry:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0


_guard = threading.Lock()
_entries: dict[Hashable, _Entry] = {}


@asynccontextmanager
async def holding(key: Hashable) -> AsyncGenerator[None]:
    """Hold the lock of a file. Waiting blocks neither the event loop nor a thread, and can be cancelled.

    An `asyncio.Lock` belongs to one loop, and threads of the pool that wait for a `threading.Lock` could be the
    ones that its holder needs; so poll it.
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
