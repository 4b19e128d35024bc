"""Connections without a request: they end, and their number is bounded."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:

    class AutoHTTPProtocol(asyncio.Protocol):
        """What this module uses of uvicorn's connection."""

        cycle: Any
        loop: asyncio.AbstractEventLoop
        transport: Any

        def on_response_complete(self) -> None: ...

else:
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

__all__ = ["MOST", "SECONDS", "PatientProtocol"]

SECONDS = 15.0
"""For which a connection may take to ask something, whole with its headers."""
MOST = 100
"""Connections that ask nothing, in a process. One more ends the oldest."""


class PatientProtocol(AutoHTTPProtocol):
    """Uvicorn's connection, that ends if it stays half-open."""

    silent: ClassVar[OrderedDict[PatientProtocol, asyncio.TimerHandle]] = OrderedDict()
    """Those that ask nothing, the oldest first, with what ends them."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Wait until a request is whole. What comes of one does not make the time longer."""
        super().data_received(data)
        if self._works():
            self._stop()
        elif self not in self.silent:
            self._wait()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        if not self._works() and self not in self.silent:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop()
        super().connection_lost(exc)

    def _works(self) -> bool:
        """Whether a request is under way, or the connection is a socket's now."""
        is_asked = self.cycle is not None and not self.cycle.response_complete
        return is_asked or self.transport.get_protocol() is not self

    def _wait(self) -> None:
        self.silent[self] = self.loop.call_later(SECONDS, self._end)
        if len(self.silent) > MOST:
            next(iter(self.silent))._end()

    def _stop(self) -> None:
        timer = self.silent.pop(self, None)
        if timer is not None:
            timer.cancel()

    def _end(self) -> None:
        self._stop()
        if not self._works():
            self.transport.abort()
