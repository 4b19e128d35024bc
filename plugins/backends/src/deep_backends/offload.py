"""Choose where work runs: small file operations in the caller, large ones in a worker thread, always awaited."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread

__all__ = ["DIRECT_BYTES", "DIRECT_ENTRIES", "in_thread"]

T = TypeVar("T")

DIRECT_BYTES = 256 * 1024
"""Maximum bytes to read or hash in the event loop's thread.

256 KiB of cached content take about as long as a hop to a thread and back (0.1 ms), and hopping for every small
file made an agent turn 1.7 times as long. Durable writes are different: fsync
waits for the disk (6 ms a file on a busy one), so it never runs in the loop's thread.
"""

DIRECT_ENTRIES = 1024
"""Maximum directory entries to list in the event loop's thread; a worker lists the rest."""


async def in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a worker thread and return its result or raise its exception.

    A cancelled caller still waits until `work` has ended, for anyio's cancellation and
    `asyncio.Task.cancel` alike: file descriptors of `work` can then be closed, and numbers of closed
    descriptors, which the operating system reuses, are never written to.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised below in the caller, outside an exception group
            errors.append(error)

    async def shielded() -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(call)

    # A child task, because a native Task.cancel() interrupts an await that only a scope shields.
    async with anyio.create_task_group() as group:
        group.start_soon(shielded)
    if errors:
        raise errors[0]
    return results[0]
