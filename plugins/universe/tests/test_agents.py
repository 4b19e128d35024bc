"""The tools of an agent outside its conversations, under its policy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import deep_subagents
import pytest
from deep_universe.agents import CallOutcome, agent_tools
from deep_universe.errors import ToolNotFoundError
from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, FunctionToolset, ModelRetry
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart
from pydantic_ai.tools import DeferredToolRequests

from deep_core import Allow, Ask, Deny, Processor, ToolCall, tool_facts
from tests.plugins_by_hand import Tools, plugin, scripted
from tests.stubs import Call

pytestmark = pytest.mark.anyio

Make = Callable[..., Agent[Any, Any]]


async def test_every_tool_of_every_plugin_is_listed_with_its_facts(make_agent: Make) -> None:
    async with agent_tools(make_agent()) as tools:
        facts = {definition.name: tool_facts(definition) for definition in tools.definitions}
    assert {"look", "put", "send", "burn", "read_file", "write_file", "write_todos"} <= facts.keys()
    assert (facts["read_file"].plugin, facts["look"].plugin, facts["send"].tags) == (
        "filesystem",
        "things",
        ("read", "network"),
    )


async def test_a_call_returns_what_a_model_would_read(make_agent: Make, things: Tools) -> None:
    async with agent_tools(make_agent()) as tools:
        outcome = await tools.session().call("look", {"path": "a"})
    assert (outcome.status, outcome.text, outcome.value) == ("done", "look a", "look a")
    assert things.ran == [("look", {"path": "a", "text": ""})]


async def test_a_session_remembers_and_all_share_the_workspace(make_agent: Make) -> None:
    async with agent_tools(make_agent()) as tools:
        one, two = tools.session(), tools.session()
        await one.call("write_file", {"path": "a.txt", "content": "one"})
        await one.call("write_todos", {"todos": [{"content": "Sail", "status": "pending", "active_form": "Sailing"}]})
        assert "Sail" in (await one.call("read_todos", {})).text
        assert "Sail" not in (await two.call("read_todos", {})).text
        assert "one" in (await two.call("read_file", {"path": "a.txt"})).text


async def test_arguments_are_validated_before_the_tool_runs(make_agent: Make, things: Tools) -> None:
    async with agent_tools(make_agent()) as tools:
        outcome = await tools.session().call("look", {"path": 5})
        assert outcome.status == "failed"
        assert "Input should be a valid string" in outcome.text
        with pytest.raises(ToolNotFoundError, match=r"no tool 'lok'\. Did you mean 'look'"):
            await tools.session().call("lok", {})
    assert things.ran == []


# -- policy ------------------------------------------------------------------------------------------------------------


async def test_a_call_that_asks_waits_and_runs_once_when_approved(make_agent: Make, things: Tools) -> None:
    async with agent_tools(make_agent()) as tools:
        session = tools.session()
        waiting = await session.call("burn", {"path": "a"})
        assert (waiting.status, waiting.waiting[0].tool, waiting.waiting[0].plugin) == ("waiting", "burn", "things")
        assert waiting.waiting[0].arguments == {"path": "a"}
        assert things.ran == []
        done = await session.decide(waiting, True)
        assert (done.status, done.text) == ("done", "burn a")
        again = await session.decide(waiting, True)
        assert again.status != "done"
    assert things.names == ["burn"]


async def test_a_refused_call_does_not_run_and_says_why(make_agent: Make, things: Tools) -> None:
    async def no(outcome: CallOutcome) -> bool | str:
        return "not today"

    async with agent_tools(make_agent()) as tools:
        session = tools.session()
        assert (await session.call("burn", {}, approve=no)).text == "not today"
        refused = await session.refuse(await session.call("burn", {}))
        assert (refused.status, refused.text[:28]) == ("refused", "This call needs an approval,")
        assert (await session.decide(await session.call("burn", {}), False)).status == "refused"
        waiting = await session.call("burn", {})
        with pytest.raises(ValueError, match="does not wait in this session"):
            await tools.session().decide(waiting, True)
    assert things.ran == []


async def test_the_hook_that_checks_calls_and_the_filter_decide_here_too(make_agent: Make, things: Tools) -> None:
    def check(call: ToolCall) -> Any:
        return Deny("the sea is closed") if call.args.get("path") == "sea" else Allow()

    guard = plugin("guard", check_call=check)
    async with agent_tools(make_agent(guard, tool_filter="~name:put")) as tools:
        assert "put" not in {definition.name for definition in tools.definitions}
        outcome = await tools.session().call("look", {"path": "sea"})
        assert outcome.status == "failed"
        assert "the sea is closed" in outcome.text
        assert (await tools.session().call("look", {"path": "lake"})).status == "done"
    assert things.ran == [("look", {"path": "lake", "text": ""})]


async def test_without_approvals_a_call_that_would_ask_is_denied(make_agent: Make, things: Tools) -> None:
    guard = plugin("guard", check_call=lambda call: Ask("burn it?") if call.tool == "burn" else None)
    async with agent_tools(make_agent(guard, interrupt_on=False)) as tools:
        outcome = await tools.session().call("burn", {})
    assert (outcome.status, outcome.text[:7]) == ("failed", "Denied:")
    assert things.ran == []


async def test_what_plugins_redact_is_redacted_here(make_agent: Make) -> None:
    def redact(messages: list[ModelMessage]) -> list[ModelMessage]:
        for message in messages:
            for part in message.parts if isinstance(message, ModelRequest) else ():
                if isinstance(part, ToolReturnPart):
                    part.content = str(part.content).replace("secret", "***")
        return messages

    guard = plugin("guard", processors=[Processor("redact", redact, phase="redact")])
    async with agent_tools(make_agent(guard)) as tools:
        outcome = await tools.session().call("look", {"path": "secret"})
    assert (outcome.text, outcome.value) == ("look ***", "look ***")


async def test_what_a_subagent_asks_waits_by_its_name(make_agent: Make, things: Tools) -> None:
    model = scripted(Call("burn", {"path": "sea"}), then="It burns.")
    async with agent_tools(make_agent(deep_subagents, model=model)) as tools:
        session = tools.session()
        waiting = await session.call("task", {"description": "Burn the sea", "subagent_type": "general-purpose"})
        assert [(call.tool, call.subagent) for call in waiting.waiting] == [("burn", "general-purpose")]
        done = await session.decide(waiting, True)
    assert (done.status, done.text) == ("done", "It burns.")
    assert things.names == ["burn"]


async def test_a_tool_that_asks_a_model_says_that_there_is_none(make_agent: Make) -> None:
    agent = make_agent(deep_subagents)
    agent.model = None
    async with agent_tools(agent) as tools:
        call = {"description": "Look", "subagent_type": "general-purpose"}
        assert "its agent has none" in (await tools.session().call("task", call)).text


# -- tools of all kinds ------------------------------------------------------------------------------------------------


async def test_tools_that_fail_retry_raise_or_return_files() -> None:
    tools: FunctionToolset[Any] = FunctionToolset()

    @tools.tool_plain
    def picture() -> BinaryContent:
        return BinaryContent(b"\x89PNG", media_type="image/png")

    @tools.tool_plain
    def again() -> str:
        raise ModelRetry("name a city")

    @tools.tool_plain(retries=0)
    def once() -> str:
        raise ModelRetry("name a city")

    @tools.tool_plain
    def breaks() -> str:
        raise ValueError("no wind")

    agent = Agent(scripted(), toolsets=[tools])  # no kernel made it
    async with agent_tools(agent) as opened:
        session = opened.session()
        (file,) = (await session.call("picture", {})).files
        assert isinstance(file, BinaryContent)
        assert file.data == b"\x89PNG"
        assert "name a city" in (await session.call("again", {})).text
        outcome = await session.call("once", {})
        assert (outcome.status, "exceeded" in outcome.text) == ("failed", True)
        outcome = await session.call("breaks", {})
        assert (outcome.status, outcome.text) == ("failed", "ValueError: no wind")
        assert isinstance(outcome.error, ValueError)


async def test_an_agent_with_structured_output_or_streams_serves_its_tools(make_agent: Make) -> None:
    class Report(BaseModel):
        title: str

    async with agent_tools(make_agent(output_type=[Report, DeferredToolRequests])) as tools:
        session = tools.session()
        assert (await session.call("look", {"path": "a"})).text == "look a"
        assert (await session.refuse(await session.call("burn", {}))).status == "refused"


async def test_a_tool_offered_on_demand_is_found_first(make_agent: Make) -> None:
    config = {"plugins": {"things": {"defer": "network"}}}
    async with agent_tools(make_agent(config=config)) as tools:
        assert "send" in {definition.name for definition in tools.definitions}
        assert (await tools.session().call("send", {"path": "a"})).text == "send a"


async def test_calls_of_one_session_run_one_after_the_other() -> None:
    running, most = 0, 0

    async def count() -> int:
        nonlocal running, most
        running, most = running + 1, max(most, running + 1)
        for _ in range(100):
            await asyncio.sleep(0)
        running -= 1
        return most

    agent = Agent(scripted(), toolsets=[FunctionToolset([count])])
    async with agent_tools(agent) as tools:
        session = tools.session()
        await asyncio.gather(*(session.call("count", {}) for _ in range(4)))
        assert most == 1
        await asyncio.gather(*(tools.session().call("count", {}) for _ in range(4)))
        assert most > 1  # calls of several sessions do meet


@pytest.mark.slow
async def test_calls_at_the_same_time_in_one_session_all_run(make_agent: Make, things: Tools) -> None:
    async with agent_tools(make_agent()) as tools:
        session = tools.session()
        outcomes = await asyncio.gather(*(session.call("look", {"path": str(n)}) for n in range(20)))
    assert [outcome.text for outcome in outcomes] == [f"look {n}" for n in range(20)]
    assert len(things.ran) == 20


async def test_a_cancelled_call_leaves_the_session_usable(make_agent: Make) -> None:
    started = asyncio.Event()
    slow: FunctionToolset[Any] = FunctionToolset(id="slow")

    @slow.tool_plain
    async def wait() -> str:
        started.set()
        await asyncio.Event().wait()
        return ""

    async with agent_tools(make_agent(plugin("slow", toolsets=[slow]))) as tools:
        session = tools.session()
        call = asyncio.create_task(session.call("wait", {}))
        await started.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await session.call("look", {})).status == "done"
