"""`deep run --session` and `deep sessions`, as typed: real processes, real SQLite, a stub of a provider."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from deep_sessions import AgentDeps, DeepAgent, Event, Sessions, open_store, write_prompt
from deep_sessions.events import RunEnded

from plugins.cli.tests.chat_terminal import Terminal
from tests.stubs import Call, OpenAIStub, Script

MODEL = ("--model", "openai-chat:stub")
EXECUTE = Call("execute", {"command": "printf x >> effects.txt"})
CRASH = """
import os, pathlib
from deep_core import hookimpl

def burn(times: int = 1) -> str:
    "Write a line."
    with open("effects.txt", "a") as file:
        file.write("x")
    if pathlib.Path("armed").exists():
        pathlib.Path("armed").unlink()
        os.kill(os.getpid(), 9)
    return "burnt"

@hookimpl
def deep_toolsets():
    from pydantic_ai.toolsets import FunctionToolset

    return [FunctionToolset([burn], metadata={"tags": ["write"], "on_unknown": %r})]
"""


def texts(stub: OpenAIStub) -> str:
    return json.dumps(stub.requests[-1]["messages"])


def shown(deep: Any, name: str) -> Any:
    return json.loads(deep("sessions", "show", name, "--json").ok().out)


@pytest.mark.slow
def test_a_second_run_continues_the_session(deep: Any) -> None:
    with OpenAIStub(Script("Noted.", "Seven.")) as stub:
        deep("run", "Remember 7", *MODEL, "--session", "numbers", env=stub.env).ok()
        done = deep("run", "Which number?", *MODEL, "--session", "numbers", "--output", "json", env=stub.env)
    assert json.loads(done.ok().out)["session"] == "numbers"
    assert "Remember 7" in texts(stub)
    assert [message["text"] for message in shown(deep, "numbers")["messages"]] == [
        "Remember 7",
        "Noted.",
        "Which number?",
        "Seven.",
    ]


@pytest.mark.slow
def test_a_conversation_is_kept_under_an_id_that_deep_chat_resumes(deep: Any) -> None:
    with OpenAIStub(Script("Noted.", "You said hello.")) as stub:
        done = deep("run", "Hello", *MODEL, env=stub.env).ok()
        way = done.err.rpartition("deep chat --resume ")[2].split()[0]
        resumed = deep.piped("what did I say?\n", "chat", "--resume", way, env=stub.env)
    assert (resumed.code, resumed.out) == (0, "You said hello.\n")
    assert [m["content"] for m in stub.requests[-1]["messages"] if m["role"] == "user"] == ["Hello", "what did I say?"]


@pytest.mark.slow
def test_a_store_that_was_not_asked_for_may_fail_and_the_task_is_done(deep: Any) -> None:
    place = deep.environment.home / ".local" / "share"
    place.mkdir(parents=True)
    (place / "deep").write_text("a file where the folder should be")
    with OpenAIStub(Script("fine")) as stub:
        done = deep("run", "Hello", *MODEL, env=stub.env)
    assert (done.code, done.out) == (0, "fine\n")
    assert "this conversation is not stored: " in done.err
    assert "--resume" not in done.err


@pytest.mark.slow
@pytest.mark.parametrize(("on_unknown", "effects"), [("fail", "x"), ("retry", "xx")])
def test_a_killed_run_continues_and_an_effect_runs_again_only_if_its_author_allows_it(
    deep: Any, on_unknown: str, effects: str
) -> None:
    (deep.work / "crash.py").write_text(CRASH % on_unknown, encoding="utf-8")
    (deep.work / "armed").touch()
    with OpenAIStub(Script(Call("burn", {}), "done")) as stub:
        killed = deep("run", "Burn", *MODEL, "-p", "crash.py", "--approve", "allow", "--session", "s", env=stub.env)
        assert killed.code != 0
        assert "interrupted" in deep("sessions", "list").ok().out
        done = deep("sessions", "resume", "s", *MODEL, "-p", "crash.py", env=stub.env)
    assert (done.code, done.out) == (0, "done\n")
    assert (deep.work / "effects.txt").read_text() == effects
    assert "idle" in deep("sessions", "list").ok().out


@pytest.mark.slow
def test_a_call_that_waits_when_the_terminal_is_gone_is_asked_again_and_runs_once(deep: Any) -> None:
    with OpenAIStub(Script(EXECUTE, "done")) as stub:
        with Terminal(deep, "run", "Write", *MODEL, "--session", "s", env=stub.env) as terminal:
            terminal.expect("run it?")  # and the process is killed
        assert [call["tool"] for call in shown(deep, "s")["waiting"]] == ["execute"]
        done = deep("run", *MODEL, "--session", "s", "--approve", "allow", env=stub.env)
    assert (done.code, done.out) == (0, "done\n")
    assert (deep.work / "effects.txt").read_text() == "x"


@pytest.mark.slow
def test_a_session_is_forked_rewound_exported_and_deleted(deep: Any) -> None:
    with OpenAIStub(Script("one", "two", "three")) as stub:
        for text in ("1", "2"):
            deep("run", text, *MODEL, "--session", "a", env=stub.env).ok()
        entries = [json.loads(line) for line in deep("sessions", "export", "a").ok().out.splitlines()]
        ends = [entry["seq"] for entry in entries if entry.get("kind") == "run_ended"]
        assert deep("sessions", "fork", "a", "--at", str(ends[0]), "--name", "b").ok().out == "b\n"
        deep("run", "3", *MODEL, "--session", "b", env=stub.env).ok()
    assert [message["text"] for message in shown(deep, "b")["messages"]] == ["1", "one", "3", "three"]
    assert [message["text"] for message in shown(deep, "a")["messages"]] == ["1", "one", "2", "two"]
    undo = deep("sessions", "rewind", "a", "--to", str(ends[0])).ok().out
    assert [message["text"] for message in shown(deep, "a")["messages"]] == ["1", "one"]
    deep(*undo.rpartition("deep ")[2].split()).ok()
    assert len(shown(deep, "a")["messages"]) == 4
    assert deep("sessions", "delete", "a", "b").ok().out == "deleted a\ndeleted b\n"
    assert "no sessions" in deep("sessions", "list").ok().out


async def attend(url: str, act: Callable[[Sessions], Awaitable[None]]) -> list[Event]:
    """Watch the session `s` from this process, act once a call has started, and return the events of its run."""
    store = open_store(url)
    agent = await DeepAgent.create(deps=AgentDeps(model="test", session_store=store))
    events: list[Event] = []
    async with Sessions(agent) as sessions:
        async for event in sessions.stream("s"):
            events.append(event)
            if event.kind == "tool_started":
                await act(sessions)
            if event.kind == "run_ended":
                break
    await agent.close()
    await store.aclose()
    return events


@pytest.mark.slow
@pytest.mark.parametrize("act", ["steer", "cancel"])
def test_a_run_is_watched_steered_and_canceled_by_another_process(deep: Any, act: str) -> None:
    """Every interface on a store sees the same session: here a page beside the terminal."""
    url = f"sqlite:///{deep.work / 's.db'}"

    async def do(sessions: Sessions) -> None:
        if act == "cancel":
            await sessions.cancel("s")
        else:
            await sessions.steer("s", "Be brief.")
            (deep.work / "go").touch()

    wait = Call("execute", {"command": "touch begun; until [ -e go ]; do sleep 0.05; done"})
    with OpenAIStub(Script(wait, "done", "brief")) as stub:
        options = (*MODEL, "--approve", "allow", "--session", "s", "--store", url)
        process = deep.start("run", "Wait", *options, env=stub.env)
        while not (deep.work / "begun").exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        events = asyncio.run(attend(url, do))
        out, problem = process.communicate()
    ended = events[-1]
    assert isinstance(ended, RunEnded)
    if act == "cancel":
        assert (ended.status, process.returncode) == ("aborted", 130), problem
        assert "cancel" in problem
    else:
        assert (ended.status, process.returncode) == ("completed", 0), problem
        # It comes with the next request; after the last one, the run goes on with it; and after the run, it begins one.
        assert out in ("done\n", "brief\n", "done\n\nbrief\n")
        assert "Be brief." in texts(stub)


@pytest.mark.slow
def test_a_run_also_does_what_others_left_in_its_session(deep: Any) -> None:
    url = f"sqlite:///{deep.work / 's.db'}"
    options = (*MODEL, "--session", "s", "--store", url)

    async def queue(*messages: str) -> None:
        store = open_store(url)
        for message in messages:
            await store.post("s", "prompt", write_prompt(message))
        await store.aclose()

    with OpenAIStub(Script("one", "two", "three", "four", "five")) as stub:
        deep("run", "1", *options, env=stub.env).ok()
        asyncio.run(queue("3", "4"))
        assert deep("run", "2", *options, env=stub.env).ok().out == "two\n\nthree\n\nfour\n"
        assert "nothing to resume" in deep("run", *options, env=stub.env).err
        asyncio.run(queue("5"))
        assert deep("run", *options, env=stub.env).ok().out == "five\n"


@pytest.mark.slow
def test_wrong_use_is_one_line_that_says_what_to_type(deep: Any) -> None:
    for words, code, said in (
        (["run"], 2, "TASK is empty"),
        (["run", "x", "--store", "sqlite:///a.db"], 2, "--store needs --session NAME"),
        (["sessions", "show", "ghost"], 1, "ghost"),
        (["sessions", "list", "--store", "mysql://x"], 2, "sqlite:///sessions.db"),
        (["sessions", "resume", "ghost", *MODEL], 1, "ghost"),
    ):
        done = deep(*words, env={"OPENAI_API_KEY": "x"})
        assert (done.code, done.out) == (code, ""), words
        assert said in done.err
        assert "Traceback" not in done.err


@pytest.mark.slow
def test_a_session_of_another_folder_is_refused_in_one_line(deep: Any) -> None:
    other = deep.work / "other"
    other.mkdir()
    store = f"sqlite:///{deep.work}/s.db"
    run = ("run", "Hello", *MODEL, "--session", "s", "--store", store)
    with OpenAIStub(Script("Hello.")) as stub:
        deep(*run, env=stub.env).ok()
        done = deep.piped("", *run, cwd=other, env=stub.env)
        assert len(stub.requests) == 1
    assert done.code == 2
    assert done.err.splitlines()[-1] == f"deep: --session s: it is of {deep.work}: cd there, or choose another name"
