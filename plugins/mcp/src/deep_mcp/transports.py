"""How a session reaches its server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastmcp.client.transports import ClientTransport, SSETransport, StreamableHttpTransport
from fastmcp.client.transports.base import TransportOptions
from mcp.client.stdio import StdioServerParameters, stdio_client

from .servers import ServerConfig
from .session import Session

if TYPE_CHECKING:
    import httpx2

__all__ = ["transport_of"]


def transport_of(config: ServerConfig, log: Path, auth: httpx2.Auth | None) -> ClientTransport:
    """Return the transport of a server, with the values of its variables."""
    if config.transport == "stdio":
        return _Program(config, log)
    kind = SSETransport if config.transport == "sse" else StreamableHttpTransport
    return _Address(kind(config.url, headers={**config.headers}, auth=auth))


class _Program(ClientTransport):
    """A program that lives as long as the session. fastmcp's own ends at a byte that is no UTF-8."""

    def __init__(self, config: ServerConfig, log: Path) -> None:
        self._config, self._log = config, log
        self._lives: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def connect_session(self, *, transport_options: Any = None, **settings: Any) -> AsyncGenerator[Session]:
        opened = asyncio.get_running_loop().create_future()
        over = asyncio.Event()
        # fastmcp cancels the session's task again if its end takes more than three seconds. That hits the end itself: a
        # program that ignores SIGTERM stayed, and the event loop never came to rest. Nobody cancels this task.
        life = asyncio.create_task(self._live(opened, over))
        self._lives.add(life)
        life.add_done_callback(self._lives.discard)
        try:
            read, write = await opened
            async with Session(read, write, **settings) as session:
                yield session
        finally:
            over.set()
            await asyncio.shield(life)

    async def _live(self, opened: asyncio.Future[Any], over: asyncio.Event) -> None:
        """Run the program until it is over: `opened` gets its streams, or why there are none."""
        config = self._config
        program = StdioServerParameters(
            command=config.command,
            args=[*config.args],
            env={**config.env},
            cwd=config.cwd,
            encoding_error_handler="replace",
        )
        try:
            with self._log.open("a") as stderr:
                async with stdio_client(program, errlog=stderr) as streams:
                    if not opened.done():  # nobody waits for it any more
                        opened.set_result(streams)
                        await over.wait()
        except Exception as error:
            if opened.done():
                raise
            opened.set_exception(error)

    async def close(self) -> None:
        """Wait until the program has ended."""
        if self._lives:
            await asyncio.wait(self._lives)


class _Address(ClientTransport):
    """A server at an address, with our session."""

    def __init__(self, inner: SSETransport | StreamableHttpTransport) -> None:
        self._inner = inner
        self.legacy_only = inner.legacy_only

    @asynccontextmanager
    async def connect_session(self, *, transport_options: Any = None, **settings: Any) -> AsyncGenerator[Any]:
        options = replace(transport_options or TransportOptions(), session_class=Session)
        async with self._inner.connect_session(transport_options=options, **settings) as session:
            yield session

    def get_session_id(self) -> str | None:
        """Return the id that the server gave the session."""
        return self._inner.get_session_id()

    async def close(self) -> None:
        """Close the transport."""
        await self._inner.close()
