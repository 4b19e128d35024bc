"""Where work runs: small file operations in the caller, large ones in a worker thread that is always waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread

__all__ = ["DIRECT_BYTES", "DIRECT_ENTRIES", "in_thread"]

T = TypeVar("T")

DIRECT_BYTES = 256 * 1024
"""Content up to this many bytes is read or hashed in the event loop's own thread.

256 KiB of cached content cost about as long as the hop to a thread and back (0.1 ms), and hopping for every small
file made a whole agent turn 1.7 times as long when it was measured. What is written durably is another matter: fsync
waits for the disk (6 ms a file on a busy one), so it never runs in the loop's thread.
"""

DIRECT_ENTRIES = 1024
"""Directory entries that are listed in the event loop's own thread; the rest of a larger directory in a worker's."""


async def in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a worker thread and return its result or raise its exception.

    A cancelled caller still waits until `work` has ended, whether the cancellation is anyio's or
    `asyncio.Task.cancel`: file descriptors that `work` uses may then be closed, and numbers of closed
    descriptors, which the operating system hands out again, are never written to.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised below, in the caller, outside an exception group
            errors.append(error)

    async def shielded() -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(call)

    # A child task, because a native Task.cancel() interrupts an await that is merely shielded by a scope.
    async with anyio.create_task_group() as group:
        group.start_soon(shielded)
    if errors:
        raise errors[0]
    return results[0]
