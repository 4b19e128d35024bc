"""The fake models of this repository: one script means the same to a FunctionModel and to both provider stubs."""

from __future__ import annotations

import asyncio
import copy
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolDenied
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    ModelRateLimitError,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPartDelta, ToolCallPart, ToolCallPartDelta
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModelSettings
from pydantic_ai.run import AgentRunResult, AgentRunResultEvent

from tests import another_process
from tests.stubs import (
    AnthropicStub,
    Call,
    Failure,
    Malformed,
    OpenAIStub,
    Player,
    RequestView,
    Script,
    ScriptError,
    ScriptExhausted,
    StubServer,
    Turn,
    Usage,
    anthropic_model,
    assert_wire_prefix,
    assert_wire_prefixes,
    function_model,
    openai_model,
    wire_prefix,
)

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[1]
STUBS = {"openai": OpenAIStub, "anthropic": AnthropicStub}
LONG = "Grüße aus Łódź: " + "ein langer Satz, der in Stücken kommt. " * 5


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Rig:
    """A model over a script, with the stub behind it where there is one."""

    def __init__(self, model: Model, player: Player, stub: StubServer | None) -> None:
        self.model, self.player, self.stub = model, player, stub


@contextmanager
def rig(kind: str, script: Script, **options: Any) -> Generator[Rig]:
    with ExitStack() as stack:
        if kind == "function":
            model = function_model(script)
            yield Rig(model, model.player, None)
        elif kind == "openai":
            openai = stack.enter_context(OpenAIStub(script))
            yield Rig(openai_model(openai, **options), openai.player, openai)
        else:
            anthropic = stack.enter_context(AnthropicStub(script))
            yield Rig(anthropic_model(anthropic, **options), anthropic.player, anthropic)


every_model = pytest.mark.parametrize("kind", ["function", "openai", "anthropic"])
every_stub = pytest.mark.parametrize("kind", ["openai", "anthropic"])
streamed_or_not = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


async def run(agent: Agent[None, Any], prompt: str | None, *, streamed: bool, **kwargs: Any) -> AgentRunResult[Any]:
    return (await run_with_events(agent, prompt, streamed=streamed, **kwargs))[0]


async def run_with_events(
    agent: Agent[None, Any], prompt: str | None, *, streamed: bool, **kwargs: Any
) -> tuple[AgentRunResult[Any], list[Any]]:
    if not streamed:
        return await agent.run(prompt, **kwargs), []
    events: list[Any] = []
    async with agent.run_stream_events(prompt, **kwargs) as stream:
        events = [event async for event in stream]
    last: Any = events[-1]
    assert isinstance(last, AgentRunResultEvent)
    return cast("AgentRunResult[Any]", last.result), events  # pyright: ignore[reportUnknownMemberType]


def weather_agent(model: Model, **kwargs: Any) -> Agent[None, Any]:
    agent = Agent(model, instructions="Answer briefly.", **kwargs)

    @agent.tool_plain
    def weather(city: str) -> str:
        """The weather in a city."""
        return f"sunny in {city}"

    return agent


def post(stub: StubServer, path: str, body: object, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", stub.port, timeout=10)
    try:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, data, {"authorization": "Bearer x", "x-api-key": "x", **headers})
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


