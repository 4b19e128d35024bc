"""All servers of one kernel: found once, connected once, whatever number of agents and runs uses them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .connection import Connection, Limits, ServerFailed
from .listing import ListedTool
from .servers import FoundServer
from .store import Store
from .worker import Worker

if TYPE_CHECKING:
    from .options import McpOptions

__all__ = ["Hub"]


class Hub:
    """The connections of one kernel, by server.

    Attributes:
        found: every configured server.
        connections: of the servers that are ready, by name.
        store: what is remembered of servers.
        options: of the plugin.
        logger: of the plugin.
    """

    def __init__(self, found: Sequence[FoundServer], options: McpOptions, store: Store, logger: logging.Logger) -> None:
        self.found, self.options = tuple(found), options
        limits = Limits(options.start_timeout, options.start_timeout, options.call_timeout)
        self.worker = Worker()
        self.connections = {
            server.name: Connection(server.config, limits, store, logger)
            for server in found
            if server.status == "ready" and server.config is not None
        }
        self.store, self._wait, self.logger = store, options.wait, logger
        self._starting: dict[str, Future[Any]] = {}
        self._remembered = False
        self._unawaited: set[str] = set()

    async def known(self) -> None:
        """Wait until every server has listed its tools, failed, or had its time. Servers start at once.

        A server whose tools are remembered is not started for this. Only the first attempt is waited for, and none if a
        request has waited in vain before.
        """
        self.remember()
        while self._unawaited:
            self._start(self._unawaited.pop())
        absent = [name for name, connection in self.connections.items() if connection.listing is None]
        first = [self._start(name) for name in absent if name not in self._starting]
        for name in absent:
            if self._starting[name].done() and self.connections[name].can_start:
                self._start(name)
        if first:
            await asyncio.wait([asyncio.wrap_future(future) for future in first], timeout=self._wait)
            for name in absent:
                if not self._starting[name].done():
                    self.store.keep_slow(self.connections[name].config)

    def remember(self) -> None:
        """Take the tools that servers listed before. Those a day old are listed again, and no request waits for it."""
        if self._remembered:
            return
        self._remembered = True
        for name, connection in self.connections.items():
            if (kept := self.store.listing(connection.config)) is not None:
                connection.listing = kept[0]
                connection.changed = self.store.changed(connection.config, kept[0])
                self._unawaited |= {name} if kept[1] else set()
            elif self.store.is_slow(connection.config):
                self._unawaited.add(name)

    def _start(self, name: str) -> Future[Any]:
        async def start() -> None:
            with suppress(ServerFailed):  # logged, and kept in `problem`
                await self.connections[name].list_tools()

        self._starting[name] = self.worker.submit(start())
        return self._starting[name]

    async def call(self, server: str, tool: ListedTool, args: dict[str, Any]) -> Any:
        """Call a tool."""
        return await self.worker.run(self.connections[server].call(tool, args))

    def close(self) -> None:
        """Close every connection, then end the thread."""
        if not self.worker.is_running:
            return

        async def close() -> None:
            await asyncio.gather(*(c.close() for c in self.connections.values()), return_exceptions=True)

        with suppress(Exception):
            self.worker.submit(close()).result(timeout=15)
        self.worker.stop()
