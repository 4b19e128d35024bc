"""Calls that a model with tool calls wrote as text: opt-in, offered tools only, never quoted ones."""

from __future__ import annotations

from typing import Any

import pytest
from deep_prompted_tools import PromptedTools
from deep_universe import TextDriver, ToolCall
from pydantic_ai import Agent
from pydantic_ai.messages import FinalResultEvent, ToolCallPart

from tests.stubs import Call, OpenAIStub, Script, Turn, openai_model
from tests.text_models import dialects

pytestmark = pytest.mark.anyio
HERMES: TextDriver = dialects()[0]
LEAK = HERMES.encode_calls([ToolCall("1", "double", {"number": 21})])
either = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def agent_of(stub: OpenAIStub, ran: list[int], **settings: Any) -> Agent[Any, Any]:
    agent: Agent[Any, Any] = Agent(openai_model(stub), capabilities=[PromptedTools(**settings)])

    @agent.tool_plain
    def double(number: int) -> int:
        """Double a number."""
        ran.append(number)
        return number * 2

    return agent


async def run(agent: Agent[Any, Any], streamed: bool) -> tuple[Any, list[Any]]:
    if not streamed:
        return await agent.run("go"), []
    async with agent.run_stream_events("go") as events:
        seen: list[Any] = [event async for event in events]
    return seen[-1].result, seen[:-1]


@either
@pytest.mark.parametrize("mode", ["auto", "never"])
async def test_a_leaked_call_runs_and_is_sent_natively_next_time(mode: str, streamed: bool) -> None:
    ran: list[int] = []
    with OpenAIStub(Script(Turn(f"Let me see.\n{LEAK}"), Turn("42"))) as stub:
        result, events = await run(agent_of(stub, ran, mode=mode, recover=True), streamed)
        assert result.output == "42"
        assert ran == [21]
        assert [tool["function"]["name"] for tool in stub.requests[1]["tools"]] == ["double"]
        assistant, tool = stub.requests[1]["messages"][1:]
        assert assistant["content"] == "Let me see."
        assert assistant["tool_calls"][0]["function"] == {"name": "double", "arguments": '{"number":21}'}
        assert tool["role"] == "tool"
    assert not any("tool_call>" in str(getattr(event, "delta", "")) for event in events)


@either
@pytest.mark.parametrize("mode", ["auto", "never"])
async def test_without_the_option_a_leak_stays_text(mode: str, streamed: bool) -> None:
    ran: list[int] = []
    with OpenAIStub(Script(Turn(LEAK))) as stub:
        result, _ = await run(agent_of(stub, ran, mode=mode), streamed)
        assert result.output == LEAK
        assert ran == []


@either
@pytest.mark.parametrize(
    "text",
    [
        f"```\n{LEAK}\n```",
        f"Write `{LEAK}`.",
        f"<think>{LEAK}</think>No.",
        f"> {LEAK.splitlines()[0]}\n> …\nwas on the page.",
        LEAK.removesuffix("</tool_call>"),
        LEAK.replace("21}", "twenty"),
        HERMES.encode_calls([ToolCall("1", "rm", {"path": "/"})]),
        f"The page says: {LEAK}\n{LEAK} and more.",
        f"“{LEAK}” stands there.",
        f"<tool_call>\n{'A long example. ' * 500}",
    ],
    ids=[
        "fence",
        "backticks",
        "reasoning",
        "quote",
        "cut off",
        "malformed",
        "not offered",
        "in a sentence",
        "quotation marks",
        "long",
    ],
)
async def test_what_is_no_call_of_an_offered_tool_stays_text(text: str, streamed: bool) -> None:
    ran: list[int] = []
    with OpenAIStub(Script(Turn(text))) as stub:
        result, _ = await run(agent_of(stub, ran, recover=True), streamed)
        assert ran == []
        assert len(stub.requests) == 1  # nothing is asked again
        said = "".join(str(part.content) for part in result.all_messages()[-1].parts)
        assert (
            said.replace("<think>", "").replace("</think>", "").split()
            == text.replace("<think>", "").replace("</think>", "").split()
        )


@either
async def test_reasoning_that_the_prompt_opened_calls_nothing(streamed: bool) -> None:
    ran: list[int] = []
    with OpenAIStub(Script(Turn(f"Maybe\n{LEAK}\n</think>\n\nNo."))) as stub:
        result, _ = await run(agent_of(stub, ran, recover=True), streamed)
    assert (ran, result.output.endswith("</think>\n\nNo.")) == ([], True)


@either
async def test_native_calls_and_text_pass(streamed: bool) -> None:
    ran: list[int] = []
    with OpenAIStub(Script(Turn("One moment.", calls=(Call("double", {"number": 1}),)), Turn("2"))) as stub:
        result, events = await run(agent_of(stub, ran, recover=True), streamed)
        assert result.output == "2"
        assert ran == [1]
    parts = [part for message in result.all_messages() for part in message.parts]
    assert next(part.tool_call_id for part in parts if isinstance(part, ToolCallPart)).startswith("call_")
    assert sum(isinstance(event, FinalResultEvent) for event in events) == (2 if streamed else 0)


async def test_the_requests_are_the_same_with_and_without() -> None:
    bodies: list[list[bytes]] = []
    for recover in (True, False):
        with OpenAIStub(Script(Turn(calls=(Call("double", {"number": 1}),)), Turn("2"))) as stub:
            await run(agent_of(stub, [], recover=recover), False)
            bodies.append(stub.bodies)
    assert bodies[0] == bodies[1]
