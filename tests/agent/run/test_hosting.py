"""Hosted capabilities: called at the hooks that they implement, in their order, with the context of the run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.toolsets import FunctionToolset

from deep_core import Processor, create_default_deps
from deep_core.agent.policy.gates import leaves_of
from deep_core.agent.run.hosting import PassingEvents, hostable
from tests.plugins_by_hand import agent_of, plugin, run, scripted
from tests.stubs import Call, Turn


class Records(AbstractCapability[Any]):
    """Notes in `seen` what its hooks get."""

    def __init__(self, seen: list[Any], name: str = "") -> None:
        self.seen = seen
        self.name = name

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:
        self.seen.append((self.name, "response", ctx.run_step, response.text))
        return response

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        self.seen.append((self.name, "call", ctx.run_step, ctx.tool_name, tool_def.name, call.tool_call_id, args))
        result = await handler({**args, "b": args["b"] + 1})
        self.seen.append((self.name, "result", result))
        return result * 10


class Shares(Records):
    shares_context = True


def add(a: int, b: int) -> int:
    return a + b


def seen_by(*kinds: type[Records]) -> list[Any]:
    seen: list[Any] = []
    capabilities = [kind(seen, str(number)) for number, kind in enumerate(kinds)]
    model = scripted(Turn(calls=(Call("add", {"a": 1, "b": 2}),)), Turn(text="end"))
    run(agent_of(plugin("counts", toolsets=[FunctionToolset([add])], capabilities=capabilities), model=model))
    return seen


@pytest.mark.parametrize("kinds", [[Shares], [Shares, Shares], [Shares, Records, Shares], [Shares, Shares, Shares]])
def test_capabilities_that_share_the_context_are_called_as_any_others(kinds: list[type[Records]]) -> None:
    seen = seen_by(*kinds)
    assert seen == seen_by(*[Records] * len(kinds))
    calls = [each for each in seen if each[1] == "call"]
    assert [(each[0], each[2:4], each[-1]["b"]) for each in calls] == [
        (str(number), (1, "add"), 2 + number) for number in range(len(kinds))
    ]
    results = [each[2] for each in seen if each[1] == "result"]
    assert results == [(3 + len(kinds)) * 10**depth for depth in range(len(kinds))]


def test_a_capability_with_another_hook_is_not_hosted() -> None:
    class Prepares(Records):
        async def prepare_tools(self, ctx: Any, tool_defs: Any) -> Any:
            return tool_defs

    assert hostable(Records([]))
    assert not hostable(Prepares([]))
    assert seen_by(Prepares, Shares) == seen_by(Records, Records)


class Enqueues(AbstractCapability[Any]):
    """Sends the model a message before its first request."""

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        if ctx.run_step == 1:
            ctx.enqueue("from the capability")
        return request_context


def test_enqueued_messages_are_in_the_next_request_once_and_processors_see_them() -> None:
    def remind(ctx: RunContext[Any]) -> str:
        ctx.enqueue("from the tool")
        ctx.enqueue("at the end", priority="when_idle")
        return "reminded"

    def note(messages: list[Any]) -> list[Any]:
        processed.append(str(messages))
        return messages

    processed: list[str] = []
    model = scripted(Turn(calls=(Call("remind", {}),)), Turn(text="middle"), Turn(text="end"))
    notes = plugin("notes", capabilities=[Enqueues()], processors=[Processor("note", note)])
    result = run(agent_of(notes, model=model, tools=[remind]))
    for seen in (processed, [str(view.messages) for view in model.player.views]):
        assert [text.count("from the capability") for text in seen] == [1, 1, 1]
        assert [text.count("from the tool") for text in seen] == [0, 1, 1]
        assert [text.count("at the end") for text in seen] == [0, 0, 1]
    assert str(result.all_messages()).count("from the tool") == 1


def test_the_outer_gate_drains_the_queue_so_pydantic_ai_adds_no_capability_for_it() -> None:
    names = [type(leaf).__name__ for leaf in leaves_of(agent_of().root_capability)]
    assert names == ["PolicyCapability", "ToolSearch", "DeepCapability"]


def test_events_pass_the_kernels_capabilities_without_a_generator_for_each() -> None:
    agent, stream = agent_of(), object()
    own: list[Any] = [leaf for leaf in leaves_of(agent.root_capability) if isinstance(leaf, PassingEvents)]
    assert [leaf.id for leaf in own] == ["deep.policy", "deep"]
    assert all(leaf.wrap_run_event_stream(None, stream=stream) is stream for leaf in own)
    assert not agent.root_capability.has_wrap_run_event_stream  # or Pydantic AI would stream every request


def test_every_event_of_a_streamed_run_arrives_once() -> None:
    async def events(agent: Agent[Any, Any], **how: Any) -> list[str]:
        async with agent.run_stream_events("go", **how) as stream:
            return [type(event).__name__ async for event in stream]

    turns = (Turn(calls=(Call("add", {"a": 1, "b": 2}),)), Turn(text="end"))
    ours = agent_of(model=scripted(*turns), tools=[add])
    plain: Agent[Any, Any] = Agent(scripted(*turns), tools=[add])
    assert asyncio.run(events(ours, deps=create_default_deps())) == asyncio.run(events(plain))
