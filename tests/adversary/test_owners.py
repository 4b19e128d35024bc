"""The page of another folder, and whatever else reaches `deep web`: every endpoint is closed to it."""

# ruff: noqa: E501
from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from deep_sessions import Commit, Lease, LeaseLost, SessionNotFound, SessionStore, open_store

from tests.postgresql import Cluster, cluster


@dataclass
class Server:
    """A `deep web` of a folder."""

    port: int
    token: str
    process: subprocess.Popen[str]
    errors: Path

    def ask(self, method: str, path: str, body: object = None, token: str | None = None) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {self.token if token is None else token}"}
        headers["Content-Type"] = "application/json"
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            with connection.getresponse() as answer:
                return answer.status, answer.read().decode()


def _start(home: Path, folder: Path) -> Server:
    folder.mkdir()
    errors = home / f"{folder.name}.txt"
    command = [sys.executable, "-m", "deep_cli", "web", "--no-browser", "--port", "0", "-m", "demo:echo"]
    env = {"PATH": os.environ["PATH"], "HOME": str(home)}
    with errors.open("w") as stderr:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=stderr, text=True, env=env)
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    return Server(int(address.split(":")[2].split("/")[0]), address.partition("token=")[2], process, errors)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server, str]]:
    """Two servers on one store, and a session of the second."""
    home = tmp_path_factory.mktemp("home")
    one, other = _start(home, home / "one"), _start(home, home / "other")
    try:
        session = json.loads(other.ask("POST", "/api/sessions", {})[1])["id"]
        yield one, other, session
    finally:
        for server in (one, other):
            server.process.terminate()
            server.process.communicate(timeout=60)


AG_UI: dict[str, object] = {
    "threadId": "x",
    "runId": "r",
    "state": {},
    "tools": [],
    "context": [],
    "forwardedProps": {},
}
AG_UI["messages"] = [{"id": "m", "role": "user", "content": "hello"}]
VERCEL = {"id": "x", "trigger": "submit-message", "messages": [{"id": "m", "role": "user", "parts": []}]}
ENDPOINTS = [
    ("GET", "/api/sessions/{}", None),
    ("PATCH", "/api/sessions/{}", {"title": "taken"}),
    ("DELETE", "/api/sessions/{}", None),
    ("POST", "/api/sessions/{}/fork", {}),
    ("POST", "/api/sessions/{}/messages", {"id": "message-0001", "text": "hello"}),
    ("POST", "/api/sessions/{}/decisions", {"approval": "x", "verdicts": {}}),
    ("POST", "/api/sessions/{}/stop", {}),
    ("POST", "/api/sessions/{}/resume", {}),
    ("POST", "/api/sessions/{}/retry", {}),
    ("POST", "/api/sessions/{}/uploads?name=x", {}),
    ("GET", "/api/sessions/{}/files", None),
    ("GET", "/api/sessions/{}/files/x", None),
    ("GET", "/api/sessions/{}/calls/a/b", None),
    ("GET", "/vercel/{}/stream", None),
    ("POST", "/api/sessions/{}/mode", {"mode": "accept-edits"}),
    ("DELETE", "/api/sessions/{}/rules", None),
    ("POST", "/api/sessions/{}/compact", {}),
    ("GET", "/api/sessions/{}/commands", None),
    ("POST", "/api/sessions/{}/commands/x/stop", {}),
    ("POST", "/api/sessions/{}/commands/x/keep", {}),
    ("POST", "/ag-ui/{}", AG_UI),
    ("POST", "/vercel/{}", VERCEL),
    # Other spellings of an address.
    ("HEAD", "/api/sessions/{}", None),
    ("GET", "/api/sessions/{}%00", None),
    ("GET", "/api/sessions/{}%20", None),
    ("GET", "/api/sessions/{}?owner=", None),
    ("GET", "/api/sessions/{}/calls/..%2f..", None),
    ("GET", "/api/sessions/{}/files/..%2f..%2fother%2fx", None),
]


def test_every_address_of_a_session_is_attacked() -> None:
    from deep_web.api import routes
    from deep_web.protocols import protocol_routes

    attacked = {(method, path.partition("?")[0].replace("{}", "{session_id}")) for method, path, _ in ENDPOINTS}
    for route in (*routes(), *protocol_routes()):
        if "{session_id}" in route.path:
            own = re.compile(re.sub(r"\{(?!session_id)[^}]*\}", "[^ ]+", route.path))
            for method in {*(route.methods or ())} - {"HEAD"}:
                assert any(each == method and own.fullmatch(path) for each, path in attacked), (method, route.path)


