"""`deep web` is killed and started again: nothing is lost, nothing runs twice, and the terminal sees the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from plugins.web.tests.commands import DeepWeb
from plugins.web.tests.pages import SECONDS, Page, User
from tests import another_process

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DeepWeb]:
    running = DeepWeb(tmp_path)
    running.start()
    yield running
    running.kill()


@asynccontextmanager
async def client(server: DeepWeb) -> AsyncGenerator[User]:
    user = User(server.url, {"Authorization": f"Bearer {server.token}"})
    async with user.http:
        yield user


async def becomes(condition: Any) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.02)


def stored(page: Page) -> set[int]:
    """The numbers of the events that the journal has. Those of a run, from a place on, end with their process."""
    return {event["n"] for event in page.events if event["n"] & 0xFF_FFFF < 1 << 16}


async def test_a_question_waits_over_a_kill_and_is_answered_once(server: DeepWeb) -> None:
    token = server.token
    async with client(server) as user:
        session_id = await user.create()
        async with user.page(session_id) as page:
            await page.ask("plan buy milk, bake bread")
            await page.ask("write notes.txt: red")
            before = page.state["approval"], page.state["todos"], page.texts, page.state["title"]
            boot, events, tools = page.boot, stored(page), page.tools()
        await asyncio.to_thread(server.restart)
        assert server.token == token  # open pages go on
        async with user.page(session_id) as page:
            assert page.boot != boot
            assert (page.state["approval"], page.state["todos"], page.texts, page.state["title"]) == before
            assert events <= stored(page)
            assert page.tools() == tools
            assert not (server.folder / "notes.txt").exists()
            approval = page.state["approval"]["id"]
            verdicts = {question["path"]: {"approve": True} for question in page.questions}
            answers = await asyncio.gather(*(page.decide(verdicts, approval) for _ in range(5)))
            assert sorted(answer.status_code for answer in answers) == [202, 409, 409, 409, 409]
            await page.settled()
            assert page.tools() == [("write_todos", "success"), ("write_file", "success")]
            assert (server.folder / "notes.txt").read_text() == "red\n"


@pytest.mark.slow
async def test_a_kill_in_a_command_leaves_its_outcome_unknown_and_does_not_run_it_again(server: DeepWeb) -> None:
    ran = server.folder / "ran.txt"
    async with client(server) as user:
        session_id = await user.create()
        async with user.page(session_id) as page:
            assert server.process is not None
            alive = f"kill -0 {server.process.pid}"
            await page.ask(f"run echo once >> ran.txt; while {alive}; do sleep 0.05; done")
            await page.decide({question["path"]: {"approve": True} for question in page.questions})
            await becomes(lambda: ran.exists() and ran.read_text())
        await asyncio.to_thread(server.restart)
        async with user.page(session_id) as page:
            assert (page.state["status"], page.state["interrupted"]) == ("interrupted", True)
            assert [row["status"] for row in await user.listed()] == ["interrupted"]
            answers = await asyncio.gather(*(page.do("resume") for _ in range(5)))
            assert {answer.status_code for answer in answers} == {202}
            await page.settled()
            assert page.tools() == [("execute", "unknown")]
            assert "Nobody knows whether this call ran" in page.last  # as the model has read it
            assert ran.read_text() == "once\n"


@pytest.mark.slow
async def test_a_kill_in_an_answer_continues_it_where_the_journal_stands(server: DeepWeb) -> None:
    async with client(server) as user:
        session_id = await user.create()
        async with user.page(session_id) as page:
            await page.ask("say before")
            await page.send("hold the end", id="message-0001")
            await page.hears("holding ")
        await asyncio.to_thread(server.restart)
        (server.folder / "go").touch()
        async with user.page(session_id) as page, user.page(session_id) as other:
            assert page.state["status"] == "interrupted"
            again = await page.send("hold the end", id="message-0001")  # its sender got no answer, perhaps
            assert again.status_code == 202
            assert page.state["status"] == "interrupted"  # it was taken: sending it again does nothing
            await page.do("resume")
            await page.settled()
            assert page.texts == [
                ("user", "say before"),
                ("assistant", "before"),
                ("user", "hold the end"),
                ("assistant", "holding the end"),
            ]
            await other.settled()
            assert other.events == page.events
            assert server.asked == ["hold the end", "hold the end"]  # the first answer was lost with its process


@pytest.mark.slow
async def test_another_message_continues_after_a_kill(server: DeepWeb) -> None:
    async with client(server) as user:
        session_id = await user.create()
        async with user.page(session_id) as page:
            await page.send("hold for ever")
            await page.hears("holding ")
            await page.send("say queued", mode="queue")
        await asyncio.to_thread(server.restart)
        async with user.page(session_id) as page:
            assert page.state["queued"] == ["say queued"]
            await page.ask("say still here")
            await page.until(lambda message: bool(page.texts) and page.texts[-1] == ("assistant", "queued"))
            assert [text for _, text in page.texts if text != "holding "] == [
                "hold for ever",
                "say still here",
                "still here",
                "say queued",
                "queued",
            ]


@pytest.mark.slow
async def test_the_terminal_and_the_page_have_the_same_conversations(server: DeepWeb) -> None:
    def chat(*more: str, say: str) -> str:
        words = ["deep_cli", "chat", *server.options, *more]
        done = another_process.run(
            *words, cwd=server.folder, env=server.environment, stdin=f"{say}\n", timeout=SECONDS * 3
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    async with client(server) as user:
        session_id = await user.create()
        async with user.page(session_id) as page:
            await page.ask("say from the page")
            title = {"title": "The page's"}
            renamed = await user.http.patch(f"/api/sessions/{session_id}", json=title)
            assert renamed.json()["title"] == "The page's"
            printed = await asyncio.to_thread(chat, "--resume", session_id, say="say from the terminal\n/sessions")
            assert "from the terminal" in printed
            assert "The page's" in printed
            await page.until(lambda message: ("assistant", "from the terminal") in page.texts)
            assert page.texts[-4:] == [
                ("user", "say from the page"),
                ("assistant", "from the page"),
                ("user", "say from the terminal"),
                ("assistant", "from the terminal"),
            ]
            await page.reaches("idle")
            await page.ask("say back here")
            assert page.last == "back here"
        await asyncio.to_thread(chat, say="say begun in the terminal")
        rows = await user.listed()
        assert {row["title"] for row in rows} == {"The page's", "say begun in the terminal"}, json.dumps(rows)
