"""Calls written wrongly: the model is told once or twice, then its text stands; calls beside them run."""

from __future__ import annotations

from typing import Any

import pytest
from deep_prompted_tools import PromptedTools
from deep_universe import TextDriver, ToolCall
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart

from tests.text_models import TextModel, dialects, markup_in

pytestmark = pytest.mark.anyio
HERMES: TextDriver = dialects()[0]
GOOD = HERMES.encode_calls([ToolCall("1", "double", {"number": 2})])
BROKEN = '<tool_call>\n{"name": "double", "arguments": {"number": 2\n</tool_call>'
CUT_OFF = '<tool_call>\n{"name": "double", "arguments": {"number": 2}}'
NAMELESS = '<tool_call>\n{"arguments": {"number": 2}}\n</tool_call>'
UNKNOWN = HERMES.encode_calls([ToolCall("1", "triple", {"number": 2})])
either = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def agent_of(model: Any, ran: list[int], **settings: Any) -> Agent[Any, Any]:
    agent: Agent[Any, Any] = Agent(model, capabilities=[PromptedTools(**settings)])

    @agent.tool_plain
    def double(number: int) -> int:
        """Double a number."""
        ran.append(number)
        return number * 2

    return agent


async def run(agent: Agent[Any, Any], streamed: bool, prompt: str | None = "go", **settings: Any) -> Any:
    if not streamed:
        return await agent.run(prompt, **settings)
    async with agent.run_stream_events(prompt, **settings) as events:
        return [event async for event in events][-1].result  # type: ignore[union-attr]


@either
@pytest.mark.parametrize(
    "wrong", [BROKEN, CUT_OFF, NAMELESS, UNKNOWN], ids=["broken", "cut off", "nameless", "unknown"]
)
async def test_the_model_reads_it_and_writes_it_again(wrong: str, streamed: bool) -> None:
    ran: list[int] = []
    model = TextModel(wrong, GOOD, "4")
    result = await run(agent_of(model, ran), streamed)
    assert result.output == "4"
    assert ran == [2]
    asked = model.requests[1].turns
    assert asked[:1] == model.requests[0].turns
    assert asked[1] == ("assistant", wrong)
    assert "none of the calls ran" in asked[2][1]
    # What was wrong is told and then forgotten: the conversation has the good call alone.
    assert model.requests[2].turns[1] == ("assistant", GOOD)
    assert not any(markup_in(str(part.content)) for part in texts(result.all_messages()))


@either
@pytest.mark.parametrize("retries", [0, 1, 2])
async def test_after_the_last_attempt_the_text_stands(retries: int, streamed: bool) -> None:
    ran: list[int] = []
    model = TextModel(f"I try.\n{BROKEN}")
    result = await run(agent_of(model, ran, retries=retries), streamed)
    assert len(model.requests) == retries + 1
    assert ran == []
    assert result.output.rstrip().endswith(BROKEN)
    assert result.output.startswith("I try.")


@either
async def test_a_long_reply_stands_whole(streamed: bool) -> None:
    text = f"So:\n<tool_call>\n{'What a model writes of calls. ' * 500}"
    result = await run(agent_of(TextModel(text), [], retries=0), streamed)
    assert result.output.split() == text.split()


@either
async def test_two_wrong_calls_of_one_marker_stand_once(streamed: bool) -> None:
    text = '<tool_call>\n[{"name": "triple"}, {"name": "triple"}]\n</tool_call>'
    result = await run(agent_of(TextModel(text), [], retries=0), streamed)
    assert result.output.strip() == text


async def test_an_unknown_name_of_any_length_is_reported_in_short() -> None:
    model = TextModel(HERMES.encode_calls([ToolCall("1", "x" * 100_000, {})]), "sorry")
    await run(agent_of(model, []), False)
    assert len(model.requests[1].last) < 500


async def test_an_unknown_tool_is_reported_with_the_known_ones() -> None:
    model = TextModel(UNKNOWN, "sorry")
    await run(agent_of(model, []), False)
    assert "there is no tool 'triple'; the tools are: double" in model.requests[1].last


@either
async def test_one_malformed_call_does_not_lose_the_others(streamed: bool) -> None:
    ran: list[int] = []
    third = HERMES.encode_calls([ToolCall("1", "double", {"number": 3})])
    model = TextModel(f"All three.\n{GOOD}\n{BROKEN}\n{third}", "4 and 6.")
    result = await run(agent_of(model, ran), streamed)
    assert sorted(ran) == [2, 3]  # they run at once, in threads
    assert result.output == "4 and 6."
    # The second was told with the results of the others.
    assert len(model.requests) == 2
    wrote, results = model.requests[1].turns[1][1], model.requests[1].last
    assert wrote.count("<tool_call>") == 3
    assert '"content": 4' in results
    assert '"content": 6' in results
    assert '"error"' in results
    assert not any(markup_in(str(part.content)) for part in texts(result.all_messages()))


async def test_what_was_wrong_is_reported_again_after_a_restart() -> None:
    model = TextModel(f"{GOOD}\n{BROKEN}", "4", "yes")
    result = await run(agent_of(model, []), False)
    stored = ModelMessagesTypeAdapter.validate_json(result.all_messages_json())
    await run(agent_of(model, []), False, "really?", message_history=stored)
    assert model.requests[2].turns[:3] == model.requests[1].turns


async def test_forged_metadata_is_ignored() -> None:
    history: list[ModelMessage] = [
        *ModelMessagesTypeAdapter.validate_python(
            [{"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "go"}]}]
        ),
        ModelResponse(parts=[TextPart("hi")], metadata={"deep_prompted_tools": "x"}),
        ModelResponse(parts=[TextPart("hi")], metadata={"deep_prompted_tools": {"invalid": [3, {"name": 4}]}}),
    ]
    model = TextModel("fine")
    assert (await run(agent_of(model, []), False, "go", message_history=history)).output == "fine"


@pytest.mark.slow
@either
async def test_thousands_of_wrong_calls_are_counted_not_listed(streamed: bool) -> None:
    many = "\n".join([GOOD, *[f"{BROKEN}\nand"] * 3_000])
    model = TextModel(many, "4", chunk=10_000)
    result = await run(agent_of(model, []), streamed)
    assert result.output == "4"
    assert model.requests[1].last.count('"error"') == 21
    assert "2980 more calls are written wrongly" in model.requests[1].last
    assert len(str(result.all_messages()[1].metadata)) < 20_000
    alone = TextModel("\n".join([BROKEN] * 3_000), "sorry", chunk=10_000)
    await run(agent_of(alone, []), streamed)
    assert len(alone.requests[1].last) < 10_000


@either
async def test_the_tokens_of_every_attempt_count(streamed: bool) -> None:
    once = await run(agent_of(TextModel(GOOD, "4"), []), streamed)
    twice = await run(agent_of(TextModel(BROKEN, GOOD, "4"), []), streamed)
    assert twice.usage.output_tokens > once.usage.output_tokens
    assert twice.usage.input_tokens > once.usage.input_tokens


def texts(messages: list[ModelMessage]) -> list[Any]:
    return [part for message in messages for part in message.parts if not isinstance(part, ToolCallPart)]
