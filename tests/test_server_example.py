"""examples/server over real sockets, without a browser: owners, limits, approvals, disconnects, restarts, many at once.

Only the model is scripted. The page itself is tested in test_server_browser.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from deep_backends import local_backend
from pydantic_ai import DeferredToolRequests, FunctionToolset
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from starlette.requests import HTTPConnection
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from deep_core import Kernel, hookimpl
from examples.server import app as app_module
from examples.server.app import create_app
from examples.server.approvals import approval_of
from examples.server.owners import Newcomers, address_of
from examples.server.scripted import scripted_model, turn
from examples.server.settings import Settings
from tests.drawn import many
from tests.postgresql import cluster
from tests.server_process import Server

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]
Event = dict[str, Any]
INCIDENT = r"The server's log has the cause: incident ([0-9a-f]{8})\."
SECONDS = 60
"""A test that hangs is stopped by this; none waits for it."""


# -- the server and its users ----------------------------------------------------------------------------------------


class Page:
    """One page of one user that watches a session: it keeps what the server tells, as the real one does."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.events: list[Event] = []
        self.items: list[Event] = []
        self.state: Event = {}

    async def next(self) -> Event:
        """The next event, taken into account."""
        async with asyncio.timeout(SECONDS):
            event: Event = json.loads(await self.connection.recv())
        self.events.append(event)
        match event:
            case {"type": "snapshot"}:
                self.items, self.state = event["items"], event
            case {"type": "item", "index": index, "item": item}:
                self.items[index : index + 1] = [item]
            case {"type": "delta", "index": index, "text": text}:
                self.items[index]["text"] += text
            case {"type": "state"}:
                self.state = self.state | event
            case _:
                pass
        return event

    async def until(self, condition: Callable[[Event], bool]) -> Event:
        """Events up to the first one of which this holds."""
        while not condition(event := await self.next()):
            pass
        return event

    async def say(self, **message: Any) -> None:
        await self.connection.send(json.dumps(message))

    async def refused(self) -> tuple[str, str]:
        event = await self.until(lambda event: event["type"] == "refused")
        return event["code"], event["text"]

    async def settled(self) -> Event:
        """Until the run is over: the page's state then."""
        await self.until(lambda event: event["type"] == "state" and not event["running"])
        return self.state

    async def ask(self, text: str) -> Event:
        await self.say(type="message", text=text)
        return await self.settled()

    async def answer(self, **verdicts: Any) -> Event:
        """Answer what waits: all calls alike (`approve=True`), or each by the tool's name."""
        asked = self.state["approval"]
        said = {question["path"]: verdicts.get(question["tool"], verdicts) for question in asked["questions"]}
        await self.say(type="decide", approval=asked["id"], verdicts=said)
        return await self.settled()

    @property
    def last(self) -> str:
        return self.items[-1]["text"]

    def tools(self) -> list[tuple[str, str]]:
        return [(item["tool"], item["state"]) for item in self.items if item["kind"] == "tool"]


class User:
    """One browser: a cookie jar of its own."""

    def __init__(self, base: str) -> None:
        self.http = httpx.AsyncClient(base_url=base, trust_env=False, timeout=SECONDS)
        self.socket_base = base.replace("http", "ws", 1)

    async def create(self) -> str:
        response = await self.http.post("/api/sessions")
        assert response.status_code == 201, response.text
        return response.json()["id"]

    @contextlib.asynccontextmanager
    async def page(self, session_id: str, **headers: str) -> AsyncGenerator[Page, None]:
        cookie = "; ".join(f"{name}={value}" for name, value in self.http.cookies.items())
        url = f"{self.socket_base}/api/sessions/{session_id}/socket"
        given = {"Cookie": cookie} | headers
        async with connect(url, additional_headers=given, proxy=None, max_size=None) as connection:
            page = Page(connection)
            await page.next()
            yield page

    async def upload(self, session_id: str, name: str, data: Any) -> httpx.Response:
        return await self.http.post(f"/api/sessions/{session_id}/uploads", params={"name": name}, content=data)

    async def files(self, session_id: str) -> list[str]:
        found = (await self.http.get(f"/api/sessions/{session_id}/files")).json()
        return [file["path"] for file in found["files"]]


class Running:
    """A server that runs, and the users that a test makes."""

    def __init__(self, base: str, app: Any, users: contextlib.AsyncExitStack) -> None:
        self.base = base
        self.app = app
        self._users = users

    async def user(self) -> User:
        user = User(self.base)
        await self._users.enter_async_context(user.http)
        return user


@contextlib.asynccontextmanager
async def serving(data: Path, model: Model | None = None, **settings: Any) -> AsyncGenerator[Running, None]:
    """The application on a free port of this machine, in this event loop."""
    app = create_app(Settings(data=data, **settings), model or scripted_model(pause=0))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        # A busy machine leaves a connection idle for longer than uvicorn's five seconds, and a client that writes to
        # one while it is being closed sees a broken read; a browser would ask again, httpx does not.
        config = uvicorn.Config(
            app, log_level="error", ws_max_size=256 * 1024, timeout_graceful_shutdown=1, timeout_keep_alive=SECONDS
        )
        server = uvicorn.Server(config)
        serve = asyncio.create_task(server.serve([listening]))
        async with asyncio.timeout(SECONDS):
            while not server.started:
                assert not serve.done(), serve.exception()
                await asyncio.sleep(0.01)
        try:
            async with contextlib.AsyncExitStack() as users:
                yield Running(f"http://127.0.0.1:{listening.getsockname()[1]}", app, users)
        finally:
            server.should_exit = True
            await serve