def events_of(raw: bytes) -> list[Any]:
    lines = [line[6:] for line in raw.decode().split("\n") if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


# One script, three models


@every_model
@streamed_or_not
async def test_a_tool_loop_runs_alike_on_every_model(kind: str, streamed: bool) -> None:
    script = Script(
        Turn("Let me look.", (Call("weather", {"city": "Łódź"}, id="c1"),), usage=Usage(100, 20, 40, 10)),
        Turn(LONG, usage=Usage(150, 30, 100)),
    )
    with rig(kind, script) as it:
        result = await run(weather_agent(it.model), "Weather?", streamed=streamed)
    assert result.output == LONG
    usage = result.usage
    assert (usage.requests, usage.input_tokens, usage.output_tokens) == (2, 250, 50)
    assert (usage.cache_read_tokens, usage.cache_write_tokens) == (140, 10)
    assert [m.finish_reason for m in result.all_messages() if m.kind == "response"] == ["tool_call", "stop"]
    assert {m.model_name for m in result.all_messages() if m.kind == "response"} == {"stub"}
    first, second = it.player.views
    assert (first.prompt, first.system, list(first.tools), first.results) == (
        "Weather?",
        "Answer briefly.",
        ["weather"],
        [],
    )
    assert [(m.text, m.call_id) for m in second.results] == [("sunny in Łódź", "c1")]
    assert [m.role for m in second.messages] == ["user", "assistant", "tool"]
    (call,) = second.messages[1].calls
    assert (second.messages[1].text, call.name, call.arguments) == ("Let me look.", "weather", {"city": "Łódź"})


@every_model
@streamed_or_not
async def test_parallel_calls_all_run_and_get_ids_of_their_own(kind: str, streamed: bool) -> None:
    cities = ["Rome", "Oslo", "Lima"]
    script = Script([Call("weather", {"city": city}) for city in cities], "done")
    with rig(kind, script) as it:
        result = await run(weather_agent(it.model), "All?", streamed=streamed)
    assert result.output == "done"
    results = it.player.views[1].results
    assert [message.text for message in results] == [f"sunny in {city}" for city in cities]
    assert len({message.call_id for message in results}) == 3


@every_model
async def test_a_stream_comes_in_several_deltas_of_text_and_of_arguments(kind: str) -> None:
    script = Script(Turn(LONG, (Call("weather", {"city": "a city with a long name"}),)), "ok")
    with rig(kind, script) as it:
        _, events = await run_with_events(weather_agent(it.model), "Weather?", streamed=True)
    text = [e for e in events if isinstance(e, PartDeltaEvent) and isinstance(e.delta, TextPartDelta)]
    args = [e for e in events if isinstance(e, PartDeltaEvent) and isinstance(e.delta, ToolCallPartDelta)]
    assert len(text) >= 3
    assert len(args) >= 3
    assert any(isinstance(e, PartStartEvent) and isinstance(e.part, ToolCallPart) for e in events)


@every_model
@streamed_or_not
async def test_approvals_pause_and_resume(kind: str, streamed: bool) -> None:
    removed: list[str] = []
    script = Script([Call("remove", {"path": "/a"}, "c1"), Call("remove", {"path": "/b"}, "c2")], "finished")
    with rig(kind, script) as it:
        agent: Agent[None, Any] = Agent(it.model, output_type=[str, DeferredToolRequests])

        @agent.tool_plain(requires_approval=True)
        def remove(path: str) -> str:
            removed.append(path)
            return f"removed {path}"

        paused = await run(agent, "Clean up", streamed=streamed)
        assert isinstance(paused.output, DeferredToolRequests)
        assert [call.tool_call_id for call in paused.output.approvals] == ["c1", "c2"]
        assert removed == []
        decisions = DeferredToolResults(approvals={"c1": True, "c2": ToolDenied("keep /b")})
        history = paused.all_messages()
        done = await run(agent, None, streamed=streamed, message_history=history, deferred_tool_results=decisions)
    assert done.output == "finished"
    assert removed == ["/a"]
    texts = {message.call_id: message.text for message in it.player.views[1].results}
    assert texts["c1"] == "removed /a"
    assert "keep /b" in texts["c2"]
    if it.stub is not None:
        assert_wire_prefixes(it.stub.requests)


@every_model
@streamed_or_not
async def test_a_callable_turn_sees_the_request_and_then_answers_for_ever(kind: str, streamed: bool) -> None:
    def react(view: RequestView) -> Turn | Call:
        assert "weather" in view.tools
        if view.results:
            return Turn(f"{view.prompt} -> {view.results[-1].text} (request {view.index})")
        return Call("weather", {"city": view.prompt})

    with rig(kind, Script(then=react)) as it:
        agent = weather_agent(it.model)
        first = await run(agent, "Rome", streamed=streamed)
        second = await run(agent, "Oslo", streamed=streamed, message_history=first.all_messages())
    assert first.output == "Rome -> sunny in Rome (request 1)"
    assert second.output == "Oslo -> sunny in Oslo (request 3)"
    if it.stub is not None:
        assert_wire_prefixes(it.stub.requests)


@every_model
@streamed_or_not
async def test_each_answer_is_a_fresh_object(kind: str, streamed: bool) -> None:
    with rig(kind, Script(then=Turn("same", usage=Usage(5, 1)))) as it:
        agent = Agent(it.model)
        one, two = [await run(agent, "hi", streamed=streamed) for _ in range(2)]
    assert one.response is not two.response
    assert one.response.parts[0] is not two.response.parts[0]
    assert one.response.run_id != two.response.run_id
    assert one.usage.input_tokens == two.usage.input_tokens == 5


@every_model
@streamed_or_not
async def test_an_empty_answer_and_a_cut_off_answer_keep_their_finish_reason(kind: str, streamed: bool) -> None:
    with rig(kind, Script(Turn(), Turn("half an ans", finish="length"))) as it:
        result = await run(Agent(it.model, retries=2), "hi", streamed=streamed)
    assert result.output == "half an ans"
    assert result.response.finish_reason == "length"
    assert len(it.player.views) == 2


@pytest.mark.slow
@every_model
async def test_many_runs_at_once_share_one_position(kind: str) -> None:
    with rig(kind, Script(then=lambda view: f"echo {view.prompt}")) as it:
        agent = Agent(it.model)
        results = await asyncio.gather(*(agent.run(str(number)) for number in range(20)))
    assert [result.output for result in results] == [f"echo {number}" for number in range(20)]
    assert sorted(view.index for view in it.player.views) == list(range(20))


def test_two_players_of_one_script_do_not_disturb_each_other() -> None:
    script = Script("one", "two")
    view = RequestView(messages=[], tools=[])
    first, second = script.play(), script.play()
    assert [first.answer(view), first.answer(view), second.answer(view)] == [Turn("one"), Turn("two"), Turn("one")]
    assert (first.left, second.left) == (0, 1)


@every_model
def test_run_sync_on_several_event_loops_leaves_nothing_open(kind: str) -> None:
    # A pooled connection of the first loop would break in the second, or warn when it is collected.
    with rig(kind, Script("a", "b")) as it:
        agent = Agent(it.model)
        assert asyncio.run(agent.run("x")).output == "a"
        assert asyncio.run(agent.run("y")).output == "b"


# Failures


@every_model
@streamed_or_not
async def test_a_rate_limit_is_raised_with_its_delay_and_then_it_is_over(kind: str, streamed: bool) -> None:
    with rig(kind, Script(Failure(429, "slow down", retry_after=7), "ok")) as it:
        agent = Agent(it.model)
        with pytest.raises(ModelRateLimitError, match="slow down") as caught:
            await run(agent, "hi", streamed=streamed)
        assert caught.value.retry_after == 7
        assert (await run(agent, "hi", streamed=streamed)).output == "ok"
    if it.stub is not None:
        assert it.stub.statuses == [429, 200]


@every_stub
@streamed_or_not
async def test_the_sdk_retries_when_asked_and_sends_the_same_bytes(kind: str, streamed: bool) -> None:
    with rig(kind, Script(Failure(429, retry_after=0.01), Failure(500, retry_after=0.01), "ok"), max_retries=2) as it:
        result = await run(Agent(it.model), "hi", streamed=streamed)
    assert it.stub is not None
    assert result.output == "ok"
    assert it.stub.statuses == [429, 500, 200]
    assert len(set(it.stub.bodies)) == 1


@every_model
@streamed_or_not
@pytest.mark.parametrize("how", ["not-json", "wrong-shape", "cut"])
async def test_a_malformed_answer_is_an_error_and_no_output(kind: str, streamed: bool, how: Any) -> None:
    expected: tuple[type[Exception], ...] = (ModelAPIError, UnexpectedModelBehavior)
    if kind != "function" and how == "cut":
        expected = (ModelConnectionError,)
    elif kind == "anthropic" and how == "wrong-shape" and not streamed:
        expected = (TypeError,)  # AnthropicModel does not check the shape of a whole answer (2.62 and 2.68)
    with rig(kind, Script(Malformed(how))) as it:
        with pytest.raises(expected):
            await run(Agent(it.model, retries=0), "hi", streamed=streamed)
        assert len(it.player.views) == 1


@every_model
@streamed_or_not
async def test_a_request_after_the_last_turn_says_so(kind: str, streamed: bool) -> None:
    with rig(kind, Script("only one"), **({} if kind == "function" else {"max_retries": 3})) as it:
        agent = Agent(it.model)
        await run(agent, "first", streamed=streamed)
        expected = ScriptExhausted if kind == "function" else ModelHTTPError
        with pytest.raises(expected, match="the script has 1 turns and request 2 came"):
            await run(agent, "second", streamed=streamed)
    if it.stub is not None:
        assert it.stub.statuses == [200, 500]  # and no retry, though the SDK was allowed three


@every_stub
async def test_what_a_callable_turn_raises_fails_the_test_when_the_stub_is_left(kind: str) -> None:
    def wrong(view: RequestView) -> str:
        raise ZeroDivisionError("an assertion of the test")

    async def one_run() -> None:
        with rig(kind, Script(wrong)) as it:
            answer = await asyncio.gather(Agent(it.model).run("hi"), return_exceptions=True)
            assert isinstance(answer[0], ModelHTTPError)
            assert "ZeroDivisionError: an assertion of the test" in str(answer[0])

    with pytest.raises(ZeroDivisionError, match="an assertion"):
        await one_run()


@every_stub
async def test_breaking_out_of_a_stream_leaves_the_stub_working(kind: str) -> None:
    with rig(kind, Script(LONG, "next")) as it:
        agent = Agent(it.model)
        async with agent.run_stream_events("hi") as stream:
            async for event in stream:
                if isinstance(event, PartDeltaEvent):
                    break
        assert (await agent.run("again")).output == "next"


# The HTTP side


BODIES: dict[str, dict[str, Any]] = {
    "openai": {"model": "gpt-x", "messages": [{"role": "user", "content": "hi"}]},
    "anthropic": {"model": "claude-x", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]},
}


