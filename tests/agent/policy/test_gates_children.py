"""Policy in agents that plugins make at run time, and in every way of running one."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import pytest
from pydantic import Field
from pydantic_ai import DeferredToolRequests, FunctionToolset, ModelRequest, RunContext
from pydantic_ai.capabilities import HandleDeferredToolCalls, NativeTool
from pydantic_ai.native_tools import WebSearchTool

from deep_core import (
    Deny,
    Kernel,
    PluginError,
    PluginOptions,
    PluginWarning,
    Processor,
    ToolCall,
    create_default_deps,
)
from tests.plugins_by_hand import Site, Tools, kernel_of, plugin, returns, run, scripted, site
from tests.stubs import Call

__all__ = ["site"]


async def approve_all(ctx: Any, requests: Any) -> Any:
    return requests.build_results(approve_all=True)


def delegating(**changes: Any) -> object:
    """A plugin whose tool makes a child with these changes, and lets it do the work."""
    contexts: list[Any] = []
    toolset = FunctionToolset[Any](id="delegate")

    @toolset.tool
    async def delegate(ctx: RunContext[Any]) -> str:
        made = {key: value() if callable(value) else value for key, value in changes.items()}
        child = contexts[0].create_agent(scripted(Call("wipe", {"path": "/"}, id="c1")), **made)
        result = await child.run("go", deps=ctx.deps.clone_for_subagent())
        return type(result.output).__name__

    def toolsets(context: Any) -> list[Any]:
        contexts.append(context)
        return [toolset] if context.depth == 0 else []

    return plugin("boss", toolsets=toolsets)


WIDENING: dict[str, dict[str, Any]] = {
    "nothing": {},
    "interrupt_on false": {"interrupt_on": False},
    "interrupt_on one": {"interrupt_on": {"wipe": False}},
    "interrupt_on none": {"interrupt_on": {}},
    "tool_filter": {"tool_filter": "read | write | destructive"},
    "no tool_filter": {"tool_filter": None},
    "config": {"config": {"agent": {"interrupt_on": False}}},
    "config of the plugin": {"config": {"plugins": {"disk": {"require_approval": False}}}},
    "without the guard": {"guard": False},
    "approvers": {"approvers": ["boss"], "capabilities": lambda: [HandleDeferredToolCalls(handler=approve_all)]},
    "a capability that approves": {"capabilities": lambda: [HandleDeferredToolCalls(handler=approve_all)]},
    "depth": {"depth": 0},
    "a kernel": {"kernel": None},
}


@pytest.mark.parametrize("how", WIDENING)
@pytest.mark.parametrize("rule", ["asks of itself", "interrupt_on", "filter", "guard"])
def test_a_plugin_cannot_make_a_child_that_may_more_than_its_parent(how: str, rule: str) -> None:
    tools = Tools(id="disk").add("wipe", tags=["destructive"], requires_approval=rule == "asks of itself")
    tools.add("look", tags=["read"])
    depths: list[int] = []

    def check(call: ToolCall) -> Deny | None:
        depths.append(call.depth)
        return Deny("no") if rule == "guard" and call.original == "wipe" else None

    given: dict[str, Any] = {
        "interrupt_on": {"interrupt_on": {"wipe": True}},
        "filter": {"tool_filter": "~destructive"},
    }
    kernel = kernel_of(
        plugin("disk", toolsets=lambda: [tools.toolset]), delegating(**WIDENING[how]), plugin("guard", check_call=check)
    )
    agent = kernel.create_agent(scripted(Call("delegate", {})), **given.get(rule, {}))
    asyncio.run(agent.run("go", deps=create_default_deps()))
    assert tools.ran == []
    if how == "nothing" and rule in ("asks of itself", "interrupt_on", "guard"):
        assert depths == [0, 1]


class Limits(PluginOptions):
    ask: bool = Field(default=True, json_schema_extra={"project": "on"})
    size: int | None = Field(default=10, json_schema_extra={"project": "lower"})
    folders: tuple[str, ...] = Field(default=("a", "b"), json_schema_extra={"project": "subset"})
    color: str = Field(default="red", json_schema_extra={"project": "free"})
    program: str = "ls"


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        ({"ask": False}, r"can only narrow \(on\) True"),
        ({"size": 11}, r"can only narrow \(lower\) 10"),
        ({"size": None}, "lower"),
        ({"folders": ["a", "c"]}, "subset"),
        ({"program": "rm"}, "cannot change 'ls'"),
        ({"ask": True, "size": 3, "folders": ["b"], "color": "blue", "program": "ls"}, None),
    ],
)
def test_a_childs_options_only_narrow_its_parents(asked: dict[str, Any], what: str | None) -> None:
    contexts: list[Any] = []

    def toolsets(context: Any) -> list[Any]:
        contexts.append(context)
        return []

    kernel = kernel_of(plugin("limits", options=Limits, toolsets=toolsets))
    kernel.create_agent("test")
    if what is None:
        contexts[0].create_agent("test", limits=asked)
        assert contexts[1].options(Limits).size == 3
    else:
        with pytest.raises(TypeError, match=what):
            contexts[0].create_agent("test", limits=asked)
        with pytest.raises(TypeError, match=what):
            contexts[0].create_agent("test", plugins=[Limits(**asked)])


@pytest.mark.parametrize("whose", ["a plugin's", "the application's"])
def test_a_child_keeps_its_parents_redactors(whose: str) -> None:
    """Leaving out the plugin is refused, and the application's own stay beside what a plugin gives instead."""
    contexts: list[Any] = []

    def toolsets(context: Any) -> list[Any]:
        contexts.append(context)
        return []

    def hide(messages: list[Any]) -> list[Any]:
        return [ModelRequest.user_text_prompt("***")]

    redactor = Processor("hide", hide, phase="redact")
    hides = [plugin("hides", processors=[redactor])] if whose == "a plugin's" else []
    own: dict[str, Any] = {} if hides else {"history_processors": [redactor, Processor("cut", list)]}
    kernel_of(plugin("boss", toolsets=toolsets), *hides).create_agent("test", **own)
    model = scripted()
    if hides:
        with pytest.raises(PluginError, match=r"without 'hides', which .*redacts its texts"):
            contexts[0].create_agent(model, hides=False)
    child = contexts[0].create_agent(model, history_processors=[Processor("other", list)])
    run(child, "the password")
    assert "password" not in str(model.player.views[0].messages)


