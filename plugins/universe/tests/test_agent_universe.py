"""A universe of an agent's tools: chosen like any other, executed under the agent's policy."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import deep_universe
import pytest
from deep_universe import CallDenied, CallOutcome, ErrorCode, ToolResult, Universe
from deep_universe.drivers.hermes import HermesDriver
from pydantic_ai import Agent, FunctionToolset
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart

from deep_core import Deny, Processor, ToolExpression, hookimpl
from tests.plugins_by_hand import Tools, plugin, scripted

pytestmark = pytest.mark.anyio

Make = Callable[..., Agent[Any, Any]]


def answer(*calls: tuple[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A reply of Chat Completions."""
    made = [
        {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for n, (name, arguments) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": made}
    return {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}


def codes(results: list[ToolResult]) -> list[ErrorCode | None]:
    return [result.meta.get("error_code") for result in results]


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("plugin:things & read", ["look", "send"]),
        ("plugin:things & read & ~network", ["look"]),
        ("name:burn", ["burn"]),
        ("^write_", ["write_file", "write_todos"]),
        ("plugin:todo", ["read_todos", "write_todos"]),
        ("finance", []),
    ],
)
async def test_tools_of_all_plugins_are_selected_by_tag_name_prefix_and_plugin(
    make_agent: Make, expression: str, names: list[str]
) -> None:
    async with Universe.from_agent(make_agent()) as universe:
        assert [tool.name for tool in universe[expression]] == names


async def test_the_tools_render_for_any_model(make_agent: Make) -> None:
    async with Universe.from_agent(make_agent()) as universe:
        (rendered,) = universe["name:look"].render("gpt-5.2")
        assert rendered["function"]["name"] == "look"
        assert universe["name:look"].render("claude-sonnet-4-5")[0]["input_schema"]["type"] == "object"


async def test_calls_run_under_the_agents_policy_and_keep_their_order(make_agent: Make, things: Tools) -> None:
    guard = plugin("guard", check_call=lambda call: Deny("no sea") if call.args.get("path") == "sea" else None)
    response = answer(
        ("look", {"path": "a"}),
        ("burn", {"path": "a"}),
        ("look", {"path": "sea"}),
        ("put", {"path": 5}),
        ("nothing", {}),
        ("send", {"path": "b"}),
    )
    async with Universe.from_agent(make_agent(guard)) as universe:
        results = await universe.dispatch(response, tool_filter=ToolExpression.parse("~network"))
    assert [result.id for result in results] == [f"c{n}" for n in range(6)]
    assert codes(results) == [
        None,
        ErrorCode.FILTER_DENIED,  # nobody approved it
        ErrorCode.TOOL_EXECUTION_ERROR,
        ErrorCode.TOOL_EXECUTION_ERROR,
        ErrorCode.TOOL_NOT_FOUND,
        ErrorCode.FILTER_DENIED,
    ]
    assert results[0].result == "look a"
    assert "needs an approval" in str(results[1].error)
    assert results[2].error == "Denied: no sea"
    assert "valid string" in str(results[3].error)
    assert things.ran == [("look", {"path": "a", "text": ""})]


async def test_a_tool_that_the_agents_filter_hides_is_not_there(make_agent: Make, things: Tools) -> None:
    async with Universe.from_agent(make_agent(tool_filter="~name:put")) as universe:
        assert universe.get("put") is None
        assert codes(await universe.dispatch(answer(("put", {})))) == [ErrorCode.TOOL_NOT_FOUND]
    assert things.ran == []


async def test_an_approved_call_runs_once(make_agent: Make, things: Tools) -> None:
    asked: list[CallOutcome] = []

    async def approve(outcome: CallOutcome) -> bool | str:
        asked.append(outcome)
        return outcome.waiting[0].arguments["path"] == "a" or "only a"

    async with Universe.from_agent(make_agent(), approve=approve) as universe:
        results = await universe.dispatch(answer(("burn", {"path": "a"}), ("burn", {"path": "b"})))
        burn = universe.get("burn")
        assert burn is not None
        with pytest.raises(CallDenied, match="only a"):
            await burn.call({"path": "c"})
    assert [result.error for result in results] == [None, "only a"]
    assert [outcome.waiting[0].plugin for outcome in asked] == ["things"] * 3
    assert things.ran == [("burn", {"path": "a", "text": ""})]


async def test_results_are_redacted_and_middleware_of_the_universe_runs(make_agent: Make) -> None:
    def redact(messages: list[ModelMessage]) -> list[ModelMessage]:
        for message in messages:
            for part in message.parts if isinstance(message, ModelRequest) else ():
                if isinstance(part, ToolReturnPart):
                    part.content = str(part.content).replace("secret", "***")
        return messages

    seen: list[str] = []

    async def audit(call: Any, next: Any) -> Any:
        seen.append(call.name)
        return await next(call)

    guard = plugin("guard", processors=[Processor("redact", redact, phase="redact")])
    async with Universe.from_agent(make_agent(guard)) as universe:
        universe.use(audit, uid="audit")
        (result,) = await universe.dispatch(answer(("look", {"path": "secret"})))
    assert (result.result, seen) == ("look ***", ["look"])


async def test_drivers_of_the_agents_plugins_take_part(make_agent: Make) -> None:
    class Harbor(HermesDriver):
        name = "harbor"

    harbor = type("harbor", (), {})()
    harbor.deep_tool_drivers = hookimpl(of="universe")(lambda context: [Harbor()])
    async with Universe.from_agent(make_agent(deep_universe, harbor)) as universe:
        assert universe.driver("harbor").name == "harbor"
    async with Universe.from_agent(make_agent(), drivers=[Harbor()]) as universe:
        assert [driver.name for driver in universe.drivers] == ["harbor"]


async def test_an_agent_without_a_kernel_has_a_universe_too() -> None:
    tools: FunctionToolset[Any] = FunctionToolset()

    @tools.tool_plain(metadata={"tags": ["finance"]})
    def balance(account: str) -> dict[str, Any]:
        return {"account": account, "cents": 5}

    async with Universe.from_agent(Agent(scripted(), toolsets=[tools])) as universe:
        assert [tool.name for tool in universe["finance"]] == ["balance"]
        (result,) = await universe.dispatch(answer(("balance", {"account": "a"})))
    assert result.result == {"account": "a", "cents": 5}