@every_stub
def test_bodies_are_recorded_verbatim(kind: str) -> None:
    raw = json.dumps({**BODIES[kind], "x": "\u00fc"}, indent=3).encode()
    with STUBS[kind](Script("hello")) as stub:
        status, _, answer = post(stub, stub.path, raw)
    assert status == 200
    assert stub.bodies == [raw]
    assert stub.requests == [json.loads(raw)]
    assert json.loads(answer)["model"] == BODIES[kind]["model"]
    assert stub.headers[0]["x-api-key"] == "x"


def test_openai_streams_chunks_as_the_reference_describes() -> None:
    turn = Turn("Hello there", (Call("f", {"a": 1}, "c1"), Call("g", {}, "c2")), Usage(10, 5, 4))
    body = {**BODIES["openai"], "stream": True, "stream_options": {"include_usage": True}}
    with OpenAIStub(Script(turn, turn)) as stub:
        status, headers, raw = post(stub, stub.path, body)
        _, _, without = post(stub, stub.path, {**BODIES["openai"], "stream": True})
    assert (status, headers["transfer-encoding"]) == (200, "chunked")
    assert headers["content-type"].startswith("text/event-stream")
    *chunks, usage, done = events_of(raw)
    assert done == "[DONE]"
    assert {chunk["model"] for chunk in chunks} == {"gpt-x"}
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0]["role"] == "assistant"
    assert "".join(delta.get("content") or "" for delta in deltas) == "Hello there"
    calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
    assert [(call["index"], call["id"], call["function"]["name"]) for call in calls if "id" in call] == [
        (0, "c1", "f"),
        (1, "c2", "g"),
    ]
    assert "".join(call["function"]["arguments"] for call in calls if call["index"] == 0) == '{"a": 1}'
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks][-2:] == [None, "tool_calls"]
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] == 15
    assert usage["usage"]["prompt_tokens_details"]["cached_tokens"] == 4
    assert all("usage" not in event for event in events_of(without)[:-1])


