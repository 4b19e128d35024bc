"""Lock files for one writer at a time in this process, across backends, threads and event loops."""

from __future__ import annotations

import os
import sys
import threading
from types import TracebackType

import anyio

__all__ = ["Exclusive", "FileKey", "file_key"]

FileKey = tuple[int, int, str]
"""Device and inode of the real parent directory, and the name in it: equal for all spellings of a path."""


def file_key(directory: int, name: str) -> FileKey:
    """Build the key of the file `name` in the open real directory `directory` (a descriptor)."""
    found = os.fstat(directory)
    return found.st_dev, found.st_ino, name.casefold() if sys.platform == "darwin" else name


_POLL_SECONDS = 0.001

_held: set[FileKey] = set()
_mutex = threading.Lock()


def _forget_after_fork() -> None:
    # The holders are in the parent process; a child that kept their keys would wait for ever.
    global _mutex
    _held.clear()
    _mutex = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


class Exclusive:
    """`async with Exclusive(key)`: waits, without blocking the event loop, until no other task or thread holds `key`.

    Waiting polls instead of queueing on a lock: a queue belongs to one event loop, and blocked worker
    threads could be the ones that the holder needs.
    """

    __slots__ = ("_key",)

    def __init__(self, key: FileKey) -> None:
        self._key = key

    def _take(self) -> bool:
        with _mutex:
            if self._key in _held:
                return False
            _held.add(self._key)
            return True

    async def __aenter__(self) -> None:
        while not self._take():  # noqa: ASYNC110 - the holder may be in another event loop
            await anyio.sleep(_POLL_SECONDS)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _mutex:
            _held.discard(self._key)
