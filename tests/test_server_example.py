"""examples/server over real sockets: owners, limits, secrets, workspaces, restarts, many at once.

What every application of deep-web does is tested in plugins/web/tests. Only the model is scripted.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from deep_web import Site
from pydantic_ai import FunctionToolset
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ModelMessage, ModelRequest
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from starlette.requests import HTTPConnection
from websockets.exceptions import ConnectionClosed

from deep_core import hookimpl
from examples.server.app import create_server
from examples.server.owners import Newcomers, address_of
from examples.server.scripted import scripted_model
from examples.server.settings import Settings
from plugins.web.tests.gates import Gate
from plugins.web.tests.pages import SECONDS, Page, User, hosting
from tests.drawn import many
from tests.postgresql import cluster
from tests.server_process import Server

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]
INCIDENT = r"The server's log has the cause: incident ([0-9a-f]{8})\."


class Running:
    """A server that runs, and the users that a test makes."""

    def __init__(self, base: str, app: Any, users: contextlib.AsyncExitStack) -> None:
        self.base = base
        self.app = app
        self._users = users

    @property
    def site(self) -> Site:
        return self.app.state.site

    async def client(self) -> User:
        """A client that did not open the page: it has no cookie."""
        user = User(self.base)
        await self._users.enter_async_context(user.http)
        return user

    async def user(self) -> User:
        """Someone who opened the page."""
        user = await self.client()
        await user.http.get("/")
        assert len(user.http.cookies) == 1
        return user


@contextlib.asynccontextmanager
async def serving(
    data: Path, model: Model | None = None, plugins: Sequence[Any] = (), **settings: Any
) -> AsyncGenerator[Running]:
    """The application on a free port of this machine, in this event loop."""
    app = create_server(Settings(data=data, **settings), model or scripted_model(pause=0), plugins)
    async with hosting(app) as base, contextlib.AsyncExitStack() as users:
        yield Running(base, app, users)


def token_of(user: User) -> tuple[str, str]:
    """The name and the value of a user's cookie."""
    ((name, value),) = user.http.cookies.items()
    return name, value


# -- a workspace for each session --------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_each_session_works_in_a_folder_of_its_own(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        user = await running.user()
        sessions = [await user.create(), await user.create()]
        for session_id in sessions:
            async with user.page(session_id) as page:
                await page.ask(f"write notes.txt: {session_id}")
                await page.answer(approve=True)
        for session_id in sessions:
            assert (tmp_path / "workspaces" / session_id / "notes.txt").read_text() == f"{session_id}\n"
            assert await user.files(session_id) == ["notes.txt"]


