"""Whatever a conversation holds, each request that leaves is valid for its provider's own types."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import httpx2
import pytest
from anthropic import AsyncAnthropic
from anthropic.types import MessageParam
from anthropic.types import ToolUnionParam as AnthropicTool
from deep_sessions.door.messages import clean_message
from deep_sessions.door.values import clean_result
from google.genai import types as google
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessageParam
from openai.types.responses import ResponseInputParam
from openai.types.responses import ToolParam as ResponseTool
from pydantic import TypeAdapter
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import (
    BinaryContent,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import RequestUsage
from pydantic_core import to_json

from deep_core import create_default_deps
from plugins.sessions.tests.scripted import kernel
from plugins.sessions.tests.test_door import GIF, HEIC, JPEG, PDF, PNG, SVG, WAV, WEBP
from tests.drawn import many

EACH = int(os.environ.get("DEEP_FUZZ") or many(30, 25_000))
"""Four properties: 100,000 at night, or as many as DEEP_FUZZ says."""

# -- what is drawn -----------------------------------------------------------------------------------------------------

odd_chars = st.sampled_from(["\ud83d", "\udc4d", "\udce9", "\0", "\x1b", "\ufffe", "\u2028", "é", "👍", "<", '"', "\\"])
texts = st.lists(st.text(max_size=8) | odd_chars, max_size=4).map("".join)
files = [
    PNG,
    JPEG,
    GIF,
    WEBP,
    PDF,
    WAV,
    SVG,
    HEIC,
    b"",
    b"<html>504</html>",
    b"{}",
    b"BM=",
    b"PK\x03\x04",
    b"\xff\xfeh\0",
    b"\0\0\0\x18ftypisom" + b"\0" * 40,
    b"ID3\x04" + b"\0" * 40,
    b"FORM\0\0\0\x20AIFF" + b"\0" * 40,
]


@st.composite
def mangled(draw: Any) -> bytes:
    data = draw(st.sampled_from(files) | st.binary(max_size=40))
    end = draw(st.integers(0, len(data)))
    return draw(st.sampled_from([data, data[:end], data[end:], data + b"\0", data[:end] + b"\xff" + data[end:]]))


media_types = st.sampled_from(["image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml", "image/heic"])
media_types |= st.sampled_from(["image/jpg", "audio/wav", "audio/mpeg", "video/mp4", "application/pdf", "text/plain"])
media_types |= st.sampled_from(["audio/aiff", "audio/ogg", "video/webm", "application/msword", "text/markdown"])
media_types |= st.sampled_from(["text/csv", "application/json", "application/zip", "application/octet-stream", "x"])
binaries = st.builds(lambda data, media_type: BinaryContent(data, media_type=media_type), mangled(), media_types)
urls = st.sampled_from(["", "x", "file:///a", "data:image/png;base64,AAAA", "http://[x"])
items = texts | binaries | urls.map(ImageUrl)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
values = st.recursive(
    scalars | binaries,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(["look", "Look", "look up", "", "a.b", "1", "x" * 90]) | texts
arguments = st.none() | st.dictionaries(texts, scalars, max_size=3) | st.sampled_from(["", "{", "[1]", "null", "{}"])
arguments |= st.sampled_from(['{"a": NaN}', '{"a": "\\ud83d"}', '{"a": "\\u0000"}', '{"a": "\ud83d"}'])


def circle() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


results = values | st.sampled_from([circle(), {1: {2}}, object(), b"\xff"])


@st.composite
def replies(draw: Any) -> ModelResponse:
    parts: list[Any] = [draw(texts.map(TextPart))]
    if draw(st.booleans()):
        parts.insert(0, ThinkingPart(draw(texts), signature=draw(st.none() | texts)))
    if draw(st.booleans()):
        parts.append(FilePart(draw(binaries)))
    for at in range(draw(st.integers(0, 2))):
        parts.append(ToolCallPart(draw(names), draw(arguments), f"c{at}{draw(texts)}"))
    details = draw(st.none() | st.dictionaries(texts, scalars, max_size=1))
    # With usage: a scripted model would estimate it, from JSON that there is none of.
    return ModelResponse(parts, provider_details=details, usage=RequestUsage(input_tokens=1))


@st.composite
def histories(draw: Any) -> list[ModelMessage]:
    messages: list[ModelMessage] = []
    for _ in range(draw(st.integers(1, 3))):
        content = draw(texts | st.lists(items, min_size=1, max_size=3))
        messages.append(ModelRequest([UserPromptPart(content)], instructions=draw(st.none() | texts)))
        reply = draw(replies())
        messages.append(reply)
        calls = [part for part in reply.parts if isinstance(part, ToolCallPart)]
        if calls:
            answers = [ToolReturnPart(call.tool_name, draw(results), call.tool_call_id) for call in calls]
            messages += [ModelRequest(answers), ModelResponse([TextPart(draw(texts))])]
    return messages


# -- the providers -----------------------------------------------------------------------------------------------------


adapter_of: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)  # one costs more than ten requests


def fits(kind: Any, data: Any) -> None:
    """Check data against an SDK's type. Dumping it reads what validation leaves lazy."""
    adapter_of(kind).dump_json(adapter_of(kind).validate_python(data))


