"""Where an upload comes from: bytes, a file, or an async stream; always read in pieces of about one size."""

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
"""Bytes of a piece: large enough that hopping to a thread for each costs little, and all that is in memory."""

Data: TypeAlias = bytes | bytearray | memoryview | Path | AsyncIterable[bytes]
"""What can be uploaded: bytes; a file of this machine, which is streamed; an async iterable, which is used up."""


class Source:
    """The content of one upload.

    Attributes:
        error: what the source raised, if it did: the caller's own error, not the backend's.

    Raises:
        TypeError: `data` is none of `Data`.
    """

    def __init__(self, data: Data) -> None:
        if not isinstance(data, bytes | bytearray | memoryview | Path | AsyncIterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            hint = "text: encode it, or give Path(…) for a file" if isinstance(data, str) else type(data).__name__
            raise TypeError(f"an upload is bytes, a pathlib.Path or an async iterable of bytes, not {hint}")
        self._data = data
        self.error: BaseException | None = None

    async def size(self) -> int | None:
        """Bytes that are to be expected, before any is read; None where it cannot be told.

        Raises:
            OSError: the file is missing or cannot be looked at.
        """
        if isinstance(self._data, bytes | bytearray):
            return len(self._data)
        if isinstance(self._data, memoryview):
            return self._data.nbytes
        if isinstance(self._data, Path):
            return (await anyio.to_thread.run_sync(self._data.stat)).st_size
        return None

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """The content: pieces of `PIECE` bytes or a little more, the last one as it comes; none where it is empty."""
        try:
            if isinstance(self._data, Path):
                async with aclosing(_from_file(self._data)) as pieces:
                    async for piece in pieces:
                        yield piece
            elif isinstance(self._data, AsyncIterable):
                async with aclosing(_gathered(self._data)) as pieces:
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
        # Waits for a read that a cancelled caller left running in its thread: a buffered file has a lock.
        file.close()


def _open(path: Path) -> IO[bytes]:
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(f"{path} is a directory: upload its files one by one, or an archive of it")
        if not stat.S_ISREG(mode):
            raise OSError(f"{path} is not a regular file")
        return os.fdopen(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


async def _gathered(chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """Small chunks joined, large ones cut."""
    iterator = chunks.__aiter__()
    buffer = bytearray()
    try:
        async for chunk in iterator:
            if not isinstance(chunk, bytes | bytearray | memoryview):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"the stream of an upload gave {type(chunk).__name__}, not bytes")
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
    """Let a generator of the caller's run its own `finally` now, not when it is collected."""
    if isinstance(iterator, AsyncGenerator):
        await cast("AsyncGenerator[bytes, None]", iterator).aclose()
