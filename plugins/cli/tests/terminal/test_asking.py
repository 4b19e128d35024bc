"""`deep chat` and `deep run` show a question of the model as a choice."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.cli.tests.chat_terminal import CTRL_D, Terminal
from tests.stubs import Call, OpenAIStub, RequestView, Script

MODEL = ("--model", "openai-chat:stub")
ASK = Call("ask_user", {"question": "Which \x1b[2Jcolor?", "options": ["red", "blue"]})


def say_results(view: RequestView) -> Any:
    return " | ".join(result.text for result in view.results)


@pytest.fixture
def deep(make_deep: Any) -> Any:
    return make_deep("backends", "subagents", "ask")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "chat"])
def test_an_option_or_own_words_answer_a_question_of_the_agent_and_of_its_child(deep: Any, command: str) -> None:
    words = [command, "go"] if command == "run" else [command]
    with (
        OpenAIStub(Script(ASK, Call("task", {"description": "the child's work"}), ASK, then=say_results)) as stub,
        Terminal(deep, *words, *MODEL, env=stub.env) as terminal,
    ):
        if command == "chat":
            terminal.say("go")
        first = terminal.expect("your answer (1-2, or in your own words):")
        terminal.type("2\n" if command == "chat" else "\n2\n")
        second = terminal.expect("subagent general-purpose]")
        terminal.expect("your answer")
        terminal.type("neither, green\n")
        terminal.expect("✓ task")
        if command == "chat":
            terminal.prompt()
            terminal.type(CTRL_D)
        assert terminal.end() == 0
    assert "? Which \\x1b[2Jcolor?  [ask]" in first
    assert "    1  red" in first
    assert "Which" in second
    told = {m["content"] for request in stub.requests for m in request["messages"] if m["role"] == "tool"}
    assert {"blue", "neither, green"} <= told


@pytest.mark.slow
def test_without_a_terminal_the_tool_is_not_offered_and_a_question_that_is_configured_is_not_answered(
    deep: Any,
) -> None:
    with OpenAIStub(Script("fine")) as stub:
        assert deep("run", "go", *MODEL, env=stub.env).code == 0
        assert "ask_user" not in [tool["function"]["name"] for tool in stub.requests[0]["tools"]]
    deep.config("[plugins.ask.options]\noffer = true\n")
    with OpenAIStub(Script(ASK, "I took red.")) as stub:
        done = deep("run", "go", *MODEL, env=stub.env)
    assert (done.code, done.out) == (0, "I took red.\n")
    assert "No user is here to answer" in stub.requests[-1]["messages"][-1]["content"]
