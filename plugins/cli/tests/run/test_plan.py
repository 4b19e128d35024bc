"""Plan mode: only tools that read, until the user approves the plan; also after a kill."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.cli.tests.chat_terminal import CTRL_D, Terminal
from tests.stubs import Call, OpenAIStub, Script

MODEL = ("--model", "openai-chat:stub")
WRITE = Call("write_file", {"path": "new.txt", "content": "one\n"})
TODOS = Call("write_todos", {"todos": [{"content": "write new.txt", "status": "pending"}]})


@pytest.fixture
def deep(make_deep: Any) -> Any:
    return make_deep("backends", "filesystem", "todo", "subagents")


def tools(stub: OpenAIStub, number: int) -> set[str]:
    return {tool["function"]["name"] for tool in stub.requests[number]["tools"]}


@pytest.mark.slow
@pytest.mark.parametrize("session", [(), ("--session", "s")])
def test_a_run_reads_and_plans_and_only_then_writes(deep: Any, session: tuple[str, ...]) -> None:
    with OpenAIStub(Script([TODOS, WRITE], "My plan: write it.", WRITE, "Written.")) as stub:
        done = deep("run", "go", "--plan", "--approve", "allow", *session, *MODEL, env=stub.env)
    assert (done.code, done.out) == (0, "Written.\n"), done.err
    assert tools(stub, 0) == tools(stub, 1) == {"ls", "read_file", "glob", "grep", "read_todos", "write_todos", "task"}
    assert {"write_file", "edit_file", "execute"} <= tools(stub, 2)
    refused = [m["content"] for m in stub.requests[1]["messages"] if m["role"] == "tool"][1]
    assert "write_file" in refused
    assert "Plan first" in stub.requests[0]["messages"][0]["content"]
    said = [m["content"] for m in stub.requests[2]["messages"] if m["role"] == "user"]
    assert (said[0], said[-1]) == ("go", "The plan is approved. Carry it out.")
    assert "approved: plan" in done.err


@pytest.mark.slow
def test_without_a_terminal_the_plan_is_the_answer_and_nothing_is_done(deep: Any) -> None:
    with OpenAIStub(Script([TODOS], "My plan: write it.")) as stub:
        done = deep("run", "go", "--plan", *MODEL, env=stub.env)
    assert (done.code, done.out) == (3, "My plan: write it.\n")
    assert "denied: plan" in done.err


@pytest.mark.slow
def test_a_chat_stays_in_plan_mode_over_a_kill_until_the_plan_is_approved(deep: Any) -> None:
    answers = [
        "It is empty.",
        TODOS,
        "I will write it.",
        "## Plan\n\nA better one.",
        "Plan: as it was.",
        WRITE,
        "Written.",
    ]
    with OpenAIStub(Script(*answers)) as stub:
        with Terminal(deep, "chat", "--plan", *MODEL, env=stub.env) as chat:
            chat.say("What is here?")
            chat.expect("It is empty.")
            chat.prompt()
            chat.say("go")
            shown = chat.expect("your answer (1-2, or in your own words):")
            chat.type("make it better\n")
            chat.expect("A better one.")
            chat.expect("your answer")
            chat.process.kill()
        assert "- write new.txt" in shown
        assert "? Carry out this plan?" in shown
        with Terminal(deep, "chat", "--resume", "--approve", "allow", *MODEL, env=stub.env) as chat:
            chat.expect("plan mode: only tools that read")
            chat.say("and now?")
            chat.expect("Written.")
            chat.prompt()
            chat.type(CTRL_D)
            assert chat.end() == 0
    assert all("write_file" not in tools(stub, number) for number in range(5))
    assert "write_file" in tools(stub, 5)
    assert (deep.work / "new.txt").read_text() == "one\n"
