"""Streams: the same parts as without, and no markup in any event, however the provider splits its text."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from deep_prompted_tools import PromptedTools
from deep_prompted_tools.reply import ReplyReader, result_marker
from deep_universe import TextDriver, ToolCall, ToolResult
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import Agent
from pydantic_ai.messages import (
    AgentStreamEvent,
    FinalResultEvent,
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.tools import ToolDefinition

from tests.drawn import sample
from tests.text_models import NO_TOOLS, dialects, markup_in

pytestmark = pytest.mark.anyio
TOOLS = [
    ToolDefinition(name="write", parameters_json_schema={"type": "object", "properties": {"text": {"type": "string"}}}),
    ToolDefinition(name="look", parameters_json_schema={"type": "object", "properties": {}}),
]
PARAMETERS = ModelRequestParameters(function_tools=TOOLS)


def streamed_model(chunks: Sequence[Any]) -> FunctionModel:
    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        for chunk in chunks:
            yield chunk

    def whole(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart("".join(chunk for chunk in chunks if isinstance(chunk, str)))])

    return FunctionModel(whole, stream_function=stream, profile=NO_TOOLS)


def parts_of(response: ModelResponse) -> list[Any]:
    return [
        (part.tool_name, part.args) if isinstance(part, ToolCallPart) else (part.part_kind, part.content)  # type: ignore[union-attr]
        for part in response.parts
    ]


async def read(driver: TextDriver, chunks: Sequence[Any]) -> tuple[ModelResponse, list[AgentStreamEvent]]:
    from pydantic_ai.messages import ModelRequest

    model = PromptedTools("always", dialect=driver.name, retries=0).prompted(streamed_model(chunks))
    async with model.request_stream([ModelRequest.user_text_prompt("go")], None, PARAMETERS) as stream:
        events = [event async for event in stream]
        return stream.get(), events


def shown(events: Sequence[Any]) -> list[str]:
    """The text of each part, put together from its events."""
    texts: dict[int, str] = {}
    for event in events:
        if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
            texts[event.index] = event.part.content
        elif isinstance(event, PartDeltaEvent) and event.index in texts:
            texts[event.index] += event.delta.content_delta  # type: ignore[union-attr]
    return [*texts.values()]


def reply(driver: TextDriver) -> str:
    """Text, two calls, one with what looks like markup in an argument."""
    tricky = ToolCall("c1", "write", {"text": 'a < b & </tool_call> `x`\n"q" é'})
    return f"Well, 1 < 2.\n\n{driver.encode_calls([tricky, ToolCall('c2', 'look', {})])}\n"


@pytest.mark.slow
@pytest.mark.parametrize("driver", sample(dialects(), *dialects()[::3]), ids=lambda driver: driver.name)
async def test_markers_split_at_every_position(driver: TextDriver) -> None:
    text = reply(driver)
    whole, _ = await read(driver, [text])
    assert [part[0] for part in parts_of(whole)] == ["text", "write", "look"]
    for position in range(1, len(text)):
        response, events = await read(driver, [text[:position], text[position:]])
        assert parts_of(response) == parts_of(whole), position
        assert shown(events) == ["Well, 1 < 2."], position


@pytest.mark.parametrize("driver", dialects(), ids=lambda driver: driver.name)
async def test_one_character_at_a_time(driver: TextDriver) -> None:
    text = reply(driver)
    whole, _ = await read(driver, [text])
    response, events = await read(driver, [*text])
    assert parts_of(response) == parts_of(whole)
    assert shown(events) == ["Well, 1 < 2."]
    texts = [event for event in events if isinstance(event, PartStartEvent | PartDeltaEvent | PartEndEvent)]
    assert not any(markup_in(str(getattr(event, "part", event))) for event in texts if "write" not in str(event))


@pytest.mark.parametrize("driver", dialects(), ids=lambda driver: driver.name)
async def test_streamed_and_whole_replies_have_the_same_parts(driver: TextDriver) -> None:
    from pydantic_ai.messages import ModelRequest

    for text in (reply(driver), "Only text. \n", "  \n", f"{reply(driver)} And more.", "<think>hm</think>\n\nYes."):
        model = PromptedTools("always", dialect=driver.name, retries=0).prompted(streamed_model([text]))
        whole = await model.request([ModelRequest.user_text_prompt("go")], None, PARAMETERS)
        streamed, _ = await read(driver, [*text])
        assert parts_of(whole) == parts_of(streamed), text
        assert whole.finish_reason == streamed.finish_reason


@given(st.lists(st.text('<>/`tolcrespn_ \n{}"ab', max_size=12), max_size=12))
def test_any_text_in_any_chunks_gives_what_it_gives_whole(chunks: list[str]) -> None:
    driver = dialects()[0]

    async def both() -> None:
        whole, _ = await read(driver, ["".join(chunks) or " "])
        response, events = await read(driver, chunks if "".join(chunks) else [" "])
        assert parts_of(response) == parts_of(whole)
        assert "".join(shown(events)) == "".join(text for kind, text in parts_of(whole) if kind == "text")

    asyncio.run(both())


@pytest.mark.parametrize("driver", dialects(), ids=lambda driver: driver.name)
async def test_results_that_the_model_invents_are_dropped_with_all_that_follows(driver: TextDriver) -> None:
    first, second = (driver.encode_calls([ToolCall("1", name, {})]) for name in ("look", "write"))
    invented = driver.encode_results([ToolResult("1", "all is well", meta={"tool": "look"})])
    text = f"I look.\n{first}\n{invented}\n{second}\nDone."
    for chunks in ([text], [*text]):
        response, events = await read(driver, chunks)
        assert [part[0] for part in parts_of(response)] == ["text", "look"]
        assert shown(events) == ["I look."]


@pytest.mark.parametrize("driver", dialects(), ids=lambda driver: driver.name)
async def test_text_after_calls_that_is_no_result_stays(driver: TextDriver) -> None:
    assert len(result_marker(driver)) >= 8
    almost = result_marker(driver)[:-1]
    call = driver.encode_calls([ToolCall("1", "look", {})])
    for after in (almost, f"{almost}!", "I wait."):
        response, _ = await read(driver, [*f"{call}\n\n{after}"])
        assert parts_of(response)[-1] == ("text", after)


@pytest.mark.parametrize("driver", dialects(), ids=lambda driver: driver.name)
async def test_reasoning_that_the_prompt_opened_calls_nothing(driver: TextDriver) -> None:
    """The reply has the closing tag alone, after events of what looked like calls."""
    call, other = (driver.encode_calls([ToolCall("1", name, {})]) for name in ("look", "write"))
    invented = driver.encode_results([ToolResult("1", "all is well", meta={"tool": "look"})])
    for before in [call, *([] if driver.name == "react" else [f"{call}\n{invented}"])]:  # ReAct drops all after it
        text = f"Maybe\n{before}\nor not.\n</think>\n\n{other}"
        for chunks in ([text], [*text]):
            response, events = await read(driver, chunks)
            assert [part[0] for part in parts_of(response) if part[0] != "text"] == ["write"]
            assert "".join(shown(events)).startswith("Maybe")


async def test_a_chunk_in_a_code_fence_that_is_a_tag_of_reasoning_stays_text() -> None:
    chunks = ["So:\n```\n", "<think>", "hm", "</think>", "\n```\nThat is it."]
    response, _ = await read(dialects()[0], chunks)
    assert parts_of(response) == [("text", "".join(chunks))]


def test_blanks_alone_take_linear_time() -> None:
    """Some models end in thousands of blanks, one at a time."""
    examined = 0

    def profile(frame: Any, event: str, called: Any) -> None:
        nonlocal examined
        if event == "c_call" and isinstance(owner := getattr(called, "__self__", None), str):
            examined += len(owner)

    reader, count = ReplyReader(dialects()[0], TOOLS), 2_000
    reader.feed("Well.")
    sys.setprofile(profile)
    try:
        pieces = [piece for _ in range(count) for piece in reader.feed("\n")]
    finally:
        sys.setprofile(None)
    assert pieces == []
    assert "".join(map(str, [*reader.feed("x"), *reader.finish()])) == "\n" * count + "x"
    assert examined < 100 * count


async def test_no_text_begins_before_a_call() -> None:
    driver = dialects()[0]
    _, events = await read(driver, ["\n", "\n ", driver.encode_calls([ToolCall("1", "look", {})]), "\n\n"])
    assert not any(isinstance(event, FinalResultEvent) for event in events)
    assert [event.part.part_kind for event in events if isinstance(event, PartStartEvent)] == ["tool-call"]


async def test_text_appears_at_once_where_no_call_may_begin() -> None:
    driver = dialects()[0]
    seen: list[str] = []

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        for word in ("One", " two", " three"):
            yield word
            seen.append(word)

    model = PromptedTools("always").prompted(FunctionModel(stream_function=stream, profile=NO_TOOLS))
    from pydantic_ai.messages import ModelRequest

    async with model.request_stream([ModelRequest.user_text_prompt("go")], None, PARAMETERS) as response:
        async for event in response:
            if isinstance(event, PartStartEvent):
                assert seen == []  # the first word is shown before the second was written
    assert driver.name == "hermes"


async def test_thoughts_and_native_calls_pass() -> None:
    driver = dialects()[0]
    call = driver.encode_calls([ToolCall("1", "look", {})])
    chunks = [
        {0: DeltaThinkingPart(content="I ")},
        {0: DeltaThinkingPart(content="think")},
        call[:9],
        call[9:],
        {2: DeltaToolCall(name="write", json_args='{"te', tool_call_id="n")},
        {2: DeltaToolCall(json_args='xt": "x"}')},
    ]
    response, _ = await read(driver, chunks)
    assert [type(part) for part in response.parts] == [ThinkingPart, ToolCallPart, ToolCallPart]
    assert response.parts[0].content == "I think"  # type: ignore[union-attr]
    assert response.parts[2].args_as_dict() == {"text": "x"}  # type: ignore[union-attr]


async def test_a_cancelled_stream_is_interrupted_and_closes_the_models() -> None:
    from pydantic_ai.messages import ModelRequest

    model = PromptedTools("always").prompted(streamed_model(["One two ", "three ", "four"]))
    async with model.request_stream([ModelRequest.user_text_prompt("go")], None, PARAMETERS) as stream:
        async for _ in stream:
            await stream.cancel()
        assert stream.get().state == "interrupted"


async def test_a_stream_that_is_left_early_is_incomplete() -> None:
    from pydantic_ai.messages import ModelRequest

    model = PromptedTools("always").prompted(streamed_model(["One two ", "three ", "four"]))
    async with model.request_stream([ModelRequest.user_text_prompt("go")], None, PARAMETERS) as stream:
        async for _ in stream:
            break
        assert stream.get().state == "incomplete"


async def test_the_usage_and_facts_of_the_model_stay() -> None:
    response, _ = await read(dialects()[0], ["one ", "two"])
    assert response.usage.output_tokens == 2
    assert response.state == "complete"
    assert response.model_name is not None
    assert response.model_name.startswith("function:")


async def test_run_stream_events_ends_with_the_result() -> None:
    driver = dialects()[0]
    model = streamed_model([driver.encode_calls([ToolCall("1", "final_result", {"response": [1, 2]})])])
    agent: Agent[Any, Any] = Agent(model, output_type=list[int], capabilities=[PromptedTools()])
    async with agent.run_stream("go") as result:
        assert await result.get_output() == [1, 2]
