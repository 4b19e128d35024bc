"""Users and pages for tests of servers: what a page does, over real sockets, and without a browser."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from deep_sessions import FolderSettings
from deep_web import create_app
from deep_web.folder import FolderSite, open_folder
from pydantic_ai.models import Model
from starlette.applications import Starlette
from websockets.asyncio.client import ClientConnection, connect

from plugins.web.tests.served import CONFIG, TOKEN, Scripted

__all__ = ["SECONDS", "Json", "Page", "Running", "User", "hosting", "working"]

Json = dict[str, Any]
SECONDS = 60
"""A test that hangs is stopped by this; none waits for it."""
ENDS = ("run_ended", "approvals_asked", "run_interrupted")


class Page:
    """One page that watches a session: it keeps what the server tells.

    Attributes:
        messages: all messages, in order.
        events: the events among them, by their numbers.
        state: the last state.
        boot: the server's.
    """

    def __init__(self, user: User, session_id: str, connection: ClientConnection) -> None:
        self._user = user
        self.id = session_id
        self.connection = connection
        self.messages: list[Json] = []
        self.events: list[Json] = []
        self.state: Json = {}
        self.boot = ""

    # -- what it hears -------------------------------------------------------------------------------------------------

    async def next(self) -> Json:
        """The next message, taken into account."""
        async with asyncio.timeout(SECONDS):
            message: Json = json.loads(await self.connection.recv())
        self.messages.append(message)
        match message["type"]:
            case "hello":
                self.boot = message["boot"]
            case "event":
                assert not self.events or message["n"] > self.events[-1]["n"], (self.events[-1], message)
                self.events.append(message)
            case "state":
                self.state = message
            case _:
                pass
        return message

    async def until(self, condition: Callable[[Json], bool]) -> Json:
        """Messages up to the first one of which this holds."""
        while not condition(message := await self.next()):
            pass
        return message

    async def reaches(self, status: str) -> Json:
        """Until the session has this status: the state then."""
        while self.state.get("status") != status:
            await self.next()
        return self.state

    async def hears(self, text: str) -> None:
        """Until the answer that is being written is this text."""
        while self.writing != text:
            await self.next()

    async def settled(self, run_id: str | None = None) -> Json:
        """Until the next end of a run, of this one if it is named, or question: the state then."""
        await self.until(
            lambda message: (
                message.get("kind") in ENDS and not message.get("path") and run_id in (None, message.get("run_id"))
            )
        )
        await self.until(lambda message: message["type"] == "state" and message["status"] != "running")
        return self.state

    # -- what it shows -------------------------------------------------------------------------------------------------

    @property
    def texts(self) -> list[tuple[str, str]]:
        """What the agent and the user said: (`user` or `assistant`, text)."""
        said: list[tuple[str, str]] = []
        for event in self.events:
            if event["kind"] == "run_started" and event.get("attempt", 1) == 1:
                said.append(("user", event.get("text", "")))
            elif event["kind"] == "message_added" and not event.get("path"):
                said.append((event["role"], event["text"]))
        return said

    @property
    def last(self) -> str:
        """What the agent said last."""
        return [text for role, text in self.texts if role == "assistant"][-1]

    @property
    def writing(self) -> str:
        """What the agent is writing."""
        pieces: list[str] = []
        for event in self.events:
            if event["kind"] == "text_added":
                pieces.append(event["text"])
            elif event["kind"] in ("message_added", "run_started"):
                pieces.clear()
        return "".join(pieces)

    @property
    def ended(self) -> Json:
        """The end of the last run."""
        return [event for event in self.events if event["kind"] == "run_ended"][-1]

    def tools(self, path: bool = False) -> list[tuple[str, str]]:
        """Each call in order, with its outcome, or `running`."""
        calls: dict[tuple[str, str], tuple[str, str]] = {}
        for event in self.events:
            key = (event.get("path", ""), event.get("call_id", ""))
            if event["kind"] == "tool_started" and key[0] and key in calls:
                continue  # a subagent that waited tells its calls again
            if event["kind"] == "tool_started":
                calls[key] = (event["tool"], "running")
            elif event["kind"] == "tool_ended":
                calls[key] = (event["tool"], event["outcome"])
        return [call for (where, _), call in calls.items() if path or not where]

    def result(self, tool: str) -> str:
        """The result of the last call of a tool."""
        return [e for e in self.events if e["kind"] == "tool_ended" and e["tool"] == tool][-1]["result"]

    @property
    def questions(self) -> list[Json]:
        """What waits for an answer."""
        return self.state["approval"]["questions"]

    # -- what it does --------------------------------------------------------------------------------------------------

    async def send(self, text: str, **more: Any) -> httpx.Response:
        return await self._user.send(self.id, text, **more)

    async def ask(self, text: str, **more: Any) -> Json:
        message_id = more.pop("id", None) or secrets.token_hex(8)
        response = await self.send(text, id=message_id, **more)
        assert response.status_code == 202, response.text
        return await self.settled(message_id)

    async def decide(self, verdicts: Json, approval: str | None = None) -> httpx.Response:
        body = {"approval": approval or self.state["approval"]["id"], "verdicts": verdicts}
        return await self._user.http.post(f"/api/sessions/{self.id}/decisions", json=body)

    async def answer(self, **verdict: Any) -> Json:
        """Answer all that waits alike, as `approve=True`."""
        response = await self.decide({question["path"]: verdict for question in self.questions})
        assert response.status_code == 202, response.text
        return await self.settled()

    async def do(self, what: str) -> httpx.Response:
        """`stop`, `resume`, `retry` or `compact`."""
        return await self._user.http.post(f"/api/sessions/{self.id}/{what}")


class User:
    """One browser: a cookie jar of its own, or a token."""

    def __init__(self, base: str, headers: Json | None = None) -> None:
        self.http = httpx.AsyncClient(base_url=base, trust_env=False, timeout=SECONDS, headers=headers)
        self._sockets = base.replace("http", "ws", 1)
        self._headers = headers or {}

    async def create(self) -> str:
        response = await self.http.post("/api/sessions")
        assert response.status_code == 201, response.text
        return response.json()["id"]

    async def send(self, session_id: str, text: str, **more: Any) -> httpx.Response:
        body = {"id": secrets.token_hex(8), "text": text, **more}
        return await self.http.post(f"/api/sessions/{session_id}/messages", json=body)

    @contextlib.asynccontextmanager
    async def connection(self, session_id: str, after: int = 0, **headers: str) -> AsyncGenerator[ClientConnection]:
        """A socket of a session."""
        cookies = "; ".join(f"{name}={value}" for name, value in self.http.cookies.items())
        given = {**self._headers, **({"Cookie": cookies} if cookies else {}), **headers}
        url = f"{self._sockets}/api/sessions/{session_id}/socket?after={after}"
        async with connect(url, additional_headers=given, proxy=None, max_size=None) as connection:
            yield connection

    @contextlib.asynccontextmanager
    async def page(self, session_id: str, after: int = 0) -> AsyncGenerator[Page]:
        """A page of a session that has shown all there is."""
        async with self.connection(session_id, after) as connection:
            page = Page(self, session_id, connection)
            await page.until(lambda message: message["type"] == "state")
            yield page

    async def upload(self, session_id: str, name: str, data: Any) -> httpx.Response:
        return await self.http.post(f"/api/sessions/{session_id}/uploads", params={"name": name}, content=data)

    async def files(self, session_id: str) -> list[str]:
        found = (await self.http.get(f"/api/sessions/{session_id}/files")).json()
        return [file["path"] for file in found["files"]]

    async def listed(self) -> list[Json]:
        return (await self.http.get("/api/sessions")).json()


@contextlib.asynccontextmanager
async def hosting(app: Starlette) -> AsyncGenerator[str]:
    """Serve an application on a free port of this machine, in this event loop; yield its address."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        # A busy machine leaves a connection idle for longer than uvicorn's five seconds, and a client that writes to
        # one while it is being closed sees a broken read; a browser would ask again, httpx does not.
        config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1, timeout_keep_alive=SECONDS)
        server = uvicorn.Server(config)
        serve = asyncio.create_task(server.serve([listening]))
        async with asyncio.timeout(SECONDS):
            while not server.started:
                assert not serve.done(), serve.exception()
                await asyncio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serve