def check_text(value: Any) -> None:
    """Check that nothing in a body is half of a pair or NUL, which the types do not see."""
    json.loads(json.dumps(value), parse_constant=lambda constant: pytest.fail(constant))
    assert not [text for text in texts_in(value) if "\0" in text]
    json.dumps(value, ensure_ascii=False).encode()


def texts_in(value: Any, key: str = "") -> Iterator[str]:
    """Every text in a body, its keys too. The arguments of a call are JSON in a text."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from texts_in(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)
    elif isinstance(value, str):
        yield value
        if key == "arguments":
            yield from texts_in(json.loads(value))


def openai(body: Any) -> Any:
    fits(list[ChatCompletionMessageParam], body["messages"])
    fits(list[ChatCompletionFunctionToolParam], body.get("tools", []))
    message = {"role": "assistant", "content": "fine"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


def openai_responses(body: Any) -> Any:
    fits(ResponseInputParam, body["input"])
    fits(list[ResponseTool], body.get("tools", []))
    said = {"type": "output_text", "text": "fine", "annotations": []}
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [said]}
    more = {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True, "status": "completed"}
    return {"id": "1", "object": "response", "created_at": 1, "model": "m", "output": [message], **more}


def anthropic(body: Any) -> Any:
    fits(list[MessageParam], body["messages"])
    fits(list[AnthropicTool], body.get("tools", []))
    usage = {"input_tokens": 1, "output_tokens": 1}
    content = [{"type": "text", "text": "fine"}]
    end = {"stop_reason": "end_turn", "usage": usage}
    return {"id": "1", "type": "message", "role": "assistant", "model": "m", "content": content, **end}


def gemini(body: Any) -> Any:
    for content in body["contents"]:
        google.Content.model_validate(content)
        assert content["parts"]
    for tool in body.get("tools", []):
        google.Tool.model_validate(tool)
    content = {"role": "model", "parts": [{"text": "fine"}]}
    return {"candidates": [{"content": content, "finishReason": "STOP"}]}


def transport(check: Callable[[Any], Any], faults: list[BaseException]) -> httpx2.AsyncClient:
    def answer(request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        try:
            check_text(body)
            return httpx2.Response(200, json=check(body))
        except BaseException as fault:
            faults.append(fault)
            return httpx2.Response(400, json={"error": {"message": str(fault)[:500]}})

    return httpx2.AsyncClient(transport=httpx2.MockTransport(answer), timeout=1200)


def models(faults: list[BaseException]) -> dict[str, Model[Any]]:
    chat = AsyncOpenAI(api_key="none", http_client=transport(openai, faults))
    responses = AsyncOpenAI(api_key="none", http_client=transport(openai_responses, faults))
    messages = AsyncAnthropic(api_key="none", http_client=transport(anthropic, faults))
    claude = AnthropicProvider(anthropic_client=messages)
    found = GoogleProvider(api_key="none", http_client=transport(gemini, faults))
    return {
        "openai": OpenAIChatModel("gpt-5.2", provider=OpenAIProvider(openai_client=chat)),
        "responses": OpenAIResponsesModel("gpt-5.2", provider=OpenAIProvider(openai_client=responses)),
        "anthropic": AnthropicModel("claude-sonnet-4-6", provider=claude, settings={"max_tokens": 1_000}),
        "google": GoogleModel("gemini-2.5-flash", provider=found),
    }


@pytest.fixture
def run() -> Iterator[Callable[[Any], Any]]:
    with asyncio.Runner() as runner:
        yield runner.run


def look(a: str = "") -> str:
    """Look at a text."""
    return a


@pytest.mark.slow
@pytest.mark.parametrize("provider", ["openai", "responses", "anthropic", "google"])
def test_a_request_with_any_history_is_valid_for_its_provider(provider: str, run: Any) -> None:
    faults: list[BaseException] = []
    plain = kernel()
    agent = plain.create_agent(models(faults)[provider], tools=[look], backend="memory", interrupt_on=False)

    @settings(max_examples=EACH // 4 + 1)
    @given(histories(), texts)
    def holds(history: list[ModelMessage], prompt: str) -> None:
        faults.clear()
        deps = create_default_deps(kernel=plain)
        try:
            result = run(agent.run(prompt or "go on", message_history=history, deps=deps))
        finally:
            if faults:
                raise faults[0]
        assert result.output == "fine"
        ModelMessagesTypeAdapter.dump_json(result.all_messages())

    holds()


@settings(max_examples=EACH)
@given(results | st.builds(lambda value, meta: ToolReturn(value, metadata=meta), results, values))
def test_any_result_of_a_tool_can_be_sent_or_is_a_failed_result(value: Any) -> None:
    try:
        made = clean_result("t", value)
    except ToolFailed as failed:
        failed.message.encode()
        return
    assert clean_result("t", made) is made
    shown = made.return_value if isinstance(made, ToolReturn) else made
    to_json(shown, bytes_mode="base64")


@pytest.mark.slow
@settings(max_examples=EACH)
@given(histories())
def test_a_repaired_conversation_stays_as_it_is(history: list[ModelMessage]) -> None:
    made = [clean_message(message) for message in history]
    stored = ModelMessagesTypeAdapter.dump_json(made)
    again = ModelMessagesTypeAdapter.validate_json(stored)
    for message in again:
        assert clean_message(message) is message
    assert all(clean_message(message) is message for message in made)


@pytest.mark.slow
def test_after_any_reply_and_result_a_session_takes_the_next_message(run: Any) -> None:
    plain = kernel()
    drawn: list[Any] = []

    def answer(messages: list[ModelMessage], info: Any) -> ModelResponse:
        first = not any(isinstance(message, ModelResponse) for message in messages)
        return drawn[0] if first else ModelResponse([TextPart("fine")], usage=RequestUsage(input_tokens=1))

    def look(a: Any = None) -> Any:
        """Look at it."""
        return drawn[1]

    agent = plain.create_agent(FunctionModel(answer), tools=[look], backend="memory", interrupt_on=False)

    @settings(max_examples=EACH)
    @given(replies(), results)
    def holds(reply: ModelResponse, value: Any) -> None:
        drawn[:] = reply, value
        first = run(agent.run("go", deps=create_default_deps(kernel=plain)))
        stored = ModelMessagesTypeAdapter.dump_json(first.all_messages())
        loaded = ModelMessagesTypeAdapter.validate_json(stored)
        second = run(agent.run("go on", message_history=loaded, deps=create_default_deps(kernel=plain)))
        assert second.output == "fine"
        ModelMessagesTypeAdapter.dump_json(second.all_messages())

    holds()