async def test_files_of_another_session_are_out_of_reach(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        user = await running.user()
        session_id, other = await user.create(), await user.create()
        await user.upload(other, "other.txt", b"of another session")
        for way in (f"..%2f{other}%2fuploads%2fother.txt", "%2fetc%2fpasswd", "..%2f..%2fsessions.sqlite", "a%00b"):
            response = await user.http.get(f"/api/sessions/{session_id}/files/{way}")
            assert (response.status_code, response.json()) == (404, {"error": "There is no such file."}), way


@pytest.mark.slow
async def test_commands_are_offered_only_to_whom_the_operator_says_and_then_they_ask(tmp_path: Path) -> None:
    async with serving(tmp_path / "closed") as running:
        user = await running.user()
        async with user.page(await user.create()) as page:
            await page.ask("run echo hello > made.txt")
            assert "`execute`, which is not offered" in page.last
    async with serving(tmp_path / "open", execute=True) as running:
        user = await running.user()
        async with user.page(await user.create()) as page:
            await page.ask("run echo hello > made.txt")
            (question,) = page.questions
            assert (question["args"]["command"], question["diff"]) == ("echo hello > made.txt", None)
            assert await user.files(page.id) == []
            await page.answer(approve=True)
            assert await user.files(page.id) == ["made.txt"]


# -- whose it is -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_another_users_session_is_not_there(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        ann, ben = await running.user(), await running.user()
        session_id = await ann.create()
        await ben.create()
        await ann.upload(session_id, "secret.txt", b"canary")
        unknown = "0" * 32
        for place in (session_id, unknown):
            base = f"/api/sessions/{place}"
            tried = [
                await ben.http.get(base),
                await ben.http.patch(base, json={"title": "mine"}),
                await ben.http.delete(base),
                await ben.http.post(f"{base}/fork"),
                await ben.http.post(f"{base}/stop"),
                await ben.http.post(f"{base}/resume"),
                await ben.http.post(f"{base}/decisions", json={"approval": "x", "verdicts": {}}),
                await ben.send(place, "say hello"),
                await ben.http.get(f"{base}/files"),
                await ben.http.get(f"{base}/files/uploads/secret.txt"),
                await ben.http.get(f"{base}/calls/c1"),
                await ben.upload(place, "mine.txt", b"x"),
            ]
            told = {(response.status_code, response.text) for response in tried}
            assert told == {(404, '{"error":"There is no such session."}')}
            async with ben.connection(place) as connection:
                with pytest.raises(ConnectionClosed) as closed:
                    await connection.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4404
        assert await ann.files(session_id) == ["uploads/secret.txt"]
        assert [row["id"] for row in await ann.listed()] == [session_id]
        assert session_id not in (await ben.http.get("/api/sessions")).text


@pytest.mark.slow
async def test_who_did_not_open_the_page_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        ann, nobody = await running.user(), await running.client()
        session_id = await ann.create()
        for method, path in [
            ("GET", "/api/info"),
            ("GET", "/api/sessions"),
            ("POST", "/api/sessions"),
            ("GET", f"/api/sessions/{session_id}"),
            ("GET", f"/api/sessions/{session_id}/files"),
        ]:
            assert (await nobody.http.request(method, path)).status_code == 401, path
        async with nobody.connection(session_id) as connection:
            with pytest.raises(ConnectionClosed) as closed:
                await connection.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4401


async def test_the_token_is_out_of_reach_of_scripts_and_of_the_database(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        user = await running.client()
        response = await user.http.get("/")
        cookie = response.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert "set-cookie" not in (await user.http.get("/")).headers  # the first one stays
        await user.create()
        _, token = token_of(user)
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("sessions.sqlite*"))
    assert stored
    assert token.encode() not in stored


@pytest.mark.slow
async def test_a_token_that_this_server_did_not_make_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        user = await running.user()
        session_id = await user.create()
        name, token = token_of(user)
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
                sent = {"Cookie": f"{name}={wrong}"}
                assert (await client.get(f"/api/sessions/{session_id}", headers=sent)).status_code == 401, wrong
                page = await client.get("/", headers=sent)
                assert re.fullmatch("[0-9a-f]{64}[.][0-9a-f]{64}", page.cookies[name]), wrong
                assert page.cookies[name] != token
        assert (await user.http.get(f"/api/sessions/{session_id}")).status_code == 200
    async with serving(tmp_path) as restarted:
        known = await restarted.client()
        known.http.cookies.set(name, token)
        assert (await known.http.get(f"/api/sessions/{session_id}")).status_code == 200
    assert (tmp_path / "owners.key").stat().st_mode & 0o077 == 0


@pytest.mark.slow
async def test_two_servers_of_one_host_do_not_share_a_cookie(tmp_path: Path) -> None:
    async with serving(tmp_path / "one") as one, serving(tmp_path / "two") as two:
        assert token_of(await one.user())[0] != token_of(await two.user())[0]


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


@pytest.mark.slow
async def test_no_exception_text_reaches_a_client(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither a run's, nor a request's, nor a tool's; each has an id that finds it in the log."""
    secret = "postgres://ann:hunter22@db.example"

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        if isinstance(messages[-1], ModelRequest) and any(
            part.part_kind == "tool-return" for part in messages[-1].parts
        ):
            yield "so far "
            raise RuntimeError(secret)
        yield {0: DeltaToolCall("query", "{}"), 1: DeltaToolCall("guarded", "{}")}

    told: list[str] = []
    model = FunctionModel(stream_function=stream, model_name="broken")
    async with serving(tmp_path, model, [Database(secret)]) as running:
        user = await running.user()
        session_id = await user.create()
        async with user.page(session_id) as page:
            await page.ask("anything")
            told.append(json.dumps(page.messages))
            assert page.tools() == [("query", "failed"), ("guarded", "failed")]
            assert page.result("guarded") == "Denied: not today"
            called = {event["tool"]: event["call_id"] for event in page.events if event["kind"] == "tool_started"}
        async with user.page(session_id) as again:  # has the same ids
            history = json.dumps(again.messages)
        told.append(history)
        told += [(await user.http.get(f"/api/sessions/{session_id}/calls/{id}")).text for id in called.values()]
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


# -- limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_one_user_has_a_limit_of_sessions_and_others_have_theirs(tmp_path: Path) -> None:
    async with serving(tmp_path, max_sessions_of_one=2) as running:
        ann, ben = await running.user(), await running.user()
        first, _ = await ann.create(), await ann.create()
        for path in ("/api/sessions", f"/api/sessions/{first}/fork"):
            refused = await ann.http.post(path)
            assert refused.status_code == 429
            assert "2 sessions" in refused.json()["error"]
        await ben.create()


@pytest.mark.slow
async def test_a_client_that_drops_its_cookie_has_a_limit_too(tmp_path: Path) -> None:
    async with serving(tmp_path, max_sessions_of_one=3) as running:

        async def once() -> int:
            async with httpx.AsyncClient(base_url=running.base, trust_env=False, timeout=SECONDS) as client:
                await client.get("/")
                return (await client.post("/api/sessions")).status_code

        answers = await asyncio.gather(*(once() for _ in range(30)))  # at once: none is counted late
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


@pytest.mark.slow
async def test_when_all_workspaces_are_taken_the_user_reads_why_and_can_try_again(tmp_path: Path) -> None:
    async with serving(tmp_path, max_workspaces=1) as running:
        ann, ben = await running.user(), await running.user()
        first, second = await ann.create(), await ben.create()
        await ann.files(first)
        assert (await ben.http.get(f"/api/sessions/{second}/files")).status_code == 503
        async with ben.page(second) as page:
            refused = await page.send("say hello", id="message-0001")
            assert refused.status_code == 503
            assert "all 1 sessions are in use" in refused.json()["error"]
            await running.app.state.site.workspaces.release(first)
            await page.ask("say hello", id="message-0001")  # it was not taken before
            assert page.texts == [("user", "say hello"), ("assistant", "hello")]


# -- restarts and deletion ---------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_session_survives_a_restart_with_its_approval_todos_and_files(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        ann = await running.user()
        session_id, cookies = await ann.create(), ann.http.cookies
        async with ann.page(session_id) as page:
            await page.ask("plan buy milk, bake bread")
            await page.ask("helper: write notes.txt: from below")
            before = page.state["approval"], page.texts, page.tools(path=True)
    async with serving(tmp_path) as running:
        ann, ben = await running.client(), await running.user()
        ann.http.cookies = cookies
        assert (await ben.http.get(f"/api/sessions/{session_id}")).status_code == 404
        async with ann.page(session_id) as page:
            assert (page.state["approval"], page.texts, page.tools(path=True)) == before
            assert [todo["content"] for todo in page.state["todos"]] == ["buy milk", "bake bread"]
            await page.answer(approve=True)
            assert await ann.files(session_id) == ["notes.txt"]
            assert page.tools(path=True)[-1] == ("write_file", "success")
            await page.ask("read notes.txt")
            assert "from below" in page.last


@pytest.mark.slow
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
            await page.send("hold it")
            await page.hears("holding ")
            upload = asyncio.create_task(user.upload(session_id, "late.bin", pieces()))
            await page.settled()
            ended.set()
            assert (await upload).status_code == 201
            assert page.last == "holding it"
        slots = await running.site.current(session_id).slots(session_id)
        assert list(slots["uploads"]["data"]) == ["uploads/late.bin"]


@pytest.mark.slow
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
            while running.app.state.site.workspaces.in_use(session_id):
                await asyncio.sleep(0.01)
        assert await user.files(session_id) == ["uploads/whole.txt"]


@pytest.mark.slow
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
            await page.send("hold for ever")  # a run is under way
            await page.hears("holding ")
            assert (await ann.http.delete(address)).status_code == 204
            with pytest.raises(ConnectionClosed) as closed:
                await page.until(lambda message: False)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4404
        assert not folder.exists()
        assert (await ann.http.get(address)).status_code == 404
        assert await ann.listed() == []


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
        await user.http.get("/")
        session_id = await user.create()
        notes, ran = process.file(session_id, "notes.txt"), process.file(session_id, "ran.txt")
        async with user.page(session_id) as page:
            await page.ask("plan buy milk, bake bread")
            await page.ask("write notes.txt: red")
            before = page.texts, page.state["approval"], page.state["todos"]
        await asyncio.to_thread(restart)  # while a question waits
        async with user.page(session_id) as page, user.page(session_id) as other:
            assert (page.texts, page.state["approval"], page.state["todos"]) == before
            assert not notes.exists()
            approval = page.state["approval"]["id"]
            verdicts = {question["path"]: {"approve": True} for question in page.questions}
            await page.answer(approve=True)
            assert notes.read_text() == "red\n"
            await other.settled()
            again = await other.decide(verdicts, approval=approval)
            assert (again.status_code, again.json()["code"]) == (409, "stale")
            assert process.process is not None
            alive = f"kill -0 {process.process.pid}"
            await page.ask(f"run echo once >> ran.txt; while {alive}; do sleep 0.05; done")
            await page.decide({question["path"]: {"approve": True} for question in page.questions})
            async with asyncio.timeout(SECONDS):
                while not ran.exists() or not ran.read_text():
                    await asyncio.sleep(0.01)
        await asyncio.to_thread(restart)  # in the middle of the command
        async with user.page(session_id) as page:
            assert (page.state["status"], page.state["approval"]) == ("interrupted", None)
            assert page.tools() == [("write_todos", "success"), ("write_file", "success"), ("execute", "running")]
            await page.do("resume")
            await page.settled()
            assert page.tools()[-1] == ("execute", "unknown")
            assert "Nobody knows whether this call ran" in page.last  # as the model has read it
            assert ran.read_text() == "once\n"
            await page.ask("say still here")
            assert page.last == "still here"


# -- many --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_many_sessions_at_once_never_cross(tmp_path: Path) -> None:
    sessions = many(5, 40)
    async with serving(tmp_path) as running:
        everything: dict[str, str] = {}

        async def live(number: int) -> None:
            canary = f"canary-{number:02}-{'zyxwv'[number % 5]}"
            user = await running.user()
            session_id = await user.create()
            async with user.page(session_id) as page:
                await work(user, page, canary, number)
                everything[canary] = json.dumps([page.messages, await user.listed()])

        async def work(user: User, page: Page, canary: str, number: int) -> None:
            await user.upload(page.id, f"{canary}.txt", canary.encode())
            state = await page.ask(f"plan {canary} first, {canary} second")
            assert [todo["content"] for todo in state["todos"]] == [f"{canary} first", f"{canary} second"]
            await page.ask(f"helper: write notes.txt: {canary}")
            approve = number % 2 == 0
            await page.answer(approve=approve, reason=f"{canary} says no")
            await page.ask("list")
            assert sorted(await user.files(page.id)) == sorted(
                [f"uploads/{canary}.txt", *(["notes.txt"] if approve else [])]
            )
            await page.ask(f"say bye {canary}")

        async with asyncio.TaskGroup() as tasks:
            for number in range(sessions):
                tasks.create_task(live(number))
        assert len(everything) == sessions
        for canary, seen in everything.items():
            assert canary in seen
            assert not [other for other in everything if other != canary and other in seen]
        async with asyncio.timeout(SECONDS):
            while running.site.current("").active:  # nothing stays that nobody watches
                await asyncio.sleep(0.01)
