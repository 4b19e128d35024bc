"""A web of the tests' own: a real server on loopback, names that resolve as a test says, addresses that lead to it."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2

__all__ = ["PUBLIC", "Names", "Request", "Site", "Wires"]

PUBLIC = "93.184.215.14"
"""An address of the public internet, which leads to the test's server."""
Page = Callable[["Request"], None]


class Request(BaseHTTPRequestHandler):
    """One request, answered by the page of its path."""

    protocol_version = "HTTP/1.1"
    server: Any

    def do_GET(self) -> None:
        self.close_connection = True
        self.server.site.seen.append((self.headers["Host"], self.path))
        self.server.site.headers.append(dict(self.headers))
        page = self.server.site.pages.get(self.path.partition("?")[0])
        if page is None:
            self.reply(404, b"no such page")
            return
        try:
            page(self)
        except (BrokenPipeError, ConnectionResetError):
            self.server.site.cut.set()

    do_POST = do_GET

    def reply(self, status: int, body: bytes, **headers: str) -> None:
        self.start(status, **{"Content_Length": str(len(body)), **headers})
        self.wfile.write(body)

    def start(self, status: int, **headers: str) -> None:
        self.send_response(status)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        for name, value in {"Content-Type": "text/html; charset=utf-8", "Connection": "close", **given}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Site:
    """A server on loopback.

    Attributes:
        pages: by path.
        seen: the host and path of each request.
        release: set when the test is over; pages that never end wait for it.
        cut: set when a client ended a connection while a page was writing.
    """

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.seen: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.release, self.cut = threading.Event(), threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Request)
        self._server.daemon_threads = True
        self._server.site = self  # type: ignore[attr-defined]
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=lambda: self._server.serve_forever(poll_interval=0.01), daemon=True)
        self._thread.start()

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def page(self, path: str, body: bytes | str, status: int = 200, **headers: str) -> str:
        data = body.encode() if isinstance(body, str) else body
        self.pages[path] = lambda request: request.reply(status, data, **headers)
        return self.url(path)

    def redirect(self, path: str, target: str, status: int = 302) -> str:
        self.pages[path] = lambda request: request.reply(status, b"", Location=target)
        return self.url(path)

    def secure(self, context: ssl.SSLContext) -> None:
        """Speak TLS from now on."""
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    def close(self) -> None:
        self.release.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Names:
    """A resolver: each question takes the next answer of its name, and the last one stays."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self.answers = {name.replace("_", "."): list(given) for name, given in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        if host not in self.answers:
            if host.replace(".", "").isdigit() or ":" in host:
                return [host]
            raise OSError("no such name")
        left = self.answers[host]
        return left.pop(0) if len(left) > 1 else left[0]


class Wires(httpx2.AsyncBaseTransport):
    """The network: a public address leads to the server, and each address that was connected to is recorded."""

    def __init__(self) -> None:
        self.connected: list[str] = []
        self._real = httpx2.AsyncHTTPTransport(trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.connected.append(request.url.host)
        request.url = request.url.copy_with(host="127.0.0.1")
        return await self._real.handle_async_request(request)

    async def aclose(self) -> None:
        await self._real.aclose()