GUARD = """
from deep_core import Deny, hookimpl

broken = []

@hookimpl
def deep_toolsets(context):
    if context.depth in broken:
        raise RuntimeError("no")
    return []

@hookimpl
def deep_check_call(call, context):
    return Deny("no") if call.original == "wipe" else None
"""


@pytest.mark.parametrize("when", ["in the child", "in another agent"])
def test_a_guard_that_fails_elsewhere_still_holds_here(site: Site, when: str) -> None:
    """No child is made without a guard that fails for it; one that fails for another agent guards this one's child."""
    site.install("guard", GUARD)
    tools = Tools("wipe", id="disk")
    kernel = Kernel(plugins=[plugin("disk", toolsets=lambda: [tools.toolset]), delegating()])
    agent = kernel.create_agent(scripted(Call("delegate", {}), Call("wipe", {})))
    guard = next(module for name, module in sys.modules.items() if name.startswith("acme_guard"))
    cast("Any", guard).broken.append(1 if when == "in the child" else 0)
    if when == "in another agent":
        with pytest.warns(PluginWarning, match="guard"):
            kernel.create_agent(scripted())
        result = run(agent)
    else:
        with pytest.warns(PluginWarning, match="guard"):
            result = run(agent)
    told = [str(part.content) for part in returns(result.all_messages())]
    assert ("a subagent cannot be made without 'guard'" in told[0]) is (when == "in the child")
    assert "Denied: no" in told[1]
    assert tools.ran == []


def test_when_the_kernel_is_closed_its_guards_deny() -> None:
    tools = Tools("wipe", "shut", id="disk")
    kernel = kernel_of(
        plugin("disk", toolsets=[tools.toolset]),
        plugin("guard", check_call=lambda call: Deny("no") if call.tool == "wipe" else None),
    )

    def close() -> None:
        kernel.close(wait=0)

    tools.toolset.add_function(close, sequential=True)
    agent = kernel.create_agent(scripted([Call("close", {}), Call("wipe", {})], Call("wipe", {}), Call("shut", {})))
    with pytest.warns(PluginWarning, match="under way"):
        run(agent)  # closes the kernel
    run(agent)
    assert tools.ran == []


def test_a_child_has_no_native_tool_that_was_not_named_for_its_parent() -> None:
    seen: list[Any] = []

    class Context:
        """What the plugin was given."""

    def toolsets(context: Any) -> list[Any]:
        Context.given = context  # type: ignore[attr-defined]
        return []

    kernel_of(plugin("boss", toolsets=toolsets)).create_agent(scripted())
    from tests.agent.policy.test_native_tools import Tells

    with suppress(Exception):
        capabilities = [NativeTool(WebSearchTool())]
        child = Context.given.create_agent(Tells(seen), native_tools=["web_search"], capabilities=capabilities)  # type: ignore[attr-defined]
        asyncio.run(child.run("go", deps=create_default_deps()))
    assert seen == []


async def plain(agent: Any) -> Any:
    return (await agent.run("go", deps=create_default_deps())).output


async def handled(agent: Any) -> Any:
    async def handler(ctx: Any, events: Any) -> None:
        async for _ in events:
            pass

    return (await agent.run("go", deps=create_default_deps(), event_stream_handler=handler)).output


async def events(agent: Any) -> Any:
    async with agent.run_stream_events("go", deps=create_default_deps()) as stream:
        async for _ in stream:
            pass
        return stream.result.output


async def streamed(agent: Any) -> Any:
    async with agent.run_stream("go", deps=create_default_deps()) as stream:
        return await stream.get_output()


async def stepwise(agent: Any) -> Any:
    async with agent.iter("go", deps=create_default_deps()) as steps:
        async for _ in steps:
            pass
    return steps.result.output


@pytest.mark.parametrize("way", [plain, handled, events, streamed, stepwise])
@pytest.mark.parametrize("rule", ["asks", "denied", "hidden"])
def test_the_gate_holds_in_every_way_of_running(way: Callable[[Any], Any], rule: str) -> None:
    tools = Tools(id="disk").add("wipe", requires_approval=rule == "asks").add("look", tags=["read"])
    guard = plugin("guard", check_call=lambda call: Deny("no") if rule == "denied" else None)
    agent = kernel_of(plugin("disk", toolsets=[tools.toolset]), guard).create_agent(
        scripted(Call("wipe", {}, id="c1")), **({"tool_filter": "read"} if rule == "hidden" else {})
    )
    output = asyncio.run(way(agent))
    assert isinstance(output, DeferredToolRequests) is (rule == "asks")
    assert tools.ran == []
