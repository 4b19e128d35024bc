"""`deep sessions import-chats`: what earlier versions of `deep chat` stored in files becomes sessions, once."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deep_cli.run.agent import make_agent
from deep_cli.run.names import project
from pydantic import TypeAdapter
from pydantic_ai import Conversation, DeferredToolRequests
from pydantic_ai.usage import RunUsage

from deep_core import Kernel, create_default_deps
from plugins.cli.tests.chat_terminal import CTRL_D, Terminal
from tests.environments import Finished
from tests.stubs import Call, OpenAIStub, Script, function_model

TODO = {"todos": [{"content": "buy milk", "status": "pending", "active_form": "Buying milk"}]}
EXECUTE = Call("execute", {"command": "printf x >> effects.txt"})

DAMAGE: list[tuple[Callable[[str], str], str]] = [
    (lambda text: text[: len(text) // 2], "Unterminated string"),
    (lambda text: "", "Expecting value"),
    (lambda text: "[" * 100_000, "recursion"),
    (lambda text: "[]", "should be an object"),
    (lambda text: text.replace('"kind":"response"', '"kind":"nosuch"'), "conversation"),
    (lambda text: text.replace('"format":1', '"format":2', 1), "written by a later deep-cli"),
    (lambda text: text.replace('"deps":"', '"deps":"x', 1), "not a session dump"),
]


@pytest.fixture
def deep(make_deep: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command, with todos."""
    monkeypatch.setenv("DEEP_PLUGINS_ALLOW", "backends,cli,filesystem,sessions,todo")
    return make_deep("backends", "filesystem", "todo")


def converse(*answers: Any) -> tuple[Conversation, str]:
    """A conversation as an earlier version ran it: its messages, and what the plugins kept."""

    async def run() -> tuple[Conversation, str]:
        with Kernel() as kernel:
            agent = make_agent(kernel, function_model(Script(*answers)), "local").agent
            deps = create_default_deps(kernel=kernel)
            result = await agent.run("hello", deps=deps)
            pending = result.output if isinstance(result.output, DeferredToolRequests) else None
            usage = RunUsage(requests=7, input_tokens=1000, output_tokens=10)
            messages = result.all_messages()
            return Conversation(messages=messages, usage=usage, deferred_tool_requests=pending), deps.dump()

    return asyncio.run(run())


def keep(deep: Any, digits: str, conversation: Conversation, deps: str, *, at: int = 1) -> Path:
    """Write a file of the current folder, as an earlier version did."""
    folder = os.path.realpath(deep.work)
    document = {
        "format": 1,
        "id": digits,
        "folder": folder,
        "model": "openai-chat:stub",
        "backend": "local",
        "deps": deps,
        "conversation": TypeAdapter(Conversation).dump_python(conversation, mode="json"),
    }
    file = deep.environment.home / ".local" / "share" / "deep" / "chats" / project(folder) / f"{digits}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document, separators=(",", ":")), encoding="utf-8")
    os.utime(file, (at, at))
    return file


def imported(deep: Any, *arguments: str) -> list[str]:
    """The lines of the command."""
    return deep("sessions", "import-chats", *arguments).ok().out.splitlines()


def resumed(deep: Any, stub: OpenAIStub, text: str, *arguments: str) -> Finished:
    """Send a message to a chat that is resumed."""
    return deep.piped(text, "chat", "--resume", *arguments, env=stub.env).ok()


@pytest.mark.slow
def test_a_chat_continues_with_its_history_its_todos_its_model_and_what_it_has_cost(deep: Any) -> None:
    file = keep(deep, "0123abcd", *converse(Call("write_todos", TODO), "noted"))
    before, session = file.read_bytes(), f"{file.parent.name}.0123abcd"
    assert imported(deep) == [f"imported {session}"]
    assert file.read_bytes() == before
    with (
        OpenAIStub(Script(Call("read_todos", {}), "milk")) as stub,
        Terminal(deep, "chat", "--resume", "0123abcd", env=stub.env) as terminal,
    ):
        terminal.expect("> hello")
        terminal.expect("noted")
        terminal.say("what is left?")
        terminal.expect("milk")
        terminal.say("/cost")
        terminal.expect("9 requests")
        terminal.prompt()
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    request = stub.requests[-1]
    assert request["model"] == "stub"
    assert "buy milk" in next(m["content"] for m in reversed(request["messages"]) if m["role"] == "tool")


@pytest.mark.slow
def test_a_question_that_was_open_is_asked_again_and_the_call_runs_once(deep: Any) -> None:
    keep(deep, "0123abcd", *converse(EXECUTE))
    imported(deep)
    with OpenAIStub(Script("done")) as stub, Terminal(deep, "chat", "--resume", env=stub.env) as terminal:
        assert "printf x >> effects.txt" in terminal.answer("y")
        terminal.expect("done")
        terminal.prompt()
    assert (deep.work / "effects.txt").read_text() == "x"


@pytest.mark.slow
def test_a_second_import_skips_what_exists_and_the_newest_file_is_the_newest_chat(deep: Any) -> None:
    keep(deep, "00000001", *converse("from the newer one"), at=2_000_000_000)
    keep(deep, "00000002", *converse("from the older one"), at=1_000_000_000)
    first = imported(deep, "--dry-run")
    assert [line.partition(project(os.path.realpath(deep.work)))[2] for line in first] == [".00000002", ".00000001"]
    assert all(line.startswith("would import ") for line in first)
    assert [line.partition(" ")[0] for line in imported(deep)] == ["imported", "imported"]
    with OpenAIStub(Script("good")) as stub:
        resumed(deep, stub, "go on\n")
    assert ("assistant", "from the newer one") in [(m["role"], m["content"]) for m in stub.requests[0]["messages"]]
    assert all("it is a session already" in line for line in imported(deep))
    assert "good" in deep("sessions", "show", first[1].rpartition(" ")[2]).ok().out


@pytest.mark.slow
@pytest.mark.parametrize(("change", "said"), DAMAGE)
def test_a_damaged_or_newer_file_is_one_line_and_the_others_are_imported(
    deep: Any, change: Callable[[str], str], said: str
) -> None:
    damaged = keep(deep, "0123abcd", *converse("one"))
    damaged.write_text(change(damaged.read_text("utf-8")), encoding="utf-8")
    before = damaged.read_bytes()
    keep(deep, "0123abce", *converse("one"))
    lines = imported(deep)
    assert len(lines) == 2
    (problem,) = (line for line in lines if str(damaged) in line)
    assert said in problem
    assert damaged.read_bytes() == before


@pytest.mark.slow
def test_without_old_chats_it_says_so(deep: Any) -> None:
    assert imported(deep) == ["no chats of earlier versions; deep sessions list shows the stored ones"]