def test_anthropic_streams_events_as_the_reference_describes() -> None:
    turn = Turn("Hello there", (Call("f", {"a": 1}, "c1"),), Usage(10, 5, 4, 3))
    with AnthropicStub(Script(turn)) as stub:
        _, headers, raw = post(stub, stub.path, {**BODIES["anthropic"], "stream": True})
    events = events_of(raw)
    names = [line[7:] for line in raw.decode().split("\n") if line.startswith("event: ")]
    assert headers["transfer-encoding"] == "chunked"
    assert names == [event["type"] for event in events]
    assert (names[0], names[-2:]) == ("message_start", ["message_delta", "message_stop"])
    assert [e["index"] for e in events if e["type"] == "content_block_start"] == [0, 1]
    assert [e["index"] for e in events if e["type"] == "content_block_stop"] == [0, 1]
    deltas = [e["delta"] for e in events if e["type"] == "content_block_delta"]
    assert "".join(d["text"] for d in deltas if d["type"] == "text_delta") == "Hello there"
    assert "".join(d["partial_json"] for d in deltas if d["type"] == "input_json_delta") == '{"a": 1}'
    assert events[-2]["delta"]["stop_reason"] == "tool_use"
    assert events[-2]["usage"] == {
        "input_tokens": 3,
        "cache_read_input_tokens": 4,
        "cache_creation_input_tokens": 3,
        "output_tokens": 5,
    }


