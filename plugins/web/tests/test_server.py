"""`deep web` over real sockets, without a browser: conversations, approvals, runs, files.

Only the model is a script."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from deep_backends import local_backend
from deep_sessions import WaitingCalls
from deep_web.approvals import approval_of
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from plugins.web.tests.gates import Gate
from plugins.web.tests.pages import SECONDS, Page, working
from plugins.web.tests.served import Served
from tests.stubs import Call, Script, ScriptedModel, Turn

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


def test_the_page_and_its_interface_need_the_token(served: Served, anyio_backend: str) -> None:
    with httpx.Client(base_url=served.url, trust_env=False, timeout=SECONDS) as client:
        assert client.get("/api/info").status_code == 401
        assert client.get(f"/?token={served.token}").status_code == 303
        info = client.get("/api/info").json()
    assert (info["model"], info["models"]) == ("script:one", ["script:one", "script:other"])
    assert info["folder"] == str(served.folder.resolve())


# -- a conversation ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_text_is_streamed_and_stays_in_the_history(tmp_path: Path) -> None:
    async with working(tmp_path) as running, running.page() as page:
        state = await page.ask("say one two three")
        assert [e["text"] for e in page.events if e["kind"] == "text_added"] == ["one ", "two ", "three"]
        assert page.last == "one two three"
        assert (state["title"], state["model"], state["status"]) == ("say one two three", "script:one", "idle")
        assert state["usage"]["input_tokens"] > 0
        assert state["usage"]["context_used"] > 0
        user = await running.user()
        async with user.page(page.id) as again:  # from the store
            assert again.texts == page.texts == [("user", "say one two three"), ("assistant", "one two three")]
            assert again.boot == page.boot
        (listed,) = await user.listed()
        assert (listed["id"], listed["title"], listed["status"]) == (page.id, "say one two three", "idle")


@pytest.mark.slow
async def test_todos_and_tool_calls_are_shown(tmp_path: Path) -> None:
    async with working(tmp_path) as running, running.page() as page:
        state = await page.ask("plan buy milk, bake bread")
        assert state["todos"] == [
            {"content": "buy milk", "status": "in_progress"},
            {"content": "bake bread", "status": "pending"},
        ]
        assert page.tools() == [("write_todos", "success")]
        (started,) = [event for event in page.events if event["kind"] == "tool_started"]
        assert "bake bread" in started["args"]


@pytest.mark.slow
async def test_a_call_that_events_cut_is_there_whole(tmp_path: Path) -> None:
    async with working(tmp_path) as running, running.page() as page:
        (running.folder / "long.txt").write_text("another line\n" * 400 + "the end\n")
        await page.ask("read long.txt")
        assert "the end" not in page.result("read_file")
        (started,) = [event for event in page.events if event["kind"] == "tool_started"]
        user = await running.user()
        address = f"/api/sessions/{page.id}/calls/{started['call_id']}"
        call = (await user.http.get(address)).json()
        assert json.loads(call["args"]) == {"path": "long.txt"}
        assert "the end" in call["result"]
        assert (await user.http.get(f"/api/sessions/{page.id}/calls/none")).status_code == 404
        assert (await user.http.get(address, params={"path": "elsewhere"})).status_code == 404


@pytest.mark.slow
async def test_a_subagents_call_is_there_whole(tmp_path: Path) -> None:
    async with working(tmp_path) as running, running.page() as page:
        (running.folder / "long.txt").write_text("another line\n" * 400 + "the end\n")
        await page.ask("helper: read long.txt")
        (started,) = [e for e in page.events if e["kind"] == "tool_started" and e.get("path")]
        user = await running.user()
        address = f"/api/sessions/{page.id}/calls/{started['call_id']}"
        assert "the end" in (await user.http.get(address, params={"path": started["path"]})).json()["result"]


@pytest.mark.slow
async def test_a_write_asks_with_its_diff_and_a_denial_with_its_reason_reaches_the_model(tmp_path: Path) -> None:
    async with working(tmp_path) as running, running.page() as page:
        written = running.folder / "notes.txt"
        await page.ask("write notes.txt: red")
        (question,) = page.questions
        assert (question["tool"], question["args"]) == ("write_file", {"path": "notes.txt", "content": "red\n"})
        assert question["diff"].splitlines() == [
            "--- notes.txt (now)",
            "+++ notes.txt (after)",
            "@@ -0,0 +1 @@",
            "+red",
        ]
        assert page.state["status"] == "waiting"
        state = await page.answer(approve=False, reason="say please")
        assert (state["approval"], state["status"]) == (None, "idle")
        assert not written.exists()
        assert page.tools() == [("write_file", "denied")]
        assert "say please" in page.last
        await page.ask("write notes.txt: red")
        await page.answer(approve=True)
        assert written.read_text() == "red\n"
        await page.ask("edit notes.txt: red -> blue")
        (question,) = page.questions
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
    asked = await approval_of(WaitingCalls(approvals=[call], approval="a"), local_backend(tmp_path))
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
    requests = WaitingCalls(approvals=[ToolCallPart("deploy", {"path": "f", **args}, "c1")], approval="a")
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
    requests = WaitingCalls(approvals=[ToolCallPart("write_file", {"path": "f", **args}, "c1")], approval="a")
    (question,) = (await approval_of(requests, local_backend(tmp_path)))["questions"]
    assert (question["diff"], question["pictured"]) == (None, [])


@pytest.mark.slow
async def test_a_subagents_call_asks_too_and_can_be_decided_on_its_own(tmp_path: Path) -> None:
    async with working(tmp_path) as running, running.page() as page:
        written = running.folder / "notes.txt"
        await page.ask("helper: write notes.txt: from below")
        (question,) = page.questions
        assert (question["tool"], question["subagent"]) == ("write_file", "general-purpose")
        assert question["path"].count("/") == 1
        assert "+from below" in question["diff"]
        await page.answer(approve=False, reason="not from you")
        assert not written.exists()
        assert "not from you" in page.last
        await page.ask("helper: write notes.txt: from below")
        await page.answer(approve=True)
        assert written.read_text() == "from below\n"
        assert page.tools(path=True) == [
            ("task", "success"),
            ("write_file", "denied"),
            ("task", "success"),
            ("write_file", "success"),
        ]


@pytest.mark.slow
async def test_a_question_is_a_choice_that_is_answered_once_also_from_a_subagent(tmp_path: Path) -> None:
    async with working(tmp_path) as running, running.page() as page:
        for who in ("", "helper: "):
            asked = (await page.ask(f"{who}ask Which color?: red, blue"))["approval"]
            (question,) = asked["questions"]
            assert question["choice"] == {"text": "Which color?", "options": ["red", "blue"]}
            assert question["subagent"] == ("general-purpose" if who else None)
            wrong = await page.decide({question["path"]: {"approve": True}})
            assert wrong.status_code == 422  # a question is not approved
            answer = {question["path"]: {"answer": "green"}}
            assert (await page.decide(answer)).status_code == 202
            await page.settled()
            again = await page.decide(answer, approval=asked["id"])
            assert (again.status_code, again.json()["code"]) == (409, "stale")
            assert "The last tool answered:\n```\n" in page.last
            assert "green" in page.last
        assert {outcome for _, outcome in page.tools()} == {"success"}


@pytest.mark.slow
async def test_a_command_asks_and_its_files_are_listed(tmp_path: Path) -> None:
    async with working(tmp_path) as running, running.page() as page:
        await page.ask("run echo hello > made.txt")
        (question,) = page.questions
        assert (question["args"]["command"], question["diff"]) == ("echo hello > made.txt", None)
        user = await running.user()
        assert await user.files(page.id) == []
        await page.answer(approve=True)
        assert await user.files(page.id) == ["made.txt"]
        assert {"type": "files"} in page.messages


@pytest.mark.slow
async def test_an_open_approval_is_there_for_every_page_and_is_answered_once(tmp_path: Path) -> None:
    async with working(tmp_path) as running, running.page() as page:
        await page.ask("write notes.txt: red")
        user = await running.user()
        async with user.page(page.id) as first, user.page(page.id) as second:
            approval = first.state["approval"]
            assert approval["questions"][0]["tool"] == "write_file"
            assert second.state["approval"] == approval
            refused = await first.send("never mind")
            assert (refused.status_code, refused.json()["code"]) == (409, "waiting")
            path = approval["questions"][0]["path"]
            for verdicts in ({}, {"other": {"approve": True}}, {path: {"approve": True}, "more": {"approve": True}}):
                assert (await first.decide(verdicts)).status_code == 422
            await first.answer(approve=True)
            await second.settled()
            assert second.tools() == first.tools() == [("write_file", "success")]
            again = await second.decide({path: {"approve": True}}, approval=approval["id"])
            assert (again.status_code, again.json()) == (409, {"error": "This was answered already.", "code": "stale"})


@pytest.mark.slow
async def test_a_late_answer_does_not_reach_the_same_call_that_asks_again(tmp_path: Path) -> None:
    """The question is the same in each word: the page names the one that it shows."""
    calls = [Call("write_file", {"path": "a.txt", "content": "x"}, id="c1")] * 2
    model = ScriptedModel(Script(*calls, then="done").play())
    async with working(tmp_path, model) as running, running.page() as page:
        asked = (await page.ask("write it twice"))["approval"]
        await page.answer(approve=True)
        again = page.state["approval"]
        assert again["questions"][0]["path"] == asked["questions"][0]["path"]
        late = await page.decide({"c1": {"approve": True}}, approval=asked["id"])
        assert (late.status_code, late.json()["code"]) == (409, "stale")
        assert page.state["approval"]["id"] == again["id"] != asked["id"]
        await page.answer(approve=False)
        assert [e["outcome"] for e in page.events if e["kind"] == "tool_ended"] == ["success", "denied"]


# -- while it works ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_second_message_is_refused_and_all_pages_see_the_same(tmp_path: Path) -> None:
    gate = Gate()
    async with working(tmp_path, gate.model) as running, running.page() as first:
        user = await running.user()
        async with user.page(first.id) as second:
            await first.send("hold the end")
            await second.hears("holding ")
            refused = await second.send("me too")
            assert (refused.status_code, refused.json()["code"]) == (409, "busy")
            async with user.page(first.id) as third:
                assert (third.state["status"], third.writing) == ("running", "holding ")
                gate.go_on.set()
                for page in (first, second, third):
                    await page.settled()
                    assert page.last == "holding the end"
            assert first.events == second.events == third.events


@pytest.mark.slow
async def test_a_queued_message_follows_and_waits_where_all_see_it(tmp_path: Path) -> None:
    gate = Gate()
    async with working(tmp_path, gate.model) as running, running.page() as page:
        await page.send("hold it")
        await page.hears("holding ")
        assert (await page.send("say more", mode="queue")).status_code == 202
        await page.until(lambda message: message.get("queued") == ["say more"])
        gate.go_on.set()
        await page.until(lambda message: message["type"] == "event" and page.texts[-1] == ("assistant", "more"))
        await page.until(lambda message: message["type"] == "state" and message["queued"] == [])
        assert page.texts == [
            ("user", "hold it"),
            ("assistant", "holding it"),
            ("user", "say more"),
            ("assistant", "more"),
        ]


@pytest.mark.slow
async def test_a_steered_message_joins_the_run(tmp_path: Path) -> None:
    gate = Gate()

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        if len(messages) == 1:
            yield "first "
            await gate.go_on.wait()
            yield {0: DeltaToolCall("ls", "{}")}
        else:
            yield "steered"

    async with working(tmp_path, FunctionModel(stream_function=stream)) as running, running.page() as page:
        await page.send("go")
        await page.hears("first ")
        assert (await page.send("to the left", mode="steer")).status_code == 202
        gate.go_on.set()
        await page.settled()
        assert ("user", "to the left") in page.texts
        assert page.last == "steered"
        assert len([event for event in page.events if event["kind"] == "run_started"]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["send", "queue", "steer"])
async def test_a_message_that_is_sent_again_is_taken_once_also_after_a_restart(tmp_path: Path, mode: str) -> None:
    async def twice(page: Page) -> None:
        answers = await asyncio.gather(*(page.send("say hello", mode=mode, id="message-0001") for _ in range(5)))
        assert [answer.status_code for answer in answers] == [202] * 5

    async with working(tmp_path) as running, running.page() as page:
        await twice(page)
        await page.settled()
        session_id = page.id
    async with working(tmp_path) as running:
        user = await running.user()
        async with user.page(session_id) as page:
            await twice(page)
            await page.ask("say bye")
            assert page.texts == [
                ("user", "say hello"),
                ("assistant", "hello"),
                ("user", "say bye"),
                ("assistant", "bye"),
            ]


@pytest.mark.slow
async def test_a_run_continues_when_the_last_page_is_gone(tmp_path: Path) -> None:
    gate = Gate()
    async with working(tmp_path, gate.model) as running:
        user = await running.user()
        async with user.page(await user.create()) as page:
            await page.send("hold the end")
            await page.hears("holding ")
            page.connection.transport.abort()  # as when a lid is closed
        gate.go_on.set()
        async with user.page(page.id) as again:
            await again.reaches("idle")
            assert again.last == "holding the end"
        assert gate.requests == 1


@pytest.mark.slow
async def test_a_page_continues_at_the_number_where_it_stopped(tmp_path: Path) -> None:
    gate = Gate()
    async with working(tmp_path, gate.model) as running, running.page() as page:
        user = await running.user()
        await page.ask("say before")
        async with user.page(page.id) as broken:
            await page.send("hold the end")
            await broken.hears("holding ")
            seen = [*broken.events]
            broken.connection.transport.abort()
        gate.go_on.set()
        await page.settled()
        async with user.page(page.id, after=seen[-1]["n"]) as resumed:
            assert resumed.boot == broken.boot
            assert [*seen, *resumed.events] == page.events


@pytest.mark.slow
async def test_a_run_can_be_stopped_and_the_conversation_continues(tmp_path: Path) -> None:
    gate = Gate()
    async with working(tmp_path, gate.model) as running, running.page() as page:
        await page.send("hold for ever")
        await page.hears("holding ")
        assert (await page.do("stop")).status_code == 202
        await page.settled()
        assert page.ended["status"] == "aborted"
        assert page.texts == [("user", "hold for ever"), ("assistant", "holding ")]
        assert (await page.do("stop")).status_code == 202  # nothing to stop: nothing happens
        await page.ask("say still here")
        assert page.last == "still here"


@pytest.mark.slow
@pytest.mark.parametrize("end", ["stopped", "failed"])
@pytest.mark.parametrize("goes_on", ["resume", "message"])
async def test_what_waits_is_held_after_a_turn_that_ended_early(tmp_path: Path, end: str, goes_on: str) -> None:
    gate = Gate()
    async with working(tmp_path, gate.model) as running, running.page() as page:
        await page.send("hold it" if end == "stopped" else "hold it and fail")
        await page.hears("holding ")
        await page.send("say next", mode="queue")
        await page.until(lambda message: message.get("queued") == ["say next"])
        assert page.state["held"] is False
        if end == "stopped":
            await page.do("stop")
        gate.go_on.set()
        await page.until(lambda message: message.get("held") is True)
        await (page.do("resume") if goes_on == "resume" else page.send("say last"))
        last = "next" if goes_on == "resume" else "last"
        await page.until(lambda message: bool(page.texts) and page.texts[-1] == ("assistant", last))
        said = [text for role, text in page.texts if role == "user"]
        assert said[1:] == (["say next"] if goes_on == "resume" else ["say next", "say last"])


@pytest.mark.slow
async def test_nothing_is_taken_back_that_the_page_has_not_seen(tmp_path: Path) -> None:
    async with working(tmp_path) as running, running.page() as page:
        await page.ask("say one")
        (first,) = [event["n"] for event in page.events if event["kind"] == "run_started"]
        seen = page.events[-1]["n"]
        await page.ask("say two")
        refused = await page.send("say again", instead_of=first, seen=seen)
        assert (refused.status_code, refused.json()["code"]) == (409, "stale")
        assert [text for role, text in page.texts if role == "user"] == ["say one", "say two"]
        await page.ask("say again", instead_of=first, seen=page.events[-1]["n"])
        assert page.last == "again"


@pytest.mark.slow
async def test_stopping_ends_the_calls_that_wait(tmp_path: Path) -> None:
    async with working(tmp_path) as running, running.page() as page:
        await page.ask("write notes.txt: red")
        await page.do("stop")
        await page.reaches("idle")
        assert page.state["approval"] is None
        await page.ask("say still here")
        assert not (running.folder / "notes.txt").exists()


@pytest.mark.slow
async def test_a_failing_provider_is_reported_and_the_conversation_continues(tmp_path: Path) -> None:
    gate = Gate()
    async with working(tmp_path, gate.model) as running, running.page() as page:
        state = await page.ask("fail")
        assert (page.ended["status"], state["status"]) == ("failed", "failed")
        assert "the provider is away" in page.ended["message"]  # the owner of the token may read it
        await page.ask("say still here")
        assert page.last == "still here"


@pytest.mark.parametrize("shows", [True, False])
async def test_what_to_do_about_a_failed_run_is_said_to_who_has_the_server(tmp_path: Path, *, shows: bool) -> None:
    gate = Gate()
    async with working(tmp_path, gate.model, show_errors=shows) as running, running.page() as page:
        state = await page.ask("unpaid")
        assert state["again"] == "failed"
        assert bool(state["advice"]) == shows


async def test_a_run_that_failed_is_tried_again_with_its_message_once(tmp_path: Path) -> None:
    gate = Gate()
    async with working(tmp_path, gate.model) as running, running.page() as page:
        state = await page.ask("flaky thing")
        assert (state["status"], state["again"]) == ("failed", "failed")
        assert "the account is locked" in page.ended["message"]
        assert (await page.do("retry")).status_code == 202
        await page.until(lambda message: message.get("kind") == "run_ended")  # it fails again
        gate.go_on.set()
        assert (await page.do("retry")).status_code == 202
        assert (await page.reaches("idle"))["again"] is None
        assert page.texts == [("user", "flaky thing"), ("assistant", "asked 1 time")]
        refused = await page.do("retry")  # it completed
        assert (refused.status_code, refused.json()["code"]) == (409, "stale")


async def test_what_was_stopped_is_tried_again_but_nothing_that_runs_or_waits(tmp_path: Path) -> None:
    gate = Gate()
    async with working(tmp_path, gate.model) as running, running.page() as page:
        assert (await page.do("retry")).json()["code"] == "stale"  # nothing was said yet
        assert (await page.send("hold the line")).status_code == 202
        await page.hears("holding ")
        refused = await page.do("retry")
        assert (refused.status_code, refused.json()["code"]) == (409, "busy")
        await page.do("stop")
        assert (await page.settled())["again"] == "stopped"
        gate.go_on.set()
        assert (await page.do("retry")).status_code == 202
        await page.settled()
        assert page.last == "holding the line"
        await page.ask("write notes.txt: red")
        refused = await page.do("retry")
        assert (refused.status_code, refused.json()["code"]) == (409, "waiting")
        user = await running.user()
        assert (await user.http.post("/api/sessions/unknown/retry")).status_code == 404


@pytest.mark.skipif(not hasattr(AbstractCapability, "prepare_model_request"), reason="needs Pydantic AI 2.64")
async def test_a_conversation_is_summarized_and_goes_on(tmp_path: Path) -> None:
    model = ScriptedModel(Script("word " * 900, "word " * 900, "A summary.", "Here.").play())
    async with working(tmp_path, model) as running, running.page() as page:
        refused = await page.do("compact")
        assert (refused.status_code, refused.json()) == (
            409,
            {"code": "stale", "error": "There is nothing to compact yet."},
        )
        await page.ask("one")
        await page.ask("two")
        user = await running.user()
        done = await user.http.post(f"/api/sessions/{page.id}/compact", json={"keep": "the second word"})
        assert done.status_code == 200
        assert done.json()["text"].startswith("4 messages are summarized")
        await page.ask("three")
        assert page.last == "Here."
        assert (await user.http.post("/api/sessions/unknown/compact")).status_code == 404


async def test_nothing_that_runs_or_waits_is_summarized(tmp_path: Path) -> None:
    gate = Gate()
    async with working(tmp_path, gate.model) as running, running.page() as page:
        assert (await page.send("hold the line")).status_code == 202
        await page.hears("holding ")
        refused = await page.do("compact")
        assert (refused.status_code, refused.json()["code"]) == (409, "busy")
        gate.go_on.set()
        await page.settled()
        await page.ask("write notes.txt: red")
        refused = await page.do("compact")
        assert (refused.status_code, refused.json()["code"]) == (409, "waiting")


async def test_an_answer_that_was_cut_is_said(tmp_path: Path) -> None:
    model = ScriptedModel(Script(Turn(text="once upon", finish="length")).play())
    async with working(tmp_path, model) as running, running.page() as page:
        state = await page.ask("a story")
        assert (page.last, page.ended["finish_reason"], state["again"]) == ("once upon", "length", None)
        assert "cut at the model's limit of tokens" in page.ended["words"]


@pytest.mark.slow
async def test_pages_follow_a_session_to_another_model(tmp_path: Path) -> None:
    async with working(tmp_path) as running, running.page() as page:
        await page.ask("say one")
        await page.ask("say two", model="script:other")
        said = [("user", "say one"), ("assistant", "one"), ("user", "say two"), ("assistant", "two")]
        assert page.texts == said  # the pieces of a message may be missed meanwhile, the message may not
        assert page.state["model"] == "script:other"
        await page.ask("say three")  # stays with it
        assert page.state["model"] == "script:other"
        refused = await page.send("say four", model="openai:not-offered")
        assert refused.status_code == 422
        user = await running.user()
        async with user.page(page.id) as again:
            assert again.texts == page.texts
            assert again.state["model"] == "script:other"


MALFORMED = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"\x00\xff",
    b'{"id": "abcdefgh"}',
    b'{"text": "a"}',
    b'{"id": "abcdefgh", "text": ""}',
    b'{"id": "abcdefgh", "text": 7}',
    b'{"id": "abcdefgh", "text": "a", "more": 1}',
    b'{"id": "abcdefgh", "text": "a", "mode": "dance"}',
    b'{"id": "../../../etc", "text": "a"}',
    json.dumps({"id": "abcdefgh", "text": "x" * 200_001}).encode(),
]


@pytest.mark.slow
async def test_what_is_no_message_is_refused_and_the_page_stays(tmp_path: Path) -> None:
    async with working(tmp_path) as running, running.page() as page:
        user = await running.user()
        for body in MALFORMED:
            response = await user.http.post(f"/api/sessions/{page.id}/messages", content=body)
            assert (response.status_code, [*response.json()]) == (422, ["error"]), body
        huge = await user.http.post(f"/api/sessions/{page.id}/messages", content=b"x" * 3_000_000)
        assert huge.status_code == 413
        for body in ({"approval": "x", "verdicts": []}, {"approval": "x", "verdicts": {"a": {"approve": "perhaps"}}}):
            assert (await user.http.post(f"/api/sessions/{page.id}/decisions", json=body)).status_code == 422
        await page.connection.send("x" * 1_000)  # what a page sends to the socket means nothing
        await page.ask("say fine")
        assert page.last == "fine"


async def test_whatever_goes_wrong_is_reported_in_one_form(tmp_path: Path) -> None:
    async with working(tmp_path) as running, running.page() as page:
        user = await running.user()
        for method, path, status, text in [
            ("GET", "/nothing", 404, "Not Found"),
            ("PUT", "/api/sessions", 405, "Method Not Allowed"),
            ("GET", "/api/sessions/unknown", 404, "There is no such session."),
            ("GET", f"/api/sessions/{'x' * 2_000}", 404, "There is no such session."),
            ("POST", f"/api/sessions/{page.id}/uploads", 422, "name: Field required"),
        ]:
            response = await user.http.request(method, path)
            assert (response.status_code, response.json()) == (status, {"error": text}), path
            assert response.headers["x-content-type-options"] == "nosniff"


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_uploads_are_streamed_bounded_and_announced_to_the_agent(tmp_path: Path) -> None:
    config = "[plugins.web.options]\nmax_upload_bytes = 3145728\n"
    async with working(tmp_path, config=config) as running, running.page() as page:
        user = await running.user()
        folder = running.folder / "uploads"

        async def pieces(count: int) -> AsyncIterator[bytes]:
            for _ in range(count):
                yield b"x" * 1024 * 1024

        done = await user.upload(page.id, "a/../big <b>.bin", pieces(2))
        assert done.status_code == 201, done.text
        assert done.json()["path"] == "uploads/big _b_.bin"
        assert (folder / "big _b_.bin").stat().st_size == 2 * 1024 * 1024
        await page.until(lambda message: message["type"] == "files")
        for data in (pieces(4), b"x" * (4 * 1024 * 1024)):  # told by its length, and not
            refused = await user.upload(page.id, "huge.bin", data)
            assert refused.status_code == 413
            assert "huge.bin" in refused.json()["error"]
        assert [path.name for path in folder.iterdir()] == ["big _b_.bin"]


async def test_files_are_read_as_bytes_and_never_beyond_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("of somebody else")
    config = "[plugins.web.options]\nmax_file_bytes = 1000\n"
    async with working(tmp_path, config=config) as running, running.page() as page:
        user = await running.user()
        evil = b"<script>alert(1)</script>"
        (running.folder / "page.html").write_bytes(evil)
        (running.folder / "large.txt").write_bytes(b"x" * 1001)
        (running.folder / "link.txt").symlink_to(tmp_path / "secret.txt")
        base = f"/api/sessions/{page.id}/files"
        got = await user.http.get(f"{base}/page.html")
        assert got.content == evil
        assert got.headers["content-type"] == "application/octet-stream"
        assert got.headers["content-disposition"] == "attachment; filename*=UTF-8''page.html"
        assert got.headers["x-content-type-options"] == "nosniff"
        assert (await user.http.get(f"{base}/large.txt")).status_code == 413
        for way in ("uploads", "..%2fsecret.txt", "link.txt", "%2fetc%2fpasswd", "none", "a%00b"):
            response = await user.http.get(f"{base}/{way}")
            assert (response.status_code, response.json()) == (404, {"error": "There is no such file."}), way


@pytest.mark.slow
async def test_the_file_list_leaves_out_what_no_person_wrote(tmp_path: Path) -> None:
    async with working(tmp_path) as running, running.page() as page:
        user, folder = await running.user(), running.folder
        for name in ("src/a.py", "src/__pycache__/a.pyc", ".git/config", "node_modules/x.js", "build/out.o", "n.log"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("x")
        assert await user.files(page.id) == ["n.log", "build/out.o", "src/a.py"]
        (folder / ".gitignore").write_text("build/\n*.log\n")
        (folder / "src" / ".gitignore").write_text("gen.py\n")
        (folder / "src" / "gen.py").write_text("x")
        assert await user.files(page.id) == ["src/a.py"]


@pytest.mark.slow
async def test_the_file_list_survives_whatever_a_command_leaves_behind(tmp_path: Path) -> None:
    async with working(tmp_path) as running, running.page() as page:
        user, folder = await running.user(), running.folder
        (folder / "kept.txt").write_text("x")
        for name in ("one", "two"):  # entered, these would be 2 to the 40 directories
            (folder / name).symlink_to(".")
        (folder / "outside").symlink_to(tmp_path)
        if sys.platform == "linux":  # others refuse such a name
            (folder / os.fsdecode(b"\xff.txt")).write_text("no Unicode")
        (folder / "gone").symlink_to("nowhere")
        for number in range(600):
            (folder / "empty" / str(number)).mkdir(parents=True)
        listed = await user.http.get(f"/api/sessions/{page.id}/files")
        assert listed.status_code == 200, listed.text
        assert {"path": "kept.txt", "size": 1} in listed.json()["files"]
        assert all("/" not in file["path"] for file in listed.json()["files"])
        assert listed.json()["more"]
