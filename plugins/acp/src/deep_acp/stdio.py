"""Keep stdin and stdout for the protocol: what else is printed goes to stderr, and what else reads gets nothing."""

from __future__ import annotations

import asyncio
import os
import sys

__all__ = ["Streams", "take_stdio"]

LIMIT = 50 * 1024 * 1024
"""Most bytes of one message: pictures come in them."""


class Streams:
    """The two ends of the protocol, away from the descriptors 0 and 1.

    Args:
        reading: the descriptor that stdin had.
        writing: the descriptor that stdout had.
    """

    def __init__(self, reading: int, writing: int) -> None:
        self._reading = reading
        self._writing = writing

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return them as streams of this event loop.

        Raises:
            ValueError: stdin or stdout is a file: an editor gives pipes.
        """
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=LIMIT)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(self._reading, "rb"))
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(self._writing, "wb")
        )
        return reader, asyncio.StreamWriter(transport, protocol, None, loop)


def take_stdio() -> Streams:
    """Take stdin and stdout away from everything else in this process, and from programs that it starts."""
    # By descriptor: `sys.stdout = sys.stderr` would not stop C code and programs that the agent starts.
    sys.stdout.flush()
    reading, writing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return Streams(reading, writing)