@every_stub
def test_another_path_is_a_404_in_the_providers_words_and_no_turn(kind: str) -> None:
    with STUBS[kind](Script("unused")) as stub:
        status, _, raw = post(stub, "/v1/responses", BODIES[kind])
    assert status == 404
    assert "Invalid URL (POST /v1/responses)" in json.loads(raw)["error"]["message"]
    assert stub.strays == ["POST /v1/responses"]
    assert (stub.requests, stub.player.left) == ([], 1)


@every_stub
def test_a_request_without_a_key_or_without_json_is_refused(kind: str) -> None:
    with STUBS[kind](Script("unused")) as stub:
        no_key = post(stub, stub.path, BODIES[kind], authorization="", **{"x-api-key": ""})
        no_json = post(stub, stub.path, b"{")
        no_messages = post(stub, stub.path, {**BODIES[kind], "messages": []})
        odd = post(stub, stub.path, {**BODIES[kind], "messages": [{"role": "user"}, 3]})
    assert [answer[0] for answer in (no_key, no_json, no_messages, odd)] == [401, 400, 400, 400]
    assert stub.player.left == 1
    assert len(stub.requests) == len(stub.bodies) == len(stub.headers) == len(stub.statuses) == 4


def openai_call(*ids: str) -> dict[str, Any]:
    calls = [{"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def openai_result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "r"}


USER = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([USER, openai_call("a", "b"), openai_result("b"), openai_result("a"), USER], None),
        ([USER, openai_call("a", "b"), openai_result("a"), USER], "did not have response messages: b"),
        ([USER, openai_call("a")], "did not have response messages: a"),
        ([USER, openai_result("a")], "must be a response to a preceding"),
        ([USER, openai_call("a"), openai_result("a"), USER, openai_result("a")], "must be a response to a preceding"),
    ],
)
def test_openai_refuses_a_history_whose_calls_and_results_do_not_pair(messages: list[Any], problem: str | None) -> None:
    with OpenAIStub(Script("fine")) as stub:
        status, _, raw = post(stub, stub.path, {"model": "m", "messages": messages})
    assert status == (400 if problem else 200)
    assert problem is None or problem in json.loads(raw)["error"]["message"]


def anthropic_call(*ids: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": i, "name": "f", "input": {}} for i in ids]}


def anthropic_result(*ids: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": i, "content": "r"} for i in ids]}


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([USER, anthropic_call("a", "b"), anthropic_result("b", "a"), USER], None),
        ([USER, anthropic_call("a", "b"), anthropic_result("a")], "immediately after: b"),
        ([USER, anthropic_call("a"), USER, anthropic_result("a")], "immediately after: a"),
        ([USER, anthropic_call("a")], "immediately after: a"),
        ([anthropic_result("a")], "unexpected `tool_use_id`"),
        ([{"role": "user", "content": [{"type": "text", "text": " "}]}], "non-whitespace"),
    ],
)
def test_anthropic_refuses_a_history_whose_calls_and_results_do_not_pair(
    messages: list[Any], problem: str | None
) -> None:
    with AnthropicStub(Script("fine")) as stub:
        status, _, raw = post(stub, stub.path, {**BODIES["anthropic"], "messages": messages})
    assert status == (400 if problem else 200)
    assert problem is None or problem in json.loads(raw)["error"]["message"]


