"""Serve an MCP server over stdio or streamable HTTP."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager, redirect_stdout
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["LOOPBACK", "Wire", "claim_stdio", "open_socket", "serve_http", "serve_stdio"]

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
"""The hosts that only programs of this machine reach, and whose names the SDK checks in each request."""
CHUNK: Final = 65_536
GRACE: Final = 5
"""Seconds that open streams have to end after a signal."""


class Wire:
    """The process's own stdin and stdout, kept for the protocol.

    Args:
        read: the descriptor of the stream from the client.
        write: the descriptor of the stream to the client.
    """

    def __init__(self, read: int, write: int) -> None:
        self.output = TextIOWrapper(os.fdopen(write, "wb"), encoding="utf-8")
        self._read = read

    async def lines(self) -> AsyncIterator[str]:
        """Yield the client's messages. A thread waits for them, which a signal need not wait for."""
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[bytes]()

        def read() -> None:
            while True:
                try:
                    chunk = os.read(self._read, CHUNK)
                except OSError:
                    chunk = b""
                try:
                    loop.call_soon_threadsafe(queue.put_nowait, chunk)
                except RuntimeError:  # the loop is closed
                    return
                if not chunk:
                    return

        threading.Thread(target=read, name="mcp-stdin", daemon=True).start()
        line: list[bytes] = []
        while chunk := await queue.get():
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                yield b"".join([*line, end]).decode("utf-8", "replace")
                line = []
            line.append(rest)


@contextmanager
def claim_stdio() -> Generator[Wire]:
    """Keep stdin and stdout for the protocol: what prints goes to stderr, and what reads gets the end of the file.

    It covers plugins, tools and their child processes: whatever they print would break the protocol.
    """
    sys.stdout.flush()
    wire = Wire(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    with redirect_stdout(sys.stderr):
        yield wire


async def serve_stdio(server: Server[Any], wire: Wire) -> None:
    """Serve one client until it closes its stream, or until SIGTERM."""
    import anyio
    from mcp.server.stdio import stdio_server

    task = asyncio.current_task()
    if task is not None and sys.platform != "win32":
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    # The SDK only iterates over stdin.
    async with stdio_server(cast("Any", wire.lines()), anyio.wrap_file(wire.output)) as (read, write):
        await server.run(read, write, server.create_initialization_options())


def open_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 takes a free one.

    Raises:
        OSError: the address is in use, or not of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


async def serve_http(server: Server[Any], listener: socket.socket, *, token: str = "") -> None:
    """Serve streamable HTTP at `/mcp` until SIGTERM or Ctrl-C.

    Without a token, requests must name this machine as their host, and pages of other origins are refused.

    Args:
        server: the server.
        listener: of `open_socket`.
        token: what each request must carry as `Authorization: Bearer …`; empty for none.
    """
    import uvicorn
    from mcp.server.transport_security import TransportSecuritySettings

    # A page of another site does not know the token, whatever name it reaches us by.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False) if token else None
    app: ASGIApp = server.streamable_http_app(transport_security=security)
    if token:
        app = _Bearer(app, token)
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=GRACE)
    await uvicorn.Server(config).serve(sockets=[listener])


class _Bearer:
    """Refuse requests without the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._knows(scope):
            await self._app(scope, receive, send)
            return
        from starlette.responses import PlainTextResponse

        refusal = "this MCP server needs its token: Authorization: Bearer …\n"
        response = PlainTextResponse(refusal, status_code=401, headers={"WWW-Authenticate": "Bearer"})
        await response(scope, receive, send)

    def _knows(self, scope: Scope) -> bool:
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        return any(key == b"authorization" and secrets.compare_digest(value, self._expected) for key, value in headers)
