"""`--agent`: an agent of another program in the chat and in `deep run`, with only the command line installed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from plugins.cli.tests.chat_terminal import CTRL_D, SHIFT_TAB, Terminal
from tests.stubs import Call, OpenAIStub, Script

PLAIN = '''
from pydantic_ai import Agent

agent = Agent("openai-chat:stub", instructions="You roll dice.")


@agent.tool_plain
def roll(sides: int) -> str:
    """Roll a die."""
    return f"rolled a die of {sides} sides"


@agent.tool_plain(requires_approval=True)
def bet(money: int) -> str:
    """Bet money."""
    open("bets.txt", "a").write(f"{money}\\n")
    return f"bet {money}"
'''
WITH_DEPS = '''
from dataclasses import dataclass

from pydantic_ai import Agent, RunContext


@dataclass
class Shop:
    name: str


dealer = Agent("openai-chat:stub", deps_type=Shop)


@dealer.tool
def shop(ctx: RunContext[Shop]) -> str:
    """The shop."""
    return f"this is {ctx.deps.name}"


def make():
    return dealer, Shop("Ann's")


async def later():
    return make()


def with_argument(place):
    return dealer


number = 7
'''
DEEP = '''
from deep_core import create_deep_agent
from pydantic_ai.models.test import TestModel


def roll(sides: int) -> str:
    """Roll a die."""
    return f"rolled {sides}"


made = create_deep_agent("openai-chat:stub", tools=[roll], backend="memory", interrupt_on={"roll": True})


async def stored():
    from deep_sessions import AgentDeps, DeepAgent

    return await DeepAgent.create(deps=AgentDeps(model="openai-chat:stub"), tools=[roll])
'''


@pytest.fixture
def deep(make_deep: Callable[..., Any]) -> Any:
    """The command line alone, and agents in the folder."""
    found = make_deep()
    for name, text in [("dice.py", PLAIN), ("shops.py", WITH_DEPS)]:
        (found.work / name).write_text(text, encoding="utf-8")
    return found


def told(stub: OpenAIStub) -> str:
    """What the model read of the results of calls, in the last request."""
    return json.dumps([m["content"] for m in stub.requests[-1]["messages"] if m["role"] == "tool"])


@pytest.mark.slow
def test_a_chat_with_a_bare_agent_shows_its_calls_asks_plans_and_is_resumed(deep: Any) -> None:
    script = Script(Call("roll", {"sides": 6}), "Six.", Call("bet", {"money": 5}), "I bet.", "Plan: roll.", "Again.")
    with OpenAIStub(script) as stub:
        with Terminal(deep, "chat", "--agent", "dice.py:agent", env=stub.env) as chat:
            chat.say("Roll.")
            chat.expect("✓ roll sides=6")
            chat.expect("Six.")
            chat.say("Bet.")
            chat.expect("bet wants to run")
            chat.see("    run it?")
            chat.type("y\r")
            chat.expect("I bet.")
            chat.say("/tools")
            chat.expect("bet                      app, asks: always")
            chat.prompt()
            chat.type(SHIFT_TAB)
            chat.type(SHIFT_TAB)
            chat.see("ready · plan")
            chat.say("Plan.")
            chat.see("    your answer")
            chat.type("2\r")
            chat.prompt()
            chat.type(CTRL_D)
            chat.expect("--agent dice.py:agent")
            assert chat.end() == 0
        assert "tools" not in stub.requests[-1]  # neither says that it only reads
        other = deep("chat", "--resume", env=stub.env)
        assert other.code == 2
        assert "--agent dice.py:agent" in other.err
        again = deep.piped("And?\n", "chat", "--resume", "--agent", "dice.py:agent", env=stub.env).ok()
    assert again.out == "Again.\n"
    assert (deep.work / "bets.txt").read_text() == "5\n"
    first = stub.requests[0]["messages"]
    assert [m["content"] for m in first if m["role"] == "system"] == ["You roll dice."]
    texts = [m["content"] for m in stub.requests[-1]["messages"] if m["role"] == "user"]
    assert texts == ["Roll.", "Bet.", "Plan.", "And?"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["shops:make", "shops.py:make", "shops:later", "./shops.py:make"], ids=["module", "file", "async", "dotted"]
)
def test_a_function_gives_the_deps_of_its_tools(deep: Any, name: str) -> None:
    with OpenAIStub(Script(Call("shop"), "Done.")) as stub:
        done = deep("run", "Which shop?", "--agent", name, env=stub.env).ok()
        assert done.out == "Done.\n"
        assert "1 tool call and 2 requests" in done.err
    assert "this is Ann's" in told(stub)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gone:agent", "No module named 'gone'"),
        ("gone.py:agent", "there is no such file"),
        ("dice.py:agnet", "Did you mean 'agent'?"),
        ("shops:number", "int is no agent"),
        ("shops:with_argument", "needs 'place'"),
        ("shops:dealer", "need deps of type Shop"),
        ("shops", "shops has no 'agent'"),
    ],
)
def test_a_name_that_is_no_agent_is_an_error_of_usage(deep: Any, name: str, says: str) -> None:
    done = deep("run", "Go.", "--agent", name, env={"OPENAI_API_KEY": "x"})
    assert (done.code, done.out) == (2, "")
    assert says in done.err


@pytest.mark.slow
def test_a_key_that_it_needs_is_asked_for_or_taken_from_those_stored(deep: Any) -> None:
    done = deep("run", "Go.", "--agent", "dice.py")
    assert done.code == 2
    assert "deep keys set OPENAI_API_KEY" in done.err
    deep.piped("a-key", "keys", "set", "openai").ok()
    with OpenAIStub(Script("Done.")) as stub:
        env = {name: value for name, value in stub.env.items() if not name.endswith("_API_KEY")}
        assert deep("run", "Go.", "--agent", "dice.py", env=env).ok().out == "Done.\n"


@pytest.mark.slow
def test_a_model_can_be_named_and_an_agent_without_one_needs_it(deep: Any) -> None:
    (deep.work / "bare.py").write_text("from pydantic_ai import Agent\nagent = Agent()\n", encoding="utf-8")
    assert deep("run", "Go.", "--agent", "bare.py").code == 2
    with OpenAIStub(Script("Done.")) as stub:
        assert deep("run", "Go.", "--agent", "bare.py", "-m", "openai-chat:other", env=stub.env).ok().out == "Done.\n"
    assert stub.requests[-1]["model"] == "other"


@pytest.mark.slow
def test_an_agent_of_deep_keeps_its_policy_and_its_state(make_deep: Callable[..., Any]) -> None:
    deep = make_deep("backends", "todo")
    (deep.work / "mine.py").write_text(DEEP, encoding="utf-8")
    with OpenAIStub(Script(Call("roll", {"sides": 6}), "Denied.", Call("roll", {"sides": 4}), "Rolled.")) as stub:
        denied = deep("run", "Roll.", "--agent", "mine:made", env=stub.env)
        assert (denied.code, denied.out) == (3, "Denied.\n")
        assert {tool["function"]["name"] for tool in stub.requests[0]["tools"]} >= {"roll", "write_todos"}
        assert deep("run", "Roll.", "--agent", "mine:stored", env=stub.env).ok().out == "Rolled.\n"
    assert "rolled 4" in told(stub)