@every_stub
def test_the_checks_can_be_switched_off_and_two_tools_of_one_name_are_among_them(kind: str) -> None:
    tool: dict[str, Any] = {"name": "f", "input_schema": {}}
    if kind == "openai":
        tool = {"type": "function", "function": {"name": "f"}}
    body = {**BODIES[kind], "tools": [tool, tool]}
    with STUBS[kind](Script("fine")) as stub:
        assert post(stub, stub.path, body)[0] == 400
    with STUBS[kind](Script("fine"), check=False) as stub:
        assert post(stub, stub.path, body)[0] == 200


def test_anthropic_arguments_that_are_no_object_fail_unless_streamed() -> None:
    stub = AnthropicStub(Script(Call("f", "{"), Call("f", "{"))).__enter__()
    assert post(stub, stub.path, {**BODIES["anthropic"], "stream": True})[0] == 200
    assert post(stub, stub.path, BODIES["anthropic"])[0] == 500
    with pytest.raises(ScriptError, match="arguments are an object"):
        stub.__exit__(None, None, None)


def test_a_connection_that_sends_nothing_does_not_keep_a_stub_from_closing() -> None:
    with OpenAIStub(Script()) as stub:
        connection = http.client.HTTPConnection("127.0.0.1", stub.port)
        connection.connect()
    connection.close()


# The wire check


@every_stub
@streamed_or_not
async def test_a_conversation_continues_itself_on_the_wire_and_a_rewritten_one_does_not(
    kind: str, streamed: bool
) -> None:
    turns = [Call("weather", {"city": "Rome"}), "one", [Call("weather", {"city": c}) for c in "ab"], "two"]
    with rig(kind, Script(*turns)) as it:
        agent = weather_agent(it.model)
        first = await run(agent, "q1", streamed=streamed)
        await run(agent, "q2", streamed=streamed, message_history=first.all_messages())
    assert it.stub is not None
    requests = it.stub.requests
    assert len(requests) == 4
    assert_wire_prefixes(requests)
    changed = copy.deepcopy(requests)
    changed[3]["messages"][2]["role"] = "changed"
    with pytest.raises(AssertionError, match=r"requests 2 and 3: .*messages\[2\]\.role"):
        assert_wire_prefixes(changed)
    with pytest.raises(AssertionError, match="tools"):
        assert_wire_prefix(requests[0], {**requests[1], "tools": []})


async def test_anthropics_cache_markers_move_without_breaking_the_prefix() -> None:
    with AnthropicStub(Script(*[Call("weather", {"city": "Rome"})] * 2, "end")) as stub:
        settings = AnthropicModelSettings(
            anthropic_cache_messages=True, anthropic_cache_instructions=True, anthropic_cache_tool_definitions=True
        )
        agent = weather_agent(anthropic_model(stub, settings=settings))
        await agent.run("q")
    assert stub.bodies[0].count(b"cache_control") >= 2
    assert stub.requests[1]["messages"][0] != stub.requests[0]["messages"][0]  # the marker did move
    assert_wire_prefixes(stub.requests)


def anthropic_body(*contents: Any, system: Any = "s", schema: Any = None) -> dict[str, Any]:
    return {
        "system": system,
        "tools": [{"name": "f", "input_schema": schema or {"type": "object", "properties": {}}}],
        "messages": [{"role": "user", "content": content} for content in contents],
    }


def test_only_markers_are_ignored_not_arguments_of_that_name() -> None:
    marker = {"type": "ephemeral"}
    block = {"type": "text", "text": "a"}
    marked = anthropic_body(
        [{**block, "cache_control": marker}], system=[{"type": "text", "text": "s", "cache_control": 1}]
    )
    assert wire_prefix(marked, anthropic_body([block], "b")) is None
    assert wire_prefix(anthropic_body("a"), marked) is None
    call = {"type": "tool_use", "id": "c", "name": "f", "input": {"cache_control": 1}}
    diff = wire_prefix(anthropic_body([call]), anthropic_body([{**call, "input": {"cache_control": 2}}]))
    assert diff is not None
    assert diff.path == "messages[0].content[0].input.cache_control"


