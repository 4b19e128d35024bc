"""Plugins' tools: one that raises is a failed result, and a toolset that breaks leaves the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    ModelMessage,
    ModelResponse,
    ModelRetry,
    RunContext,
    TextPart,
    Tool,
    ToolFailed,
)
from pydantic_ai.exceptions import ApprovalRequired
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import CombinedToolset, FunctionToolset, PreparedToolset, WrapperToolset

from deep_core import create_default_deps
from deep_core.agent.tools.toolsets import OfferedWhile, RunToolsets, Toolbox
from tests.plugins.test_dispatch import moody
from tests.plugins_by_hand import Tools, agent_of, kernel_of, outcomes, plugin, returns, run, scripted
from tests.stubs import Call


@pytest.mark.parametrize(
    "error", [ValueError("no such city"), KeyError("x"), RuntimeError(), ExceptionGroup("all", [OSError()])]
)
def test_a_plugins_tool_that_raises_is_a_failed_result_that_names_the_plugin(error: Exception) -> None:
    kernel = kernel_of(plugin("moody", toolsets=[moody(error)]))
    result = run(kernel.create_agent(scripted(Call("act", {}))))
    (part,) = returns(result.all_messages())
    assert (result.output, part.outcome) == ("done", "failed")
    assert type(error).__name__ in str(part.content)
    assert "plugin moody" in str(part.content)
    (incident,) = kernel.incidents
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    assert (incident.plugin, incident.where, incident.error) == ("moody", "tool act", said)
    assert "Traceback" in incident.traceback


@pytest.mark.parametrize(("error", "outcome"), [(ModelRetry("again"), "retried"), (ToolFailed("sorry"), "failed")])
def test_what_a_tool_says_on_purpose_is_no_incident(error: Exception, outcome: str) -> None:
    kernel = kernel_of(plugin("moody", toolsets=[moody(error)]))
    result = run(kernel.create_agent(scripted(Call("act", {}))))
    assert outcomes(result) == [("act", outcome)]
    assert kernel.incidents == ()


def test_a_tool_may_ask_for_approval_by_itself() -> None:
    result = run(
        agent_of(plugin("moody", toolsets=[moody(ApprovalRequired())]), model=scripted(Call("act", {}, id="c1")))
    )
    assert [call.tool_call_id for call in result.output.approvals] == ["c1"]


@pytest.mark.parametrize("error", [asyncio.CancelledError(), KeyboardInterrupt()])
def test_what_ends_a_program_goes_through(error: BaseException) -> None:
    with pytest.raises(type(error)):
        run(agent_of(plugin("moody", toolsets=[moody(error)]), model=scripted(Call("act", {}))))


def test_the_applications_own_tool_raises_as_ever() -> None:
    def act() -> str:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        run(agent_of(model=scripted(Call("act", {})), tools=[act]))


def test_with_strict_a_tools_error_goes_through() -> None:
    with pytest.raises(ValueError, match="boom"):
        run(
            agent_of(
                plugin("moody", toolsets=[moody(ValueError("boom"))]), model=scripted(Call("act", {})), strict=True
            )
        )


def test_several_failing_calls_in_one_response_all_get_their_result() -> None:
    tools = Tools("fine")
    plugins = [plugin("moody", toolsets=[moody(ValueError("boom"))]), plugin("good", toolsets=[tools.toolset])]
    model = scripted([Call("act", {}), Call("fine", {}), Call("act", {}), Call("unknown", {})])
    result = run(agent_of(*plugins, model=model))
    assert sorted(outcomes(result)) == [
        ("act", "failed"),
        ("act", "failed"),
        ("fine", "success"),
        ("unknown", "retried"),
    ]


class CannotList(WrapperToolset[Any]):
    """Breaks when its tools are listed."""

    async def get_tools(self, ctx: Any) -> Any:
        raise ConnectionError("the server is down")


def test_a_toolset_that_cannot_list_its_tools_is_left_out_and_the_others_stay() -> None:
    tools = Tools("fine")
    broken = plugin("broken", toolsets=[CannotList(Tools("lost").toolset)])
    kernel = kernel_of(broken, plugin("good", toolsets=[tools.toolset]))
    result = run(kernel.create_agent(scripted(Call("fine", {}))))
    assert outcomes(result) == [("fine", "success")]
    assert {incident.plugin for incident in kernel.incidents} == {"broken"}


class CannotEnter(WrapperToolset[Any]):
    """Breaks when it is entered."""

    async def __aenter__(self) -> Any:
        raise ConnectionError("the server is down")


def test_a_toolset_that_cannot_be_entered_is_left_out_and_the_others_stay() -> None:
    tools = Tools("fine")
    broken = plugin("broken", toolsets=[CannotEnter(Tools("lost").toolset)])
    kernel = kernel_of(broken, plugin("good", toolsets=[tools.toolset]))
    result = run(kernel.create_agent(scripted(Call("fine", {}))))
    assert outcomes(result) == [("fine", "success")]
    assert {incident.plugin for incident in kernel.incidents} == {"broken"}


@pytest.mark.parametrize("change", [{"requires_approval": True}, {"metadata": {"tags": ["execute"]}}, {"tags": True}])
def test_a_tool_that_is_changed_after_its_first_listing_asks_as_it_now_says(change: dict[str, Any]) -> None:
    tools = Tools(id="disk").add("wipe", tags=["write"])
    agent = agent_of(
        plugin("disk", toolsets=[tools.toolset]), model=scripted(Call("wipe", {}), "done", Call("wipe", {}))
    )
    assert run(agent).output == "done"
    tool = tools.toolset.tools["wipe"]
    for name, value in change.items():
        if name == "tags":
            assert tool.metadata is not None
            tool.metadata["tags"].append("execute")
        else:
            setattr(tool, name, value)
    assert isinstance(run(agent).output, DeferredToolRequests)
    assert tools.names == ["wipe"]


def describe(tool: Tool[Any]) -> None:
    tool.description = "New."


def replace_the_schema(tool: Tool[Any]) -> None:
    tool.function_schema.json_schema = {"type": "object", "properties": {"new": {"type": "string"}}}


def hide(tool: Tool[Any]) -> None:
    async def never(context: RunContext[Any], definition: ToolDefinition) -> None:
        return None

    tool.prepare = never


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (describe, [("wipe", "New.", ["path", "text"])]),
        (replace_the_schema, [("wipe", "", ["new"])]),
        (hide, []),
    ],
)
def test_the_model_is_shown_a_function_as_it_is_now(change: Callable[[Tool[Any]], None], expected: list[Any]) -> None:
    tools = Tools(id="disk").add("wipe")
    shown: list[Any] = []

    def say(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        each = [(t.name, t.description or "", [*t.parameters_json_schema["properties"]]) for t in info.function_tools]
        shown.append(each)
        return ModelResponse([TextPart("done")])

    agent = agent_of(plugin("disk", toolsets=[tools.toolset]), model=FunctionModel(say))
    run(agent)
    change(tools.toolset.tools["wipe"])
    run(agent)
    assert shown == [[("wipe", "", ["path", "text"])], expected]


def test_functions_that_a_run_may_change_are_shown_after_the_others() -> None:
    async def as_it_is(context: RunContext[Any], definition: ToolDefinition) -> ToolDefinition:
        return definition

    tools = Tools(id="disk").add("prepared", prepare=as_it_is).add("fixed")
    model = scripted(Call("prepared", {}), Call("fixed", {}))
    assert outcomes(run(agent_of(plugin("disk", toolsets=[tools.toolset]), model=model))) == [
        ("prepared", "success"),
        ("fixed", "success"),
    ]
    assert [*model.player.views[0].tools] == ["fixed", "prepared"]


def test_a_tool_is_offered_while_its_condition_holds_with_our_kernel_and_without() -> None:
    open_doors = set[str]()
    tools = Tools(id="disk").add("fixed").add("enter", prepare=OfferedWhile(lambda ctx: bool(open_doors)))
    model = scripted()
    for agent in (
        agent_of(plugin("disk", toolsets=[tools.toolset]), model=model),
        Agent(model, toolsets=[tools.toolset]),
    ):
        open_doors.clear()
        agent.run_sync("hi", deps=create_default_deps())
        open_doors.add("front")
        agent.run_sync("hi", deps=create_default_deps())
    shown = [sorted(view.tools) for view in model.player.views]
    assert shown == [["fixed"], ["enter", "fixed"], ["fixed"], ["enter", "fixed"]]


def test_a_condition_that_raises_hides_its_tool_and_names_its_plugin() -> None:
    def broken(ctx: RunContext[Any]) -> bool:
        raise LookupError("no door")

    tools = Tools(id="disk").add("fixed").add("enter", prepare=OfferedWhile(broken))
    kernel, model = kernel_of(plugin("disk", toolsets=[tools.toolset])), scripted()
    assert run(kernel.create_agent(model)).output == "done"
    assert [*model.player.views[0].tools] == ["fixed"]
    assert {(incident.plugin, incident.error) for incident in kernel.incidents} == {("disk", "LookupError: no door")}


def test_the_toolsets_of_a_run_are_listed_as_one_and_in_another_form_left_alone() -> None:
    tools = FunctionToolset[Any](id="own")
    combined = CombinedToolset([CombinedToolset([tools])])

    async def prepare(context: RunContext[Any], offered: list[ToolDefinition]) -> list[ToolDefinition]:
        return offered

    toolbox = Toolbox(())
    found = RunToolsets.of(PreparedToolset(combined, prepare), toolbox)
    assert isinstance(found, PreparedToolset)
    assert isinstance(found.wrapped, RunToolsets)
    assert [*found.wrapped.toolsets] == [tools]
    assert RunToolsets.of(combined, toolbox) is combined
    other = PreparedToolset(tools, prepare)
    assert RunToolsets.of(other, toolbox) is other