class Gate:
    """A model that, told `hold …`, says one word and then waits until the test lets it go on."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.requests = 0
        plain = scripted_model(pause=0)

        async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
            self.requests += 1
            prompt, _, _ = turn(messages)
            if prompt.startswith("hold"):
                yield "holding "
                await self.go_on.wait()
                yield prompt.removeprefix("hold ")
            elif prompt == "fail":
                raise ConnectionError("the provider is away")
            else:
                assert plain.stream_function is not None
                async for part in plain.stream_function(messages, info):
                    yield part  # pyright: ignore

        def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            return ModelResponse([TextPart("a subagent's answer")])

        self.model = FunctionModel(answer, stream_function=stream, model_name="gate")


# -- a conversation --------------------------------------------------------------------------------------------------


async def test_text_is_streamed_and_stays_in_the_history(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        user = await running.user()
        session_id = await user.create()
        async with user.page(session_id) as page:
            assert page.items == []
            state = await page.ask("say one two three")
            deltas = [event["text"] for event in page.events if event["type"] == "delta"]
            assert deltas == ["two ", "three"]
            assert page.last == "one two three"
            assert state["title"] == "say one two three"
        history = (await user.http.get(f"/api/sessions/{session_id}")).json()
        assert [(item["kind"], item["text"]) for item in history["items"]] == [
            ("user", "say one two three"),
            ("assistant", "one two three"),
        ]
        (listed,) = (await user.http.get("/api/sessions")).json()
        assert (listed["id"], listed["title"]) == (session_id, "say one two three")


async def test_todos_and_tool_calls_are_shown(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        user = await running.user()
        async with user.page(await user.create()) as page:
            state = await page.ask("plan buy milk, bake bread")
            assert state["todos"] == [
                {"content": "buy milk", "status": "in_progress"},
                {"content": "bake bread", "status": "pending"},
            ]
            assert page.tools() == [("write_todos", "success")]
            assert "bake bread" in page.items[1]["args"]


async def test_a_write_asks_with_its_diff_and_a_denial_with_its_reason_reaches_the_model(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        user = await running.user()
        session_id = await user.create()
        written = tmp_path / "workspaces" / session_id / "notes.txt"
        async with user.page(session_id) as page:
            asked = (await page.ask("write notes.txt: red"))["approval"]
            (question,) = asked["questions"]
            assert (question["tool"], question["args"]) == ("write_file", {"path": "notes.txt", "content": "red\n"})
            assert question["diff"].splitlines() == [
                "--- notes.txt (now)",
                "+++ notes.txt (after)",
                "@@ -0,0 +1 @@",
                "+red",
            ]
            assert page.tools() == [("write_file", "waiting")]
            state = await page.answer(approve=False, reason="say please")
            assert state["approval"] is None
            assert not written.exists()
            assert page.tools() == [("write_file", "denied")]
            assert "say please" in page.last
            await page.ask("write notes.txt: red")
            await page.answer(approve=True)
            assert written.read_text() == "red\n"
            (question,) = (await page.ask("edit notes.txt: red -> blue"))["approval"]["questions"]
            assert question["diff"].splitlines()[3:] == ["-red", "+blue"]
            await page.answer(approve=True)
            assert written.read_text() == "blue\n"
            assert page.tools()[-2:] == [("read_file", "success"), ("edit_file", "success")]


@pytest.mark.parametrize(
    ("now", "wanted", "told"),
    [
        ("red\n", "red", ["-red", "+red", "\\ no newline at the end"]),
        ("red", "red\n", ["-red", "\\ no newline at the end", "+red"]),
        ("a\nb\n", "a\u2028b\n", ["-a", "-b", "+a\u2028b"]),
        ("red\r\nblue\r\n", "red\ngreen\n", [" red", "-blue", "+green"]),  # the tool keeps CRLF
    ],
)
async def test_a_diff_hides_no_change_and_makes_none_up(tmp_path: Path, now: str, wanted: str, told: list[str]) -> None:
    (tmp_path / "notes.txt").write_bytes(now.encode())
    call = ToolCallPart("write_file", {"path": "notes.txt", "content": wanted})
    asked = await approval_of(DeferredToolRequests(approvals=[call]), local_backend(tmp_path))
    assert (asked["questions"][0]["diff"] or "").split("\n")[3:] == told


EDIT = ("old_string", "new_string", "replace_all")


@pytest.mark.parametrize(
    ("args", "pictured"),
    [
        ({"content": "b\n"}, {"path", "content"}),
        (
            {"old_string": "a", "new_string": "b", "replace_all": True},
            {"path", "old_string", "new_string", "replace_all"},
        ),
        ({"content": "b\n", "command": "id", "sudo": True, "replace_all": True}, {"path", "content"}),
        ({"content": "b\r\n"}, {"path"}),
        ({"content": "\ufeffb\n"}, {"path"}),
        ({"old_string": "a", "new_string": "b", "replace_all": "no"}, {"path", *EDIT} - {"replace_all"}),
        ({"content": "a\n"}, set[str]()),  # no line differs
        ({"command": "id"}, set[str]()),
    ],
)
async def test_a_diff_claims_only_the_arguments_that_it_shows(
    tmp_path: Path, args: dict[str, Any], pictured: set[str]
) -> None:
    (tmp_path / "f").write_text("a\n")
    requests = DeferredToolRequests(approvals=[ToolCallPart("deploy", {"path": "f", **args}, "c1")])
    (question,) = (await approval_of(requests, local_backend(tmp_path)))["questions"]
    assert set(question["pictured"]) == pictured


MANY = [f"{n % 150}\n" for n in range(24_000)]
"""`difflib` would compare four million pairs of equal lines."""


@pytest.mark.parametrize(
    ("now", "args"),
    [
        ("".join(MANY), {"content": "".join(MANY[1:])}),
        ("a" * 100_000, {"old_string": "a", "new_string": "b" * 100_000, "replace_all": True}),  # 10 GB
    ],
)
async def test_a_diff_that_would_take_long_or_much_is_not_drawn(tmp_path: Path, now: str, args: dict[str, Any]) -> None:
    (tmp_path / "f").write_text(now)
    requests = DeferredToolRequests(approvals=[ToolCallPart("write_file", {"path": "f", **args}, "c1")])
    (question,) = (await approval_of(requests, local_backend(tmp_path)))["questions"]
    assert (question["diff"], question["pictured"]) == (None, [])


async def test_a_subagents_call_asks_too_and_can_be_decided_on_its_own(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        user = await running.user()
        session_id = await user.create()
        written = tmp_path / "workspaces" / session_id / "notes.txt"
        async with user.page(session_id) as page:
            (question,) = (await page.ask("helper: write notes.txt: from below"))["approval"]["questions"]
            assert (question["tool"], question["subagent"]) == ("write_file", "general-purpose")
            assert question["path"].count("/") == 1
            assert "+from below" in question["diff"]
            await page.answer(approve=False, reason="not from you")
            assert not written.exists()
            assert "not from you" in page.last
            await page.ask("helper: write notes.txt: from below")
            await page.answer(approve=True)
            assert written.read_text() == "from below\n"
            assert [(item["tool"], item["depth"], item["state"]) for item in page.items if item["kind"] == "tool"] == [
                ("task", 0, "success"),
                ("write_file", 1, "denied"),
                ("task", 0, "success"),
                ("write_file", 1, "success"),
            ]


async def test_a_question_is_a_choice_that_is_answered_once_also_from_a_subagent(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        user = await running.user()
        session_id = await user.create()
        async with user.page(session_id) as page:
            for who in ("", "helper: "):
                asked = (await page.ask(f"{who}ask Which color?: red, blue"))["approval"]
                (question,) = asked["questions"]
                assert question["choice"] == {"text": "Which color?", "options": ["red", "blue"]}
                assert question["subagent"] == ("general-purpose" if who else None)
                await page.say(type="decide", approval=asked["id"], verdicts={question["path"]: {"approve": True}})
                assert (await page.refused())[0] == "stale"  # a question is not approved
                answer = {question["path"]: {"answer": "green"}}
                await page.say(type="decide", approval=asked["id"], verdicts=answer)
                await page.settled()
                await page.say(type="decide", approval=asked["id"], verdicts=answer)
                assert (await page.refused())[0] == "busy"
                assert "The last tool answered:\n```\n" in page.last
                assert "green" in page.last
            assert {state for _, state in page.tools()} == {"success"}


async def test_commands_are_offered_only_to_whom_the_operator_says_and_then_they_ask(tmp_path: Path) -> None:
    async with serving(tmp_path / "closed") as running:
        user = await running.user()
        async with user.page(await user.create()) as page:
            assert "`execute`, which is not offered" in (await page.ask("run echo hello > made.txt") and page.last)
    async with serving(tmp_path / "open", execute=True) as running:
        user = await running.user()
        session_id = await user.create()
        async with user.page(session_id) as page:
            (question,) = (await page.ask("run echo hello > made.txt"))["approval"]["questions"]
            assert (question["args"]["command"], question["diff"]) == ("echo hello > made.txt", None)
            assert await user.files(session_id) == []
            await page.answer(approve=True)
            assert await user.files(session_id) == ["made.txt"]


async def test_an_open_approval_is_there_for_every_page_and_is_answered_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        user = await running.user()
        session_id = await user.create()
        async with user.page(session_id) as page:
            await page.ask("write notes.txt: red")
        async with user.page(session_id) as first, user.page(session_id) as second:
            approval = first.state["approval"]
            assert approval["questions"][0]["tool"] == "write_file"
            assert second.state["approval"] == approval
            await first.say(type="message", text="never mind")
            assert await first.refused() == ("busy", "A call waits for your answer: approve or deny it first.")
            path = approval["questions"][0]["path"]
            for verdicts in ({}, {"other": {"approve": True}}, {path: {"approve": True}, "more": {"approve": True}}):
                await first.say(type="decide", approval=approval["id"], verdicts=verdicts)
                assert (await first.refused())[0] == "stale"
            await first.answer(approve=True)
            await second.settled()
            assert second.tools() == first.tools() == [("write_file", "success")]
            assert second.items == first.items
            await second.say(type="decide", approval=approval["id"], verdicts={path: {"approve": True}})
            assert await second.refused() == ("busy", "This was answered already.")


# -- while it works --------------------------------------------------------------------------------------------------


async def test_a_second_message_is_refused_and_two_pages_see_the_same(tmp_path: Path) -> None:
    gate = Gate()
    async with serving(tmp_path, gate.model) as running:
        user = await running.user()
        session_id = await user.create()
        async with user.page(session_id) as first, user.page(session_id) as second:
            await first.say(type="message", text="hold the end")
            await second.until(lambda event: second.items[-1:] != [] and second.last == "holding ")
            await second.say(type="message", text="me too")
            assert await second.refused() == ("busy", "The agent is still working: wait for it, or stop it.")
            async with user.page(session_id) as third:
                assert third.state["running"] is True
                assert third.last == "holding "
                gate.go_on.set()
                for page in (first, second, third):
                    await page.settled()
                    assert page.last == "holding the end"
            assert first.items == second.items == third.items


async def test_a_run_goes_on_when_the_last_page_is_gone(tmp_path: Path) -> None:
    gate = Gate()
    async with serving(tmp_path, gate.model) as running:
        user = await running.user()
        session_id = await user.create()
        async with user.page(session_id) as page:
            await page.say(type="message", text="hold the end")
            await page.until(lambda event: page.items[-1:] != [] and page.last == "holding ")
            page.connection.transport.abort()  # as when a lid is closed
        gate.go_on.set()
        async with user.page(session_id) as page:
            if page.state["running"]:
                await page.settled()
            assert page.last == "holding the end"
        assert gate.requests == 1


async def test_a_run_can_be_stopped_and_the_conversation_goes_on(tmp_path: Path) -> None:
    gate = Gate()
    async with serving(tmp_path, gate.model) as running:
        user = await running.user()
        async with user.page(await user.create()) as page:
            await page.say(type="message", text="hold for ever")
            await page.until(lambda event: page.items[-1:] != [] and page.last == "holding ")
            await page.say(type="stop")
            await page.settled()
            assert [(item["kind"], item["text"]) for item in page.items] == [
                ("user", "hold for ever"),
                ("assistant", "holding "),
                ("note", "Stopped."),
            ]
            await page.say(type="stop")  # nothing to stop: nothing happens
            await page.ask("say still here")
            assert page.last == "still here"


async def test_a_failing_provider_is_told_and_the_conversation_goes_on(tmp_path: Path) -> None:
    gate = Gate()
    async with serving(tmp_path, gate.model) as running:
        user = await running.user()
        async with user.page(await user.create()) as page:
            await page.ask("fail")
            assert page.items[-1]["kind"] == "error"
            assert re.fullmatch(f"The run failed. {INCIDENT}", page.last)
            await page.ask("say still here")
            assert page.last == "still here"


MALFORMED = [
    "",
    "{",
    "[]",
    "null",
    '{"type": "message"}',
    '{"type": "message", "text": ""}',
    '{"type": "message", "text": 7}',
    json.dumps({"type": "message", "text": "x" * 20_001}),
    '{"type": "message", "text": "a", "more": 1}',
    '{"type": "dance"}',
    '{"type": "decide", "approval": "x", "verdicts": []}',
    '{"type": "decide", "approval": "x", "verdicts": {"a": {"approve": "perhaps"}}}',
    b"\x00\xff",
]


async def test_what_is_no_message_is_refused_and_the_page_stays(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        user = await running.user()
        async with user.page(await user.create()) as page:
            for message in MALFORMED:
                await page.connection.send(message)
                assert (await page.refused())[0] == "malformed", message
            await page.ask("say fine")
            assert page.last == "fine"


async def test_a_message_beyond_all_measure_ends_that_page_only(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        user = await running.user()
        session_id = await user.create()
        async with user.page(session_id) as other:
            async with user.page(session_id) as page:
                await page.connection.send("x" * 300_000)
                with pytest.raises(ConnectionClosed):
                    await page.refused()
            await other.ask("say fine")
            assert other.last == "fine"


# -- whose it is -----------------------------------------------------------------------------------------------------


async def test_another_users_session_is_not_there(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        ann, ben, nobody = [await running.user() for _ in range(3)]
        session_id = await ann.create()
        await ben.create()
        await ann.upload(session_id, "secret.txt", b"canary")
        unknown = "0" * 32
        for user in (ben, nobody):
            for place in (session_id, unknown):
                tried = [
                    await user.http.get(f"/api/sessions/{place}"),
                    await user.http.get(f"/api/sessions/{place}/files"),
                    await user.http.get(f"/api/sessions/{place}/files/uploads/secret.txt"),
                    await user.upload(place, "mine.txt", b"x"),
                ]
                told = {(response.status_code, response.text) for response in tried}
                assert told == {(404, '{"error":"There is no such session."}')}
                with pytest.raises(InvalidStatus) as refused:
                    async with user.page(place):
                        pass
                assert refused.value.response.status_code == 404
        assert await ann.files(session_id) == ["uploads/secret.txt"]
        assert [row["id"] for row in (await ann.http.get("/api/sessions")).json()] == [session_id]
        assert session_id not in (await ben.http.get("/api/sessions")).text
        assert (await nobody.http.get("/api/sessions")).json() == []


async def test_the_token_is_out_of_reach_of_scripts_and_of_the_database(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        user = await running.user()
        response = await user.http.get("/")
        cookie = response.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert "set-cookie" not in (await user.http.get("/")).headers  # the first one stays
        await user.create()
        token = user.http.cookies["deep_owner"]
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("sessions.sqlite*"))
    assert stored
    assert token.encode() not in stored


async def test_a_token_that_this_server_did_not_make_is_nobodys(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        user = await running.user()
        session_id = await user.create()
        token = user.http.cookies["deep_owner"]
        random, _, signature = token.partition(".")
        assert len(random) == 64  # 256 bits
        forged = [
            "a",
            "a" * 43,
            random,
            f"{random}.",
            f"{random}.{signature[::-1]}",
            f"{'0' * 64}.{signature}",
            f"{token}0",
            token.upper(),
        ]
        for wrong in forged:
            async with httpx.AsyncClient(base_url=running.base, trust_env=False, timeout=SECONDS) as client:
                sent = {"Cookie": f"deep_owner={wrong}"}
                assert (await client.get(f"/api/sessions/{session_id}", headers=sent)).status_code == 404, wrong
                created = await client.post("/api/sessions", headers=sent)
                assert created.status_code == 201
                assert re.fullmatch("[0-9a-f]{64}[.][0-9a-f]{64}", created.cookies["deep_owner"]), wrong
                assert created.cookies["deep_owner"] != token
                assert (await client.get("/api/sessions", headers=sent)).json() == [], wrong
        assert (await user.http.get(f"/api/sessions/{session_id}")).status_code == 200
    async with serving(tmp_path) as restarted:
        assert (await httpx_get(restarted.base, f"/api/sessions/{session_id}", token)).status_code == 200
    assert (tmp_path / "owners.key").stat().st_mode & 0o077 == 0


async def httpx_get(base: str, path: str, token: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=SECONDS) as client:
        return await client.get(path, headers={"Cookie": f"deep_owner={token}"})


class Database:
    """A plugin whose tools fail."""

    def __init__(self, error: str) -> None:
        self.error = error

    @hookimpl
    def deep_toolsets(self) -> list[FunctionToolset[Any]]:
        def query() -> str:
            raise ConnectionError(self.error)

        def guarded() -> str:
            raise ToolFailed("Denied: not today")

        return [FunctionToolset([query, guarded])]


async def test_no_exception_text_reaches_a_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a run's, nor a request's, nor a tool's; each has an id that finds it in the log."""
    secret = "postgres://ann:hunter22@db.example"

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        if isinstance(messages[-1], ModelRequest) and any(
            part.part_kind == "tool-return" for part in messages[-1].parts
        ):
            yield "so far "
            raise ConnectionError(secret)
        yield {0: DeltaToolCall("query", "{}"), 1: DeltaToolCall("guarded", "{}")}

    monkeypatch.setattr(app_module, "Kernel", lambda plugins: Kernel(plugins=[*plugins, Database(secret)]))
    told: list[str] = []
    async with serving(tmp_path, FunctionModel(stream_function=stream, model_name="broken")) as running:
        user = await running.user()
        session_id = await user.create()
        async with user.page(session_id) as page:
            await page.ask("anything")
            told += [json.dumps(page.events), page.last]
            assert page.tools() == [("query", "failed"), ("guarded", "failed")]
            assert page.items[2]["text"] == "Denied: not today"
        history = (await user.http.get(f"/api/sessions/{session_id}")).text  # has the same ids
        told.append(history)
        (tmp_path / "workspaces").rename(tmp_path / "gone")
        (tmp_path / "workspaces").write_text("in the way")
        told.append((await user.http.get(f"/api/sessions/{session_id}/files")).text)
    everything = "\n".join(told)
    assert "hunter22" not in everything
    assert str(tmp_path) not in everything
    ids = set(re.findall(INCIDENT, everything))
    assert len(ids) == 3
    assert len(set(re.findall(INCIDENT, history))) == 2
    assert all(caplog.text.count(f"incident {incident}") == 1 for incident in ids)
    assert caplog.text.count("hunter22") >= 2