def test_the_difference_is_located() -> None:
    before = anthropic_body("a", "the quick brown fox")
    diff = wire_prefix(before, anthropic_body("a", "the quick green fox"))
    assert diff is not None
    assert (diff.path, diff.offset) == ("messages[1].content[0].text", 10)
    assert "brown" in diff.previous
    assert "green" in diff.current
    shorter = wire_prefix(before, anthropic_body("a"))
    assert shorter is not None
    assert shorter.path == "messages[1]"
    system = wire_prefix(before, anthropic_body("a", "the quick brown fox", system="S"))
    assert system is not None
    assert system.path == "system[0].text"


def test_the_order_of_keys_in_a_schema_counts() -> None:
    before = anthropic_body("a", schema={"type": "object", "properties": {"x": {}, "y": {}}})
    diff = wire_prefix(before, anthropic_body("a", schema={"type": "object", "properties": {"y": {}, "x": {}}}))
    assert diff is not None
    assert diff.path == "tools[0].input_schema.properties"


def test_there_must_be_two_requests_to_compare() -> None:
    with pytest.raises(AssertionError, match="no pair"):
        assert_wire_prefixes([anthropic_body("a")])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
chat_messages = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": json_values})


@pytest.mark.slow
@given(messages=st.lists(chat_messages, min_size=1), cut=st.integers(0, 20), data=st.data())
def test_a_conversation_continues_every_beginning_of_itself_and_any_change_is_found_in_its_place(
    messages: list[Any], cut: int, data: st.DataObject
) -> None:
    later = {"messages": messages}
    assert wire_prefix({"messages": messages[:cut]}, later) is None
    place = data.draw(st.integers(0, len(messages) - 1))
    changed = copy.deepcopy(messages)
    changed[place]["content"] = {"was": changed[place]["content"]}
    diff = wire_prefix({"messages": messages}, {"messages": changed})
    assert diff is not None
    assert diff.path == f"messages[{place}].content"


# Scripts


def test_a_json_script_reads_as_the_python_one() -> None:
    text = """[
        "hello",
        {"text": "t", "calls": [{"name": "f", "args": {"a": 1}, "id": "c"}, {"name": "g"}]},
        {"text": "u", "usage": {"input_tokens": 3, "output_tokens": 2}, "finish": "length"},
        {"failure": {"status": 429, "retry_after": 1}},
        {"malformed": "cut"}
    ]"""
    assert Script.from_json(text).turns == (
        Turn("hello"),
        Turn("t", (Call("f", {"a": 1}, "c"), Call("g"))),
        Turn("u", usage=Usage(3, 2), finish="length"),
        Failure(429, retry_after=1),
        Malformed("cut"),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("{}", "must be a JSON list"),
        ("[1]", "turn 0: expected a string or an object"),
        ('["a", {"txt": "b"}]', "turn 1: unknown key txt"),
        ('[{"calls": [{"args": {}}]}]', r"turn 0\.calls\[0\]: missing name"),
        ('[{"usage": {"input_tokens": 1}}]', r"turn 0\.usage: missing output_tokens"),
        ('[{"finish": "never"}]', r"turn 0\.finish: 'never'"),
        ('[{"failure": {"status": 200}}]', "use 400 to 599"),
        ('[{"malformed": "x"}]', "use one of not-json"),
    ],
)
def test_a_wrong_json_script_names_the_place(text: str, message: str) -> None:
    with pytest.raises(ScriptError, match=message):
        Script.from_json(text)


def test_a_wrong_python_turn_names_the_place() -> None:
    with pytest.raises(ScriptError, match="turn 1: expected Turn"):
        Script("a", 3)  # type: ignore[arg-type]
    with pytest.raises(ScriptError, match="cached tokens are part of input_tokens"):
        Usage(1, 1, cache_read_tokens=2)


# The stub as a process