@pytest.mark.parametrize(("method", "path", "body"), ENDPOINTS)
def test_the_page_of_another_folder_has_no_endpoint(
    servers: tuple[Server, Server, str], method: str, path: str, body: object
) -> None:
    one, other, session = servers
    assert one.ask(method, path.format(session), body)[0] == 404
    assert one.ask(method, path.format(session), body, token="x" * 43)[0] == 401
    assert session not in one.ask("GET", "/api/sessions")[1]
    title = json.loads(other.ask("GET", f"/api/sessions/{session}")[1])["title"]
    assert title != "taken"


HOSTS = (
    "[::1", "::1]", "[", "]", "[]", "localhost:", "localhost:x", "localhost:99999999", "evil@localhost", "localhost/evil",
    "localhost?x", "localhost#x", "evil.example", "127.0.0.1.evil.example", "local host", "", "localhost, evil", "[::1]evil",
    "\u00e9", "localhost\\evil", "[fe80::1%eth0]", "0x7f.1",
    "::1", "[::1]:", "[::1]:x", "[::1]x:80", "[::1]:80:80", "[::1%25lo]", "[::ffff:127.0.0.1]", "[0:0:0:0:0:0:0:1]", "[v1.x]",
    "localhost:-1", "localhost:+80", "localhost:0x50", "localhost: 80", "localhost:\u0661", "user@localhost", "user:pw@127.0.0.1",
    "@localhost", "127.0.0.1@evil.example", "localhost%00", "localhost%2eevil.example", "%6cocalhost", "loc\u00e1lhost",
    "\uff4c\uff4f\uff43\uff41\uff4chost", "\u24db\u24de\u24d2\u24d0\u24dbhost", "xn--localhost", "localhost.", "127.1", "2130706433",
    "0177.0.0.1", "0.0.0.0", "localhost;evil", '"localhost"', "localhost\x00", "localhost\x0b", "localhost\x7f", "a" * 70_000,
    "http://localhost", "//localhost", "..", "-", "*", "\t", "localhost\thost",
)  # fmt: skip


def _raw(server: Server, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), 60) as client:
        client.sendall(request)
        return client.recv(65_536).split(b"\r\n")[0]


@pytest.mark.parametrize("host", HOSTS)
def test_a_malformed_or_foreign_host_is_a_bad_request(servers: tuple[Server, Server, str], host: str) -> None:
    one, _, _ = servers
    request = f"GET /api/sessions HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
    assert b" 400 " in _raw(one, request)
    assert "Error" not in one.errors.read_text()


REQUESTS = {
    "no host": "GET / HTTP/1.1",
    "no host in 1.0": "GET / HTTP/1.0",
    "ours, then another": "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example",
    "another, then ours": "GET / HTTP/1.1\r\nHost: evil.example\r\nHost: 127.0.0.1",
    "ours twice": "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nhost: 127.0.0.1",
    "ours in the address": "GET http://127.0.0.1/ HTTP/1.1\r\nHost: evil.example",
    "another in the address": "GET http://evil.example/ HTTP/1.1\r\nHost: 127.0.0.1",
    "a malformed address": "GET http://[::1/ HTTP/1.1\r\nHost: 127.0.0.1",
    "a proxy": "CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443",
    "an asterisk": "OPTIONS * HTTP/1.1\r\nHost: evil.example",
    "a blank before the colon": "GET / HTTP/1.1\r\nHost : 127.0.0.1",
    "two lines": "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n :80",
    "forwarded": "GET / HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: 127.0.0.1\r\nForwarded: host=127.0.0.1",
    "another name": "GET / HTTP/1.1\r\nH\u00f6st: 127.0.0.1",
}


@pytest.mark.parametrize("request_", REQUESTS)
def test_no_other_way_names_the_host(servers: tuple[Server, Server, str], request_: str) -> None:
    one, _, _ = servers
    answer = _raw(one, f"{REQUESTS[request_]}\r\nConnection: close\r\n\r\n".encode())
    assert b" 400 " in answer or b" 404 " in answer
    assert "Error" not in one.errors.read_text()


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://[::1", "http://127.0.0.1", "x"])
def test_a_page_of_another_site_changes_nothing(servers: tuple[Server, Server, str], origin: str) -> None:
    one, _, _ = servers
    head = f"POST /api/sessions HTTP/1.1\r\nHost: 127.0.0.1:{one.port}\r\nOrigin: {origin}\r\nContent-Length: 0\r\n"
    assert b" 403 " in _raw(one, f"{head}Authorization: Bearer {one.token}\r\nConnection: close\r\n\r\n".encode())


def test_connections_that_ask_nothing_are_bounded(servers: tuple[Server, Server, str]) -> None:
    one, _, _ = servers
    half = [socket.create_connection(("127.0.0.1", one.port), 60) for _ in range(150)]
    try:
        half[-1].sendall(b"GET / HTT")
        assert one.ask("GET", "/api/sessions")[0] == 200
        half[0].settimeout(60)
        began = time.monotonic()
        with contextlib.suppress(ConnectionResetError):
            assert half[0].recv(1) == b""  # the oldest ended, as there were too many
        assert time.monotonic() - began < 60
    finally:
        for each in half:
            each.close()


