"""`deep mcp login`: a real authorization server, a real MCP server that wants its tokens, and a browser."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import stat
import sys
import threading
import webbrowser
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

from deep_core import Kernel

from .conftest import Play, Servers
from .test_commands import Deep, deep

__all__ = ["deep"]

PRIVATE = "/logins-of-harbor"
"""The authorization server is below a path, so that nobody finds its addresses by guessing."""


class Harbor:
    """An MCP server at `url`, and the authorization server that it names. `access` are the tokens that are good."""

    def __init__(self, state: Path, port: int) -> None:
        from .server import make_server

        self.base = f"http://127.0.0.1:{port}"
        self.url = f"{self.base}/mcp"
        self.clients: dict[str, Any] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.access: set[str] = set()
        self.refresh: set[str] = set()
        self.grants: list[str] = []
        self.denies = False
        app = make_server(state, 0).streamable_http_app()
        self.app = Starlette(
            routes=[
                Route("/.well-known/oauth-protected-resource/mcp", self._resource),
                Route(f"/.well-known/oauth-authorization-server{PRIVATE}", self._metadata),
                Route(f"{PRIVATE}/register", self._register, methods=["POST"]),
                Route(f"{PRIVATE}/authorize", self._authorize),
                Route(f"{PRIVATE}/token", self._token, methods=["POST"]),
                Mount("/", self._guarded(app)),
            ],
            lifespan=lambda _: app.router.lifespan_context(app),
        )

    def _guarded(self, app: Any) -> Any:
        async def guarded(scope: Any, receive: Any, send: Any) -> None:
            token = Request(scope).headers.get("authorization", "").removeprefix("Bearer ")
            refused = Response(status_code=401, headers={"WWW-Authenticate": "Bearer"})
            await (app if token in self.access else refused)(scope, receive, send)

        return guarded

    async def _resource(self, request: Request) -> Response:
        return JSONResponse({"resource": self.url, "authorization_servers": [self.base + PRIVATE]})

    async def _metadata(self, request: Request) -> Response:
        names = {"authorization_endpoint": "authorize", "token_endpoint": "token", "registration_endpoint": "register"}
        found = {key: f"{self.base}{PRIVATE}/{name}" for key, name in names.items()}
        return JSONResponse({"issuer": self.base + PRIVATE, "code_challenge_methods_supported": ["S256"], **found})

    async def _register(self, request: Request) -> Response:
        name = secrets.token_hex(8)
        self.clients[name] = await request.json()
        return JSONResponse({"client_id": name}, status_code=201)

    async def _authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        assert asked["redirect_uri"] in self.clients[asked["client_id"]]["redirect_uris"]
        assert (asked["code_challenge_method"], asked["resource"]) == ("S256", self.url)
        if self.denies:
            back = {"error": "access_denied", "error_description": "the harbor master said no"}
        else:
            back = {"code": secrets.token_hex(8)}
            self.codes[back["code"]] = asked
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode({**back, 'state': asked['state']})}")

    async def _token(self, request: Request) -> Response:
        form = {key: str(value) for key, value in (await request.form()).items()}
        self.grants.append(form["grant_type"])
        assert form["resource"] == self.url
        if form["grant_type"] == "authorization_code":
            asked = self.codes.pop(form["code"])
            proof = urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
            good = (asked["code_challenge"], asked["client_id"]) == (proof, form["client_id"])
        else:
            good = form["refresh_token"] in self.refresh and form["client_id"] in self.clients
            self.refresh.discard(form["refresh_token"])  # each is good for one use
        if not good:
            return JSONResponse({"error": "invalid_grant"}, status_code=400)
        self.access, token = {secrets.token_hex(16)}, secrets.token_hex(16)
        self.refresh.add(token)
        body = {"access_token": next(iter(self.access)), "token_type": "bearer", "refresh_token": token}
        return JSONResponse({**body, "expires_in": 3600})


@pytest.fixture
def harbor(servers: Servers) -> Iterator[Harbor]:
    listening = socket.create_server(("127.0.0.1", 0))
    harbor = Harbor(servers.state("harbor"), listening.getsockname()[1])
    server = uvicorn.Server(uvicorn.Config(harbor.app, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield harbor
    server.should_exit = True
    thread.join()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A browser whose user agrees to everything; the addresses that it was given."""
    addresses: list[str] = []

    def follow(address: str) -> bool:
        addresses.append(address)
        back = httpx.get(address).headers["location"]
        foreign = httpx.get(back.replace("state=", "state=x"))  # another page reaches the port first
        assert foreign.status_code == 404
        return "terminal" in httpx.get(back).text

    monkeypatch.setattr(webbrowser, "open", follow)
    return addresses


@pytest.mark.slow
def test_a_login_is_used_refreshed_and_asked_for_again(
    deep: Deep, harbor: Harbor, opened: list[str], home: Path, make_kernel: Callable[..., Kernel], play: Play
) -> None:
    def kernel() -> Kernel:
        return make_kernel({"harbor": {"url": harbor.url}}, settings={"require_approval": False})

    def call(kernel: Kernel) -> list[str]:
        return asyncio.run(play(kernel, ("harbor_echo", {"text": "Oslo"})))[1]

    deep("add", "harbor", "--url", harbor.url)
    shown = deep("test", "harbor", code=1).stdout
    assert "it asks for a login: deep mcp login harbor" in shown
    assert harbor.clients == {}  # only a login registers

    shown = deep("login", "harbor").stdout
    assert opened[0] in shown.splitlines()
    assert urlsplit(opened[0]).path == f"{PRIVATE}/authorize"
    assert "Logged in to harbor: 7 tools" in shown
    [file] = (home / ".data").rglob("logins/*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 or sys.platform == "win32"
    first = kernel()
    assert call(first) == ["success: echo Oslo"]
    assert harbor.grants == ["authorization_code"]

    kept = json.loads(file.read_text())
    file.write_text(json.dumps({**kept, "expires": 1.0}))  # an hour later
    assert call(kernel()) == ["success: echo Oslo"]
    assert call(first) == ["success: echo Oslo"]  # its token is no good any more; it takes what the other has written
    assert harbor.grants == ["authorization_code", "refresh_token"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 or sys.platform == "win32"

    harbor.access, harbor.refresh = set(), set()  # revoked
    [failed] = call(kernel())
    assert failed.startswith("failed: ")
    assert "it asks for a login: deep mcp login harbor" in failed
    assert len(opened) == len(harbor.clients) == 1  # the agent opens no browser

    deep("login", "harbor")
    assert call(kernel()) == ["success: echo Oslo"]
    secret = json.loads(file.read_text())["tokens"]["access_token"]
    assert secret not in deep("list").stdout + deep("test").stdout


@pytest.mark.slow
def test_a_refused_login_and_a_server_without_one_are_said(
    deep: Deep, harbor: Harbor, opened: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    deep("add", "harbor", "--url", harbor.url)
    harbor.denies = True
    done = deep("login", "harbor", code=1)
    assert "the login was refused: the harbor master said no" in done.output
    assert "Traceback" not in caplog.text
    harbor.access = {""}  # it takes requests without a token
    assert "harbor needs no login: 7 tools" in deep("login", "harbor").output
    deep("add", "keyed", "--url", harbor.url, "--header", "Authorization=Bearer x")
    assert "keyed has a header Authorization" in deep("login", "keyed", code=2).output
    deep("add", "local", "--", "local-server")
    assert "local is a program" in deep("login", "local", code=2).output
