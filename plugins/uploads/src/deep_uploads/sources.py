"""Read an upload from bytes, a file, or an async stream, in pieces of about one size."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import IO, TypeAlias, cast

import anyio.to_thread

__all__ = ["PIECE", "Data", "Source"]

PIECE = 1024 * 1024
"""Bytes of a piece: large enough that a hop to a thread for each costs little, and all that is in memory."""

Data: TypeAlias = bytes | bytearray | memoryview | Path | AsyncIterable[bytes]
"""The content of an upload: bytes; a file of this machine, which is streamed; or an async iterable."""


class Source:
    """The content of one upload.

    Attributes:
        error: an error that the source raised: the caller's, not the backend's.

    Raises:
        TypeError: `data` is not `Data`.
    """

    def __init__(self, data: Data) -> None:
        if not isinstance(data, bytes | bytearray | memoryview | Path | AsyncIterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            hint = "text: encode it, or give Path(…) for a file" if isinstance(data, str) else type(data).__name__
            raise TypeError(f"an upload is bytes, a pathlib.Path or an async iterable of bytes, not {hint}")
        self._data = data
        self.error: BaseException | None = None

    async def size(self) -> int | None:
        """The expected bytes before reading; None if unknown.

        Raises:
            OSError: the file is missing or cannot be read.
        """
        if isinstance(self._data, bytes | bytearray):
            return len(self._data)
        if isinstance(self._data, memoryview):
            return self._data.nbytes
        if isinstance(self._data, Path):
            return (await anyio.to_thread.run_sync(self._data.stat)).st_size
        return None

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield the content: pieces of `PIECE` bytes or slightly more, the last one shorter; none if it is empty."""
        try:
            if isinstance(self._data, Path):
                async with aclosing(_from_file(self._data)) as pieces:
                    async for piece in pieces:
                        yield piece
            elif isinstance(self._data, AsyncIterable):
                async with aclosing(_regroup(self._data)) as pieces:
                    async for piece in pieces:
                        yield piece
            else:
                with memoryview(self._data) as whole, whole.cast("B") as view:
                    for start in range(0, len(view), PIECE):
                        yield bytes(view[start : start + PIECE])
        except GeneratorExit:
            raise
        except BaseException as error:
            self.error = error
            raise


async def _from_file(path: Path) -> AsyncGenerator[bytes, None]:
    file = await anyio.to_thread.run_sync(_open, path)
    try:
        while piece := await anyio.to_thread.run_sync(partial(file.read, PIECE)):
            yield piece
    finally:
        # Waits for a read that a cancelled caller left in its thread: a buffered file has a lock.
        file.close()


def _open(path: Path) -> IO[bytes]:
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(f"{path} is a directory: upload each of its files, or an archive of it")
        if not stat.S_ISREG(mode):
            raise OSError(f"{path} is not a regular file")
        return os.fdopen(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


async def _regroup(chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """Join small chunks and split large ones."""
    iterator = chunks.__aiter__()
    buffer = bytearray()
    try:
        async for chunk in iterator:
            if not isinstance(chunk, bytes | bytearray | memoryview):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"the upload's stream yielded {type(chunk).__name__}, not bytes")
            if not buffer and type(chunk) is bytes and len(chunk) == PIECE:
                yield chunk
                continue
            with memoryview(chunk) as whole, whole.cast("B") as view:
                for start in range(0, len(view), PIECE):
                    buffer += view[start : start + PIECE]
                    if len(buffer) >= PIECE:
                        yield bytes(buffer)
                        buffer = bytearray()
        if buffer:
            yield bytes(buffer)
    finally:
        await _close(iterator)


async def _close(iterator: AsyncIterator[bytes]) -> None:
    """Let a generator of the caller run its `finally` now, not at garbage collection."""
    if isinstance(iterator, AsyncGenerator):
        await cast("AsyncGenerator[bytes, None]", iterator).aclose()