def test_a_code_for_the_browser_admits_once() -> None:
    from deep_web.guard import Owners
    from starlette.requests import Request

    def asked(query: str) -> Request:
        return Request({
            "type": "http", "method": "GET", "path": "/", "headers": [], "query_string": query.encode(), "scheme": "http",
            "server": ("127.0.0.1", 80), "root_path": "",
        })  # fmt: skip

    owners = Owners("t" * 43)
    assert owners.admit(asked("code=")) is None
    code = owners.new_code()
    assert owners.admit(asked(f"code={code}x")) is None
    assert owners.admit(asked(f"code={code}")) is not None
    assert owners.admit(asked(f"code={code}")) is None
    assert owners.admit(asked("token=" + "t" * 43)) is not None


# -- the store itself --------------------------------------------------------------------------------------------------

CALLS: dict[str, Callable[[SessionStore, Lease], Awaitable[object]]] = {
    "info": lambda store, lease: store.info("s"),
    "load": lambda store, lease: store.load("s"),
    "entries": lambda store, lease: store.entries("s"),
    "mail": lambda store, lease: store.mail("s"),
    "acquire": lambda store, lease: store.acquire("s"),
    "acquire an old one": lambda store, lease: store.acquire("s", create=False),
    "renew": lambda store, lease: store.renew(lease),
    "commit": lambda store, lease: store.commit(lease, Commit([])),
    "post": lambda store, lease: store.post("s", "prompt", b"{}"),
    "decide": lambda store, lease: store.decide("s", 0, {"c": b"{}"}),
    "delete": lambda store, lease: store.delete("s"),
}


@pytest.fixture(scope="module")
def postgresql() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgresql", marks=pytest.mark.needs("PostgreSQL"))])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store of each kind."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgresql").create_database()
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/x.db"


@pytest.mark.parametrize("call", CALLS)
def test_a_store_does_nothing_with_a_session_of_another_owner(url: str, call: str) -> None:
    async def attack() -> None:
        store = open_store(url)
        one, other = store.for_owner("one"), store.for_owner("other")
        try:
            lease = await one.acquire("s")
            with pytest.raises((SessionNotFound, LeaseLost)):
                await CALLS[call](other, lease)
            assert await other.list() == []
            await other.adopt("s")
            await other.adopt("", begins=True)
            assert (await store.info("s")).owner == "one"
            await one.release(lease)
            with pytest.raises(SessionNotFound):
                await other.info("s")
        finally:
            await store.aclose()

    asyncio.run(attack())


def test_a_view_adopts_what_has_no_owner_and_nothing_else(url: str) -> None:
    async def adopt() -> None:
        store = open_store(url)
        one, other = store.for_owner("one"), store.for_owner("other")
        try:
            for session in ("a.1", "a.2", "a_3", "b.1", "%"):
                await store.release(await store.acquire(session))
            await other.release(await other.acquire("a.4"))
            await one.adopt("a.", begins=True)
            assert {info.id for info in await one.list()} == {"a.1", "a.2"}
            await one.adopt("a.4")
            await one.adopt("a.", begins=True)
            await one.adopt("%", begins=True)
            await one.adopt("nothing")
            assert {info.id for info in await one.list()} == {"a.1", "a.2", "%"}
            await store.adopt("b.1")  # a store that is no view owns nothing
            assert {info.id: info.owner for info in await store.list()} == {
                "a.1": "one", "a.2": "one", "%": "one", "a.4": "other", "a_3": None, "b.1": None,
            }  # fmt: skip
            await one.release(await one.acquire("a.1"))
            with pytest.raises(SessionNotFound):
                await other.acquire("a.1", create=False)
        finally:
            await store.aclose()

    asyncio.run(adopt())


@pytest.mark.slow
def test_deep_run_in_another_folder_does_not_continue_a_session(tmp_path: Path) -> None:
    one, other, home = tmp_path / "one", tmp_path / "other", tmp_path / "home"
    for folder in (one, other, home):
        folder.mkdir()

    def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "deep_cli", *words, "--store", f"sqlite:///{tmp_path}/x.db"]
        env = {"PATH": os.environ["PATH"], "HOME": str(home)}
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env, timeout=120, check=False)

    model = ("-m", "demo:echo")
    assert run(one, "run", "--session", "s", *model, "private words").returncode == 0
    refused = run(other, "run", "--session", "s", *model, "and now?")
    assert refused.returncode != 0
    assert "private words" not in refused.stdout + refused.stderr
    assert "cd there" in refused.stderr
    assert "and now" in run(one, "run", "--session", "s", *model, "and now?").stdout
