"""`deep chat` and `deep run` ask about each call of a subagent separately."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.cli.tests.chat_terminal import CTRL_D, Terminal
from tests.stubs import Call, OpenAIStub, RequestView, Script

MODEL = ("--model", "openai-chat:stub")
WRITE = Call("write_file", {"path": "new.txt", "content": "one\n"})
EXECUTE = Call("execute", {"command": "printf made > b.txt"})


def family(view: RequestView) -> Any:
    """The agent delegates to a child, the child writes and executes; both repeat the results."""
    if view.results:
        return " | ".join(result.text for result in view.results)
    return [WRITE, EXECUTE] if view.prompt == "the child's work" else Call("task", {"description": "the child's work"})


@pytest.fixture
def deep(make_deep: Any) -> Any:
    """The command with subagents, where writes ask too."""
    found = make_deep("backends", "filesystem", "subagents")
    found.config("[agent]\ninterrupt_on = { write_file = true }\n")
    return found


def start(deep: Any, stub: OpenAIStub, *arguments: str) -> Terminal:
    return Terminal(deep, *arguments, *MODEL, env=stub.env)


@pytest.mark.slow
@pytest.mark.parametrize("command", [("run", "go"), ("chat",)])
def test_each_call_of_a_child_is_asked_about_with_its_diff_and_decided_on_its_own(
    deep: Any, command: tuple[str, ...]
) -> None:
    with OpenAIStub(Script(then=family)) as stub, start(deep, stub, *command) as terminal:
        if command[0] == "chat":
            terminal.say("go")
        first = terminal.answer("no new files, please")
        second = terminal.answer("y")
        if command[0] == "run":
            assert terminal.end() == 3  # one was refused
        else:
            terminal.expect("no new files, please | ")
            terminal.prompt()
            terminal.type(CTRL_D)
            assert terminal.end() == 0
    assert "write_file wants to run  [filesystem, subagent general-purpose]" in first
    assert "+one" in first
    assert "execute wants to run  [filesystem, subagent general-purpose]" in second
    assert "command: printf made > b.txt" in second
    assert "denied: write_file new.txt" in terminal.screen
    assert "approved: execute $ printf made > b.txt" in terminal.screen
    assert "task wants to run" not in terminal.screen
    assert not (deep.work / "new.txt").exists()
    assert (deep.work / "b.txt").read_text() == "made"
    child = next(r for r in stub.requests if r["messages"][-1]["role"] == "tool" and len(r["messages"]) == 5)
    told = [message["content"] for message in child["messages"] if message["role"] == "tool"]
    assert told[0] == "The user refused this call: no new files, please"


@pytest.mark.slow
def test_without_a_person_to_ask_each_call_of_the_child_is_denied_and_the_child_reads_it(deep: Any) -> None:
    with OpenAIStub(Script(then=family)) as stub:
        done = deep("run", "go", *MODEL, env=stub.env)
    assert done.code == 3
    assert done.out.count("needs an approval, and no user is here") == 2
    assert "denied: write_file new.txt" in done.err
    assert "denied: execute $ printf made > b.txt" in done.err


@pytest.mark.slow
def test_a_childs_open_question_is_asked_again_in_another_process(deep: Any) -> None:
    with OpenAIStub(Script(then=family)) as stub:
        with start(deep, stub, "chat") as terminal:
            terminal.say("go")
            terminal.answer("y")
            terminal.expect("or say why not:")
            terminal.kill()
        assert not (deep.work / "new.txt").exists()  # nothing runs until all that the child waits for is decided
        with start(deep, stub, "chat", "--resume") as terminal:
            assert "subagent general-purpose" in terminal.answer("y")
            terminal.answer("y")
            terminal.prompt()
    assert (deep.work / "new.txt").read_text() == "one\n"
    assert (deep.work / "b.txt").read_text() == "made"
