"""An agent's tools over MCP, called by the official client, in both eras of the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import deep_subagents
import mcp_types as types
import pytest
from deep_universe.agents import agent_tools
from deep_universe.mcp_server import make_mcp_server
from mcp import Client
from mcp.shared.exceptions import MCPError
from pydantic_ai import Agent, BinaryContent, FunctionToolset

from deep_core import Deny, ToolExpression
from tests.plugins_by_hand import Tools, plugin, scripted
from tests.stubs import Call

pytestmark = pytest.mark.anyio
both = pytest.mark.parametrize("mode", ["legacy", "auto"])

Make = Callable[..., Agent[Any, Any]]


@asynccontextmanager
async def serving(
    agent: Agent[Any, Any], mode: str, answers: Sequence[types.ElicitResult] = (), **how: Any
) -> AsyncGenerator[tuple[Client, list[str]]]:
    """A client of the served agent, and the questions that its user was asked."""
    asked: list[str] = []
    waiting = list(answers)

    async def answer(ctx: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return waiting.pop(0)

    async with agent_tools(agent) as tools:
        handler = answer if answers else None
        async with Client(make_mcp_server(tools, **how), mode=mode, elicitation_callback=handler) as client:
            yield client, asked


def text(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


def accepts(**content: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=content)


@both
async def test_the_client_lists_and_calls_every_tool(make_agent: Make, mode: str) -> None:
    async with serving(make_agent(), mode) as (client, _):
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"look", "burn", "write_file", "write_todos"} <= tools.keys()
        assert tools["look"].input_schema["properties"].keys() == {"path", "text"}
        result = await client.call_tool("look", {"path": "a"})
        assert (text(result), result.is_error) == ("look a", False)
        await client.call_tool("write_file", {"path": "a.txt", "content": "one"})
        result = await client.call_tool("edit_file", {"path": "a.txt", "old_string": "one", "new_string": "two"})
        assert not result.is_error, text(result)  # the session remembers that it wrote the file


@both
async def test_the_standard_tags_become_annotations(make_agent: Make, mode: str) -> None:
    async with serving(make_agent(), mode) as (client, _):
        hints = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}

    assert hints["look"] == types.ToolAnnotations(read_only_hint=True)
    assert hints["put"] is None
    assert hints["send"] == types.ToolAnnotations(read_only_hint=True, open_world_hint=True)
    assert hints["burn"] == types.ToolAnnotations(destructive_hint=True)


@both
async def test_only_the_selected_tools_are_served(make_agent: Make, things: Tools, mode: str) -> None:
    async with serving(make_agent(), mode, only=ToolExpression.parse("plugin:things & read & ~network")) as (client, _):
        assert [tool.name for tool in (await client.list_tools()).tools] == ["look"]
        with pytest.raises(MCPError, match=r"no tool 'put'"):
            await client.call_tool("put", {})
    assert things.ran == []


@both
async def test_a_failure_is_an_error_that_says_what_is_wrong(make_agent: Make, things: Tools, mode: str) -> None:
    guard = plugin("guard", check_call=lambda call: Deny("no sea") if call.args.get("path") == "sea" else None)
    async with serving(make_agent(guard), mode) as (client, _):
        wrong = await client.call_tool("look", {"path": 5})
        denied = await client.call_tool("look", {"path": "sea"})
        with pytest.raises(MCPError, match=r"no tool 'lok'\. Did you mean 'look'"):
            await client.call_tool("lok", {})
    assert (wrong.is_error, "Input should be a valid string" in text(wrong)) == (True, True)
    assert (denied.is_error, text(denied)) == (True, "Denied: no sea")
    assert things.ran == []


# -- approvals ---------------------------------------------------------------------------------------------------------


@both
async def test_without_elicitation_a_call_that_asks_is_refused(make_agent: Make, things: Tools, mode: str) -> None:
    async with serving(make_agent(), mode) as (client, _):
        result = await client.call_tool("burn", {"path": "a"})
    assert result.is_error
    assert "burn needs an approval, and this client cannot ask its user" in text(result)
    assert things.ran == []


@both
async def test_a_call_approved_by_elicitation_runs_once(make_agent: Make, things: Tools, mode: str) -> None:
    async with serving(make_agent(), mode, [accepts(approve=True)]) as (client, asked):
        result = await client.call_tool("burn", {"path": "a\u200b\x1b[2J"})
    assert (text(result), result.is_error) == ("burn a\u200b\x1b[2J", False)
    assert things.names == ["burn"]
    assert asked == [
        "The client calls burn (plugin things): the tool asks by itself\n  path: a\\u200b\\x1b[2J"
    ]  # nothing hides


@both
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (accepts(approve=False, reason="too hot"), "The user refused this call: too hot"),
        (accepts(), "The user refused this call."),
        (accepts(approve="yes"), "The user refused this call."),
        (types.ElicitResult(action="decline"), "The user refused this call."),
        (types.ElicitResult(action="cancel"), "The user refused this call."),
    ],
)
async def test_every_other_answer_refuses(
    make_agent: Make, things: Tools, mode: str, answer: types.ElicitResult, said: str
) -> None:
    async with serving(make_agent(), mode, [answer]) as (client, _):
        result = await client.call_tool("burn", {})
    assert result.is_error
    assert said in text(result)
    assert things.ran == []


@both
@pytest.mark.parametrize(("approve", "ran"), [("allow", ["burn"]), ("deny", [])])
async def test_the_server_may_decide_itself(
    make_agent: Make, things: Tools, mode: str, approve: str, ran: list[str]
) -> None:
    async with serving(make_agent(), mode, [accepts(approve=True)], approve=approve) as (client, asked):
        result = await client.call_tool("burn", {})
    assert (asked, things.names, result.is_error) == ([], ran, not ran)


@both
@pytest.mark.parametrize(
    ("second", "said", "ran"), [(True, "It burns.", ["a", "b"]), (False, "The user refused this call.", ["a"])]
)
async def test_what_a_subagent_asks_is_asked_with_its_name(
    make_agent: Make, things: Tools, mode: str, second: bool, said: str, ran: list[str]
) -> None:
    model = scripted(Call("burn", {"path": "a"}), Call("burn", {"path": "b"}), then="It burns.")
    agent = make_agent(deep_subagents, model=model)
    async with serving(agent, mode, [accepts(approve=True), accepts(approve=second)]) as (client, asked):
        task = {"description": "Burn it", "subagent_type": "general-purpose"}
        assert said in text(await client.call_tool("task", task))
    assert {question.splitlines()[0] for question in asked} == {
        "The subagent general-purpose calls burn (plugin things): the tool asks by itself"
    }
    assert [arguments["path"] for _, arguments in things.ran] == ran


async def test_the_state_of_a_question_serves_once_and_for_its_call_alone(make_agent: Make, things: Tools) -> None:
    async with serving(make_agent(), "auto", [accepts()]) as (client, _):
        session, yes = client.session, {"approval": accepts(approve=True)}

        async def ask() -> str:
            asked = await session.call_tool("burn", {"path": "a"}, allow_input_required=True)
            assert isinstance(asked, types.InputRequiredResult)
            assert asked.request_state is not None
            return asked.request_state

        state = await ask()
        other = await session.call_tool("burn", {"path": "b"}, input_responses=yes, request_state=state)
        assert "The answer is about another call." in text(other)
        with pytest.raises(MCPError, match="closed or unknown"):
            await session.call_tool("burn", {"path": "a"}, input_responses=yes, request_state=state)
        with pytest.raises(MCPError, match="closed or unknown"):
            await session.call_tool("burn", {"path": "a"}, input_responses=yes, request_state="forged")
        silent = await session.call_tool("burn", {"path": "a"}, request_state=await ask())
        assert "No answer." in text(silent)
        assert things.ran == []
        done = await session.call_tool("burn", {"path": "a"}, input_responses=yes, request_state=await ask())
    assert text(done) == "burn a"
    assert things.ran == [("burn", {"path": "a", "text": ""})]


# -- many, and other contents ------------------------------------------------------------------------------------------


@pytest.mark.slow
@both
async def test_fifty_clients_at_once(make_agent: Make, things: Tools, mode: str) -> None:
    async with agent_tools(make_agent()) as tools:
        server = make_mcp_server(tools)

        async def visit(number: int) -> tuple[int, str, bool | None]:
            async with Client(server, mode=mode) as client:
                listed = await client.list_tools()
                looked = await client.call_tool("look", {"path": str(number)})
                burnt = await client.call_tool("burn", {"path": str(number)})
                return len(listed.tools), text(looked), burnt.is_error

        visits = await asyncio.gather(*(visit(number) for number in range(50)))
    assert visits == [(len(tools.definitions), f"look {number}", True) for number in range(50)]
    assert sorted(things.names) == ["look"] * 50


@both
async def test_files_are_sent_as_what_they_are(make_agent: Make, mode: str) -> None:
    files: FunctionToolset[Any] = FunctionToolset(id="files")

    @files.tool_plain
    def file(media_type: str) -> BinaryContent:
        return BinaryContent(b"abc", media_type=media_type)

    async with serving(make_agent(plugin("files", toolsets=[files])), mode) as (client, _):
        kinds = ["image/png", "audio/wav", "application/pdf"]
        blocks = [(await client.call_tool("file", {"media_type": kind})).content[-1] for kind in kinds]
    assert [block.type for block in blocks] == ["image", "audio", "resource"]