async def test_pages_of_other_sites_and_other_names_of_this_host_are_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        user = await running.user()
        session_id = await user.create()
        evil = {"Origin": "https://evil.example"}
        assert (await user.http.post("/api/sessions", headers=evil)).status_code == 403
        assert (await user.http.post("/api/sessions", headers={"Origin": "null"})).status_code == 403
        with pytest.raises(InvalidStatus) as refused:
            async with user.page(session_id, Origin="https://evil.example"):
                pass
        assert refused.value.response.status_code == 403
        rebound = await user.http.get("/api/sessions", headers={"Host": "evil.example"})
        assert rebound.status_code == 400
        assert session_id not in rebound.text
        assert (await user.http.post("/api/sessions", headers={"Origin": running.base})).status_code == 201


async def test_the_page_may_run_its_own_script_only(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        user = await running.user()
        assert (await user.http.head("/")).status_code == 200
        page = await user.http.get("/")
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "unsafe" not in policy
        assert "http" not in page.text  # nothing comes from another host
        script = (await user.http.get("/static/app.js")).text
        for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "https:/"):
            assert way not in script


async def test_whatever_goes_wrong_is_told_in_one_form(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        user = await running.user()
        session_id = await user.create()
        (tmp_path / "workspaces").write_text("in the way of every workspace")
        for method, path, status, text in [
            ("GET", "/nothing", 404, "Not Found"),
            ("PUT", "/api/sessions", 405, "Method Not Allowed"),
            ("POST", f"/api/sessions/{session_id}/uploads", 422, "name: Field required"),
            ("GET", f"/api/sessions/{session_id}/files", 500, f"The server failed. {INCIDENT}"),
        ]:
            response = await user.http.request(method, path)
            assert response.status_code == status, path
            assert list(response.json()) == ["error"]
            assert re.fullmatch(text, response.json()["error"]), path
            assert response.headers["x-content-type-options"] == "nosniff"


# -- files -----------------------------------------------------------------------------------------------------------


async def test_uploads_are_streamed_bounded_and_told_to_the_agent(tmp_path: Path) -> None:
    async with serving(tmp_path, max_upload_bytes=3 * 1024 * 1024) as running:
        user = await running.user()
        session_id = await user.create()
        folder = tmp_path / "workspaces" / session_id / "uploads"

        async def pieces(count: int) -> AsyncIterator[bytes]:
            for _ in range(count):
                yield b"x" * 1024 * 1024

        async with user.page(session_id) as page:
            done = await user.upload(session_id, "a/../big <b>.bin", pieces(2))
            assert done.status_code == 201, done.text
            assert done.json()["path"] == "uploads/big _b_.bin"
            assert (folder / "big _b_.bin").stat().st_size == 2 * 1024 * 1024
            await page.until(lambda event: event["type"] == "files")
            for data in (pieces(4), b"x" * (4 * 1024 * 1024)):  # told by its length, and not
                refused = await user.upload(session_id, "huge.bin", data)
                assert refused.status_code == 413
                assert "huge.bin" in refused.json()["error"]
            assert [path.name for path in folder.iterdir()] == ["big _b_.bin"]
            assert (await user.http.post(f"/api/sessions/{session_id}/uploads")).status_code == 422


async def test_an_upload_that_outlasts_a_run_is_stored(tmp_path: Path) -> None:
    gate = Gate()
    async with serving(tmp_path, gate.model) as running:
        user = await running.user()
        session_id = await user.create()
        ended = asyncio.Event()

        async def pieces() -> AsyncIterator[bytes]:
            yield b"x" * 2 * 1024 * 1024
            gate.go_on.set()
            await ended.wait()
            yield b"end"

        async with user.page(session_id) as page:
            await page.say(type="message", text="hold it")
            await page.until(lambda event: page.items[-1:] != [] and page.last == "holding ")
            upload = asyncio.create_task(user.upload(session_id, "late.bin", pieces()))
            await page.settled()
            ended.set()
            assert (await upload).status_code == 201
            assert page.last == "holding it"
        slots = await running.app.state.sessions.service.slots(session_id)
        assert list(slots["uploads"]["data"]) == ["uploads/late.bin"]


async def test_an_upload_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        user = await running.user()
        session_id = await user.create()
        sent = asyncio.Event()

        async def pieces() -> AsyncIterator[bytes]:
            yield b"x" * 2 * 1024 * 1024
            sent.set()
            await asyncio.Event().wait()

        upload = asyncio.create_task(user.upload(session_id, "half.bin", pieces()))
        await sent.wait()
        upload.cancel()
        await asyncio.gather(upload, return_exceptions=True)
        assert (await user.upload(session_id, "whole.txt", b"all of it")).status_code == 201
        async with user.page(session_id) as page:  # whatever is left of the request ends before this does
            await page.ask("list")
        async with asyncio.timeout(SECONDS):
            while running.app.state.sessions.workspaces.in_use(session_id):
                await asyncio.sleep(0.01)
        assert await user.files(session_id) == ["uploads/whole.txt"]


async def test_files_are_read_as_bytes_and_never_beyond_the_session(tmp_path: Path) -> None:
    async with serving(tmp_path, max_file_bytes=1000) as running:
        user = await running.user()
        session_id = await user.create()
        other = await user.create()
        evil = b"<script>alert(1)</script>"
        await user.upload(session_id, "page.html", evil)
        await user.upload(session_id, "large.txt", b"x" * 1001)
        await user.upload(other, "other.txt", b"of another session")
        base = f"/api/sessions/{session_id}/files"
        got = await user.http.get(f"{base}/uploads/page.html")
        assert got.content == evil
        assert got.headers["content-type"] == "application/octet-stream"
        assert got.headers["content-disposition"] == "attachment"
        assert got.headers["x-content-type-options"] == "nosniff"
        assert (await user.http.get(f"{base}/uploads/large.txt")).status_code == 413
        ways = [
            "uploads",
            f"..%2f{other}%2fuploads%2fother.txt",
            "%2fetc%2fpasswd",
            "..%2f..%2fsessions.sqlite",
            "none",
            "a%00b",
        ]
        for way in ways:
            response = await user.http.get(f"{base}/{way}")
            assert (response.status_code, response.json()) == (404, {"error": "There is no such file."}), way


async def test_the_file_list_survives_whatever_a_command_leaves_behind(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        user = await running.user()
        session_id = await user.create()
        await user.upload(session_id, "kept.txt", b"x")
        folder = tmp_path / "workspaces" / session_id
        for name in ("one", "two"):  # entered, these would be 2 to the 40 directories
            (folder / name).symlink_to(".")
        (folder / "outside").symlink_to(tmp_path)
        if sys.platform == "linux":  # others refuse such a name
            (folder / os.fsdecode(b"\xff.txt")).write_text("no Unicode")
        (folder / "gone").symlink_to("nowhere")
        for number in range(600):
            (folder / "empty" / str(number)).mkdir(parents=True)
        listed = await user.http.get(f"/api/sessions/{session_id}/files")
        assert listed.status_code == 200, listed.text
        assert {"path": "uploads/kept.txt", "size": 1} in listed.json()["files"]
        assert all("/" not in file["path"] or file["path"].startswith("uploads/") for file in listed.json()["files"])
        assert listed.json()["more"]


# -- limits ----------------------------------------------------------------------------------------------------------


async def test_one_user_has_a_limit_of_sessions_and_others_have_theirs(tmp_path: Path) -> None:
    async with serving(tmp_path, max_sessions_of_one=2) as running:
        ann, ben = await running.user(), await running.user()
        for _ in range(2):
            await ann.create()
        refused = await ann.http.post("/api/sessions")
        assert refused.status_code == 429
        assert "2 sessions" in refused.json()["error"]
        await ben.create()


@pytest.mark.parametrize("way", ["no cookie", "an invented cookie", "the page's cookie"])
async def test_a_client_that_drops_its_cookie_has_a_limit_too(tmp_path: Path, way: str) -> None:
    async with serving(tmp_path, max_sessions_of_one=3) as running:

        async def once(number: int) -> int:
            async with httpx.AsyncClient(base_url=running.base, trust_env=False, timeout=SECONDS) as client:
                if way == "the page's cookie":
                    await client.get("/")
                headers = {"Cookie": f"deep_owner=mine{number}"} if way == "an invented cookie" else {}
                return (await client.post("/api/sessions", headers=headers)).status_code

        answers = await asyncio.gather(*(once(number) for number in range(30)))  # at once: none is counted late
        assert sorted(answers) == [201] * 3 + [429] * 27


async def test_new_users_count_for_a_day_and_per_network() -> None:
    hour = 0
    newcomers = Newcomers(1, lambda: hour * 3600)
    assert newcomers.admit("192.0.2.1")
    hour = 24
    assert not newcomers.admit("192.0.2.1")
    assert newcomers.admit("192.0.2.2")
    hour = 25
    assert newcomers.admit("192.0.2.1")
    assert not newcomers.admit("192.0.2.2")
    for host, address in [("192.0.2.1", "192.0.2.1"), ("2001:db8::1:2:3:4", "2001:db8::/64"), ("", "")]:
        connection = HTTPConnection({"type": "http", "client": (host, 1), "headers": []})
        assert address_of(connection) == address


async def test_when_all_workspaces_are_taken_the_user_is_told_and_can_try_again(tmp_path: Path) -> None:
    async with serving(tmp_path, max_workspaces=1) as running:
        ann, ben = await running.user(), await running.user()
        first, second = await ann.create(), await ben.create()
        await ann.files(first)
        assert (await ben.http.get(f"/api/sessions/{second}/files")).status_code == 503
        async with ben.page(second) as page:
            await page.ask("say hello")
            assert "all 1 sessions are in use" in page.last
            await running.app.state.sessions.workspaces.release(first)
            await page.ask("say hello")
            assert page.last == "hello"


# -- restarts --------------------------------------------------------------------------------------------------------


async def test_a_session_survives_a_restart_with_its_approval_todos_and_files(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        ann = await running.user()
        session_id = await ann.create()
        cookies = ann.http.cookies
        async with ann.page(session_id) as page:
            await page.ask("plan buy milk, bake bread")
            await page.ask("helper: write notes.txt: from below")
            before = page.state["approval"], page.items
    async with serving(tmp_path) as running:
        ann, ben = await running.user(), await running.user()
        ann.http.cookies = cookies
        assert (await ben.http.get(f"/api/sessions/{session_id}")).status_code == 404
        async with ann.page(session_id) as page:
            assert (page.state["approval"], page.items) == before
            assert [todo["content"] for todo in page.state["todos"]] == ["buy milk", "bake bread"]
            await page.answer(approve=True)
            assert await ann.files(session_id) == ["notes.txt"]
            assert page.tools()[-1] == ("write_file", "success")
            await page.ask("read notes.txt")
            assert "from below" in page.last


async def test_a_server_that_stops_while_it_works_can_continue(tmp_path: Path) -> None:
    gate = Gate()
    async with serving(tmp_path, gate.model) as running:
        user = await running.user()
        session_id = await user.create()
        cookies = user.http.cookies
        async with user.page(session_id) as page:
            await page.ask("say before")
            await page.say(type="message", text="hold the end")
            await page.until(lambda event: page.items[-1:] != [] and page.last == "holding ")
    gate.go_on.set()
    async with serving(tmp_path, gate.model) as running:
        user = await running.user()
        user.http.cookies = cookies
        async with user.page(session_id) as page, user.page(session_id) as other:
            assert (page.state["running"], page.state["interrupted"]) == (False, True)
            assert [item["text"] for item in page.items[:3]] == ["say before", "before", "hold the end"]
            assert "The server was stopped while it worked on this." in page.last
            await page.say(type="resume")
            await page.settled()
            assert page.last == "holding the end"
            assert page.state["interrupted"] is False
            await page.say(type="resume")  # nothing to resume: nothing happens
            await page.ask("say still here")
            await other.until(lambda event: other.last == "still here")
        async with user.page(session_id) as again:  # what happened is in the history
            assert again.items == page.items == other.items


async def test_after_a_stop_another_message_goes_on_too(tmp_path: Path) -> None:
    gate = Gate()
    async with serving(tmp_path, gate.model) as running:
        user = await running.user()
        session_id = await user.create()
        cookies = user.http.cookies
        async with user.page(session_id) as page:
            await page.say(type="message", text="hold for ever")
            await page.until(lambda event: page.items[-1:] != [] and page.last == "holding ")
    async with serving(tmp_path) as running:
        user = await running.user()
        user.http.cookies = cookies
        async with user.page(session_id) as page:
            await page.ask("say still here")
            assert [item["kind"] for item in page.items] == ["user", "error", "user", "assistant"]
            assert page.last == "still here"


async def test_a_session_is_deleted_with_its_files_by_its_owner_only(tmp_path: Path) -> None:
    gate = Gate()
    async with serving(tmp_path, gate.model) as running:
        ann, ben = await running.user(), await running.user()
        session_id = await ann.create()
        await ben.create()
        await ann.upload(session_id, "secret.txt", b"canary")
        folder = tmp_path / "workspaces" / session_id
        assert (folder / "uploads" / "secret.txt").exists()
        address = f"/api/sessions/{session_id}"
        assert (await ben.http.delete(address)).status_code == 404
        async with ann.page(session_id) as page:
            await page.say(type="message", text="hold for ever")  # a run is under way
            await page.until(lambda event: page.items[-1:] != [] and page.last == "holding ")
            assert (await ann.http.delete(address)).status_code == 204
            with pytest.raises(ConnectionClosed):
                await page.refused()
        assert not folder.exists()
        assert (await ann.http.get(address)).status_code == 404
        assert (await ann.http.get("/api/sessions")).json() == []


@pytest.fixture(
    params=["sqlite", pytest.param("postgresql", marks=[pytest.mark.needs("PostgreSQL"), pytest.mark.exhaustive])]
)
def process(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """The server in a process of its own, with its sessions in each store."""
    with contextlib.ExitStack() as stack:
        store = "" if request.param == "sqlite" else stack.enter_context(cluster()).create_database()
        server = Server(tmp_path / "data", store)
        server.start()
        stack.callback(server.stop)
        yield server


@pytest.mark.exhaustive
async def test_a_kill_loses_no_question_and_no_effect_happens_twice(process: Server) -> None:
    def restart() -> None:
        process.stop(kill=True)
        process.start()

    user = User(process.url.rstrip("/"))
    async with user.http:
        session_id = await user.create()
        notes, ran = process.file(session_id, "notes.txt"), process.file(session_id, "ran.txt")
        async with user.page(session_id) as page:
            await page.ask("plan buy milk, bake bread")
            await page.ask("write notes.txt: red")
            before = page.items, page.state["approval"], page.state["todos"]
        await asyncio.to_thread(restart)  # while a question waits
        async with user.page(session_id) as page, user.page(session_id) as other:
            assert (page.items, page.state["approval"], page.state["todos"]) == before
            assert not notes.exists()
            (path,) = [question["path"] for question in page.state["approval"]["questions"]]
            answer = {"type": "decide", "approval": page.state["approval"]["id"], "verdicts": {path: {"approve": True}}}
            await page.say(**answer)
            await page.settled()
            assert notes.read_text() == "red\n"
            await other.settled()
            await other.say(**answer)
            assert await other.refused() == ("busy", "This was answered already.")
            assert process.process is not None
            alive = f"kill -0 {process.process.pid}"
            await page.ask(f"run echo once >> ran.txt; while {alive}; do sleep 0.05; done")
            asked = page.state["approval"]
            verdicts = {question["path"]: {"approve": True} for question in asked["questions"]}
            await page.say(type="decide", approval=asked["id"], verdicts=verdicts)
            async with asyncio.timeout(SECONDS):
                while not ran.exists() or not ran.read_text():
                    await asyncio.sleep(0.01)
        await asyncio.to_thread(restart)  # in the middle of the command
        async with user.page(session_id) as page:
            assert (page.state["running"], page.state["interrupted"], page.state["approval"]) == (False, True, None)
            assert page.tools() == [("write_todos", "success"), ("write_file", "success"), ("execute", "interrupted")]
            assert "The server was stopped while it worked on this." in page.last
            await page.say(type="resume")
            await page.settled()
            assert page.tools()[-1] == ("execute", "unknown")
            assert "Nobody knows whether this call ran" in page.last  # as the model has read it
            assert ran.read_text() == "once\n"
            await page.ask("say still here")
            assert page.last == "still here"


# -- many ------------------------------------------------------------------------------------------------------------


@pytest.mark.more
async def test_many_sessions_at_once_never_cross(tmp_path: Path) -> None:
    sessions = many(40, 10)
    async with serving(tmp_path) as running:
        everything: dict[str, str] = {}

        async def live(number: int) -> None:
            canary = f"canary-{number:02}-{'zyxwv'[number % 5]}"
            user = await running.user()
            session_id = await user.create()
            async with user.page(session_id) as page:
                await user.upload(session_id, f"{canary}.txt", canary.encode())
                state = await page.ask(f"plan {canary} first, {canary} second")
                assert [todo["content"] for todo in state["todos"]] == [f"{canary} first", f"{canary} second"]
                await page.ask(f"helper: write notes.txt: {canary}")
                approve = number % 2 == 0
                await page.answer(approve=approve, reason=f"{canary} says no")
                await page.ask("list")
                assert sorted(await user.files(session_id)) == sorted(
                    [f"uploads/{canary}.txt", *(["notes.txt"] if approve else [])]
                )
                await page.ask(f"say bye {canary}")
                everything[canary] = json.dumps([page.events, (await user.http.get("/api/sessions")).json()])

        async with asyncio.TaskGroup() as tasks:
            for number in range(sessions):
                tasks.create_task(live(number))
        assert len(everything) == sessions
        for canary, seen in everything.items():
            assert canary in seen
            assert not [other for other in everything if other != canary and other in seen]
        async with asyncio.timeout(SECONDS):
            while running.app.state.sessions.service.active:  # nothing stays that nobody watches
                await asyncio.sleep(0.01)