class Running:
    """The application of `deep web`, and the person who has its token."""

    def __init__(self, base: str, site: FolderSite, stack: contextlib.AsyncExitStack) -> None:
        self.base = base
        self.site = site
        self.folder = Path(site.folder)
        self._stack = stack

    async def user(self) -> User:
        user = User(self.base, {"Authorization": f"Bearer {TOKEN}"})
        await self._stack.enter_async_context(user.http)
        return user

    @contextlib.asynccontextmanager
    async def page(self) -> AsyncGenerator[Page]:
        """A page of a new session."""
        user = await self.user()
        async with user.page(await user.create()) as page:
            yield page


@contextlib.asynccontextmanager
async def working(
    root: Path,
    model: Model | None = None,
    *,
    plugins: Sequence[Any] = (),
    config: str = CONFIG,
    store: str = "",
    **app: Any,
) -> AsyncGenerator[Running]:
    """Serve the folder `root/project` in this event loop. The same root serves the same sessions again."""
    folder = root / "project"
    folder.mkdir(parents=True, exist_ok=True)
    (root / "deep.toml").write_text(config, encoding="utf-8")
    models = Scripted(None if model is None else lambda model_id: model)
    settings = FolderSettings(
        model="script:one",
        backend="local",
        config=root / "deep.toml",
        store=store or f"sqlite:///{root / 'sessions.db'}",
        plugins=[models, *plugins],
    )
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(contextlib.chdir(folder))
        site = await stack.enter_async_context(open_folder(str(folder.resolve()), settings))
        options: Json = {"token": TOKEN, "show_errors": True, **app}
        made = create_app(lambda: contextlib.nullcontext(site), **options)
        base = await stack.enter_async_context(hosting(made))
        yield Running(base, site, stack)