CLIENT = """
import asyncio, sys, warnings
warnings.simplefilter("error")
from pydantic_ai import Agent
agent = Agent(sys.argv[1])
@agent.tool_plain
def weather(city: str) -> str:
    return f"sunny in {city}"
print(asyncio.run(agent.run("Weather?")).output)
"""


@contextmanager
def process(kind: str, how: str, script: Any, tmp_path: Path) -> Generator[tuple[subprocess.Popen[str], str]]:
    (tmp_path / "script.json").write_text(json.dumps(script), encoding="utf-8")
    target = ["-m", f"tests.stubs.{kind}_stub"]
    if how == "path":
        target = [str(ROOT / "tests" / "stubs" / f"{kind}_stub.py")]
    options = ["--script", str(tmp_path / "script.json"), "--port-file", str(tmp_path / "port")]
    options += ["--record", str(tmp_path / "record.jsonl"), "--max-seconds", "120"]
    # By path it is started from elsewhere, so that nothing is found by accident.
    with subprocess.Popen(
        [sys.executable, *target, *options],
        cwd=ROOT if how == "module" else tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            for _ in range(3000):
                if (tmp_path / "port").exists() or running.poll() is not None:
                    break
                time.sleep(0.01)
            assert running.poll() is None, running.communicate()[1]
            yield running, (tmp_path / "port").read_text().strip()
        finally:
            running.kill()


@pytest.mark.slow
@every_stub
@pytest.mark.parametrize("how", ["module", "path"])
def test_the_stub_serves_a_subprocess_as_a_process_of_its_own(kind: str, how: str, tmp_path: Path) -> None:
    script = [{"calls": [{"name": "weather", "args": {"city": "Rome"}}]}, "It is sunny."]
    with process(kind, how, script, tmp_path) as (running, port):
        env = {**os.environ, "NO_PROXY": "127.0.0.1"}
        if kind == "openai":
            env |= {"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "OPENAI_API_KEY": "x"}
        else:
            env |= {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}", "ANTHROPIC_API_KEY": "x"}
        model = "openai-chat:stub" if kind == "openai" else "anthropic:stub"
        client = another_process.run(CLIENT, model, env=env, cwd=tmp_path)
        running.send_signal(signal.SIGTERM)
        out, err = running.communicate(timeout=30)
    assert (client.stdout.strip(), client.stderr) == ("It is sunny.", "")
    assert (running.returncode, err) == (0, "")
    assert f":{port}" in out
    recorded = [json.loads(line) for line in (tmp_path / "record.jsonl").read_text().splitlines()]
    assert len(recorded) == 2
    assert_wire_prefixes(recorded)


def test_a_process_that_was_asked_for_more_than_its_script_has_ends_with_1(tmp_path: Path) -> None:
    with process("openai", "module", [], tmp_path) as (running, port):
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=10)
        body = json.dumps(BODIES["openai"])
        connection.request("POST", "/v1/chat/completions", body, {"authorization": "Bearer x"})
        response = connection.getresponse()
        answer = response.read().decode()
        connection.close()
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=30)
    assert response.status == 500
    assert "the script has 0 turns" in answer
    assert running.returncode == 1


@pytest.mark.slow
def test_a_wrong_script_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('[{"txt": 1}]')
    done = subprocess.run(
        [sys.executable, "-m", "tests.stubs.openai_stub", "--script", str(tmp_path / "s.json"), "--port-file", "p"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "turn 0: unknown key txt" in done.stderr


def test_a_stub_in_this_process_points_a_subprocess_at_itself_by_env(tmp_path: Path) -> None:
    with OpenAIStub(Script(Call("weather", {"city": "Rome"}), "done")) as stub:
        client = another_process.run(CLIENT, "openai-chat:stub", env={**os.environ, **stub.env}, cwd=tmp_path)
    assert client.stdout.strip() == "done", client.stderr
    assert len(stub.requests) == 2


@pytest.mark.slow
def test_starting_a_stub_does_not_load_pydantic_ai() -> None:
    code = "import sys, tests.stubs.openai_stub, tests.stubs.anthropic_stub, tests.stubs.wire; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"pydantic_ai", "pydantic", "openai", "anthropic"} & set(done.stdout.split())
