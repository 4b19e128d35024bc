"""Servers that are nearly OpenAI: what they answer is read, streamed and not, and they are sent what they take."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from deep_sessions import AgentDeps, DeepAgent
from deep_sessions.requests.ends import end_of_error
from deep_sessions.requests.nearly import error_of
from deep_sessions.requests.nearly_openai import ChatRepair, as_chunks, repaired
from deep_sessions.requests.served import ServedModel
from deep_sessions.requests.servers import SERVERS, profile_of, server_of
from deep_sessions.requests.windows import find_facts
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic_ai import Agent, Tool
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import ModelRequest, SystemPromptPart, UserPromptPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from deep_core import Kernel, create_default_deps
from plugins.sessions.tests.dialects import (
    DIALECTS,
    QUIRKS,
    REAL,
    RECORDED,
    Answer,
    Body,
    Dialect,
    Quirk,
    call,
    chunks,
    ran,
    serving,
    whole,
)
from tests.drawn import examples, sample

pytestmark = pytest.mark.anyio
either = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
CELLS = [(dialect, quirk) for dialect in DIALECTS for quirk in QUIRKS]
KEPT = [(dialect, quirk) for at, dialect in enumerate(DIALECTS) for quirk in list(QUIRKS)[at % 3 :: 3]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def answering(dialect: Dialect, quirk: Quirk) -> Callable[[Body, int], Answer]:
    """The quirk first, then an answer."""

    def answer(body: Body, number: int) -> Answer:
        said = (quirk.message, quirk.finish, quirk.usage) if number == 1 else ({"content": "done"}, "stop", quirk.usage)
        return Answer(chunks(dialect, *said) if body.get("stream") else whole(dialect, *said))

    return answer


@either
@pytest.mark.parametrize(("dialect", "quirk"), sample(CELLS, *KEPT[::3], slow=KEPT))
async def test_a_dialect_with_a_quirk_is_read(dialect: str, quirk: str, streamed: bool) -> None:
    with serving(answering(DIALECTS[dialect], QUIRKS[quirk])) as url:
        made, result = await ran(ServedModel("m", url, "none", None), streamed)
    assert sorted(made) == sorted(QUIRKS[quirk].ran)
    assert result.output == "done"
    usage = QUIRKS[quirk].usage
    counted = 0 if usage is None else (usage["prompt_tokens"] or 0) + usage["completion_tokens"]
    assert result.usage.input_tokens + result.usage.output_tokens == 2 * counted  # the last one of a stream


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_server_says_what_it_is(dialect: str) -> None:
    with serving(answering(DIALECTS[dialect], QUIRKS["usage is null"]), DIALECTS[dialect].models) as url:
        facts = await find_facts(ServedModel("m", url, "none", None))
    assert facts is not None
    assert facts.server.kind == DIALECTS[dialect].kind
    assert facts.has_tools is DIALECTS[dialect].has_tools


PING = call("ping", '{"text": "a"}')
ODD = {
    "a call without a name": {"tool_calls": [call(None, "{}", "c0", index=0), {**PING, "index": 1}]},
    "a function that is null": {"tool_calls": [{"id": "c0", "function": None, "index": 0}, {**PING, "index": 1}]},
    "a call that is null": {"tool_calls": [None, PING]},
    "a call that is flat": {"tool_calls": [{"id": "c1", **PING["function"]}]},
    "a call that is no list": {"tool_calls": PING},
    "OpenAI's first form": {"function_call": PING["function"]},
    "fields of other types": {"tool_calls": [PING], "refusal": {}, "audio": "x", "annotations": [3]},
}


@either
@pytest.mark.parametrize("said", ODD.values(), ids=ODD)
async def test_an_odd_message_costs_what_is_odd_in_it(said: Body, streamed: bool) -> None:
    def answer(body: Body, number: int) -> Answer:
        message = said if number == 1 else {"content": "done"}
        if not body.get("stream"):
            return Answer({**whole(DIALECTS["vllm"], message, "stop", None), "service_tier": {"a": 1}})
        choice = {"index": 0, "delta": message, "finish_reason": "stop"}
        return Answer([{**DIALECTS["vllm"].chunk, "choices": [choice], "service_tier": {"a": 1}}])

    with serving(answer) as url:
        made, result = await ran(ServedModel("m", url, "none", None), streamed)
    assert (made, result.output) == (["a"], "done")


@pytest.mark.parametrize("choices", [None, [], [None], {"0": {}}, "x"])
async def test_an_answer_without_a_choice_is_said_to_have_none(choices: Any) -> None:
    with serving(lambda _, __: Answer({**DIALECTS["vllm"].whole, "choices": choices})) as url:
        model = ServedModel("m", url, "none", None)
        model.client.max_retries = 0
        with pytest.raises(ModelHTTPError, match="no choices"):
            await ran(model, False)


def test_a_name_that_comes_late_takes_the_arguments_with_it() -> None:
    repair = ChatRepair("m")
    pieces: list[Body] = [
        {"index": 0, "id": "c1", "function": {"arguments": '{"text": '}},
        {"index": 0, "function": {"name": "ping", "arguments": '"a"'}},
        {"index": 0, "function": {"arguments": "}"}},
    ]
    out = [repair.chunk({"choices": [{"delta": {"tool_calls": [piece]}}]}) for piece in pieces]
    found = [each for chunk in out for each in chunk["choices"][0]["delta"]["tool_calls"] or []]
    assert [each["function"]["arguments"] for each in found] == ['{"text": "a"', "}"]


@pytest.mark.parametrize("reason", [None, "", "null", "None"])
def test_a_piece_that_is_not_the_last_ends_nothing(reason: str | None) -> None:
    made = ChatRepair("m").chunk({"choices": [{"delta": {"content": "Hel"}, "finish_reason": reason}]})
    assert made["choices"][0]["finish_reason"] is None


async def test_a_line_of_a_stream_that_is_no_object_is_skipped() -> None:
    said: Any = chunks(DIALECTS["vllm"], {"content": "done"}, "stop", None)
    with serving(lambda _, __: Answer([[], "x", *said, 3])) as url:
        _, result = await ran(ServedModel("m", url, "none", None), True)
    assert result.output == "done"


@either
async def test_a_recorded_exchange_with_a_real_server_is_read(streamed: bool) -> None:
    with serving(lambda body, _: Answer(REAL["chunks"] if body.get("stream") else REAL["whole"])) as url:
        _, result = await ran(ServedModel("m", url, "none", None), streamed)
    assert result.output == REAL["whole"]["choices"][0]["message"]["content"]
    usage = REAL["whole"]["usage"]
    assert (result.usage.input_tokens, result.usage.output_tokens) == (
        usage["prompt_tokens"],
        usage["completion_tokens"],
    )


def answer_of(exchange: Body, streamed: bool) -> Answer:
    """A recorded answer."""
    if streamed:
        return Answer(exchange["chunks"], exchange["stream_status"], exchange.get("done", True))
    return Answer(exchange["whole"], exchange["status"])


@either
@pytest.mark.parametrize("program", RECORDED)
@pytest.mark.parametrize(("said", "made"), [("plain", []), ("call", ["a"]), ("calls", ["a", "b"])])
async def test_a_recorded_answer_is_read(program: str, said: str, made: list[str], streamed: bool) -> None:
    exchanges: Body = RECORDED[program]["exchanges"]
    first = answer_of(exchanges[said], streamed)

    def answer(body: Body, _: int) -> Answer:
        is_called = body["messages"][-1]["role"] == "tool"
        return answer_of(exchanges["plain" if is_called else said], bool(body.get("stream")))

    with serving(answer) as url:
        model = ServedModel("m", url, "none", None)
        model.client.max_retries = 0
        if first.status != 200:  # the program streams no calls
            with pytest.raises(ModelHTTPError, match="only supported for non-streaming requests"):
                await ran(model, streamed)
            return
        ran_with, result = await ran(model, streamed)
    assert sorted(ran_with) == made
    assert result.output == exchanges["plain"]["whole"]["choices"][0]["message"]["content"]


@pytest.mark.parametrize("finish", ["stop", "tool_calls"])
@pytest.mark.parametrize("text", ["", "Let me see."])
async def test_calls_that_a_server_drops_from_its_stream_are_asked_for_whole(
    text: str, finish: str, caplog: pytest.LogCaptureFixture
) -> None:
    streams: list[bool] = []

    def answer(body: Body, _: int) -> Answer:
        streams.append(bool(body.get("stream")))
        if body["messages"][-1]["role"] == "tool":
            message, reason = {"content": "done"}, "stop"
        else:
            message, reason = {"content": text, "tool_calls": [PING]}, "tool_calls"
        if not body.get("stream"):
            return Answer(whole(DIALECTS["vllm"], message, reason, None))
        heard = {"content": message["content"]}
        return Answer(chunks(DIALECTS["vllm"], heard, finish if reason == "tool_calls" else "stop", None))

    with serving(answer) as url:
        made, result = await ran(ServedModel("m", url, "none", None), True)
    if text and finish == "stop":  # nothing tells it from an answer without a call
        assert (made, result.output, streams) == ([], text, [True])
        return
    assert (made, result.output) == (["a"], "done")
    assert [part.content for part in result.all_messages()[1].parts if part.part_kind == "text" and part.content] == (
        [text] * bool(text)
    )
    assert streams == [True, False, False]  # once noticed, requests with tools are not streamed
    assert caplog.text.count("drops calls") == 1


async def test_a_call_that_is_lost_and_not_made_again_is_no_answer() -> None:
    def answer(body: Body, _: int) -> Answer:
        said: Body = {"content": "hm"}
        if body.get("stream"):
            return Answer(chunks(DIALECTS["vllm"], said, "tool_calls", None))
        return Answer(whole(DIALECTS["vllm"], said, "stop", None))

    with serving(answer) as url, pytest.raises(ModelAPIError, match="dropped a call"):
        await ran(ServedModel("m", url, "none", None), True)


async def test_an_empty_stream_is_the_answer_that_is_not_streamed() -> None:
    def answer(body: Body, _: int) -> Answer:
        if body.get("stream"):
            return Answer(chunks(DIALECTS["vllm"], {}, "stop", None))
        return Answer(whole(DIALECTS["vllm"], {"content": "done"}, "stop", None))

    with serving(answer) as url:
        _, result = await ran(ServedModel("m", url, "none", None), True)
    assert result.output == "done"


@either
@pytest.mark.parametrize("program", [name for name, found in RECORDED.items() if "error" in found["exchanges"]])
async def test_a_recorded_error_is_shown(program: str, streamed: bool) -> None:
    answer = answer_of(RECORDED[program]["exchanges"]["error"], streamed)
    with serving(lambda _, __: answer) as url:
        model = ServedModel("m", url, "none", None)
        model.client.max_retries = 0
        with pytest.raises((ModelAPIError, UnexpectedModelBehavior)) as caught:
            await ran(model, streamed)
    assert "validation error" not in str(caught.value)
    end = end_of_error(caught.value, in_request=True)
    assert end is not None
    if "9124" in json.dumps(answer.body):
        assert (end.kind, end.window, end.tokens) == ("overflow", 8192, 9124)
    if program == "vllm":
        assert (end.kind, end.window, end.tokens) == ("overflow", 2048, None)
    if not answer.body:  # the program broke the connection off
        assert end.kind == "transient"


@either
@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"error": {"message": "out of memory", "code": 500}}, 500, "out of memory"),
        ({"error": "model 'm' not found"}, 400, "model 'm' not found"),
        ({"object": "error", "message": "bad grammar", "code": 422}, 422, "bad grammar"),
        ({"detail": "no such model"}, 400, "no such model"),
        ({"error": {"message": "Loading model", "code": 503}}, 503, "Loading model"),
        ({"choices": [{"index": 0, "finish_reason": "error", "message": {"content": "hm"}}]}, 500, "with an error"),
        ({"choices": [{"index": 0, "error": {"code": 502, "message": "upstream is gone"}}]}, 502, "upstream is gone"),
    ],
)
async def test_an_error_with_status_200_is_an_error_and_is_shown(
    body: Body, status: int, words: str, streamed: bool
) -> None:
    with serving(lambda _, __: Answer(body)) as url:
        model = ServedModel("m", url, "none", None)
        model.client.max_retries = 0
        with pytest.raises(ModelHTTPError, match=words) as caught:
            await ran(model, streamed)
            # type: ignore[typeddict-unknown-key]
    assert caught.value.status_code == status


async def test_an_applications_own_model_is_repaired_in_its_agent() -> None:
    made: list[str] = []

    def ping(text: str) -> str:
        made.append(text)
        return "ok"

    with serving(answering(DIALECTS["vllm"], QUIRKS["arguments are an object"])) as url:
        model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=url, api_key="none"))
        agent = await DeepAgent.create(deps=AgentDeps(model=model), tools=[ping])
        result = await agent.run("go")
    assert (made, result.message) == (["a"], "done")


@either
async def test_an_empty_list_of_choices_is_no_validation_error(streamed: bool) -> None:
    empty: Body = {**DIALECTS["vllm"].whole, "choices": []}
    answer = serving(lambda body, _: Answer([empty] if body.get("stream") else empty))
    with answer as url:
        model = ServedModel("m", url, "none", None)
        model.client.max_retries = 0
        with pytest.raises((UnexpectedModelBehavior, ModelHTTPError)) as caught:
            await ran(model, streamed)
    assert "validation error" not in str(caught.value)


async def test_a_whole_reply_where_a_stream_was_asked_for_is_read() -> None:
    dialect, quirk = DIALECTS["koboldcpp"], QUIRKS["arguments are an object"]
    plain = answering(dialect, quirk)
    with serving(lambda body, number: plain({**body, "stream": False}, number)) as url:
        made, result = await ran(ServedModel("m", url, "none", None), True)
    assert (made, result.output) == (["a"], "done")


def test_a_call_in_pieces_stays_one_call() -> None:
    repair = ChatRepair("m")
    pieces = [
        {"index": 0, "id": "c1", "function": {"name": "ping", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"text": '}},
        {"index": 0, "id": "c1", "function": {"name": "ping", "arguments": '"a"'}},  # says the name again
        {"index": 0, "id": None, "function": {"name": None, "arguments": "}"}},
        {"index": 0, "id": "c2", "function": {"name": "pong", "arguments": "{}"}},
        {"id": "c3", "function": {"name": "pong", "arguments": "{}"}},
    ]
    out = [repair.chunk({"choices": [{"delta": {"tool_calls": [piece]}}]}) for piece in pieces]
    found = [chunk["choices"][0]["delta"]["tool_calls"][0] for chunk in out]
    assert [(each["index"], each["id"]) for each in found] == [(0, "c1")] * 4 + [(1, "c2"), (2, "c3")]
    assert "".join(each["function"]["arguments"] for each in found[:4]) == '{"text": "a"}'
    assert [each["function"]["name"] for each in found] == ["ping", None, None, None, "pong", "pong"]


@pytest.mark.parametrize("name", [{}, {"name": ""}, {"name": None}])
def test_a_call_whose_pieces_have_ids_of_their_own_is_one(name: Body) -> None:
    repair = ChatRepair("m")
    pieces: list[Body] = [
        {"index": 0, "id": "c1", "function": {"name": "ping", "arguments": '{"text": '}},
        {"index": 0, "id": "c2", "function": {**name, "arguments": '"a"}'}},
    ]
    assert written(repair, pieces) == [(0, '{"text": "a"}')]


def test_a_call_that_is_sent_whole_again_is_made_once() -> None:
    whole: Body = {"index": 0, "id": "c1", "function": {"name": "ping", "arguments": '{"text": "a"}'}}
    first: Body = {"index": 0, "id": "c1", "function": {"name": "ping", "arguments": '{"text": '}}
    rest: Body = {"index": 0, "function": {"arguments": '"a"}'}}
    assert written(ChatRepair("m"), [first, rest, whole]) == [(0, '{"text": "a"}')]


def written(repair: ChatRepair, pieces: list[Body]) -> list[tuple[int, str]]:
    """The arguments at each index."""
    out: dict[int, str] = {}
    for piece in pieces:
        chunk = repair.chunk({"choices": [{"delta": {"tool_calls": [piece]}}]})
        for each in chunk["choices"][0]["delta"]["tool_calls"] or []:
            out[each["index"]] = out.get(each["index"], "") + each["function"]["arguments"]
    return [*out.items()]


# -- what a server is sent -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("server", [each for each in SERVERS if each.family], ids=lambda each: each.kind)
@pytest.mark.parametrize("name", ["qwen3.5:27b", "llama-3.2-1b", "m", "deepseek-r1", "mistral-small"])
async def test_no_second_system_message_and_nothing_of_openais_own_is_sent(server: Any, name: str) -> None:
    bodies: list[Body] = []

    def answer(body: Body, _: int) -> Answer:
        bodies.append(body)
        return Answer(whole(DIALECTS["vllm"], {"content": "done"}, "stop", None))

    with serving(answer) as url:
        model = ServedModel(name, url, "none", server.kind)
        agent = Agent(model, system_prompt="Be kind.", instructions="Be brief.", model_settings={"max_tokens": 9})

        @agent.tool_plain(strict=True)
        def ping(text: str) -> str:
            return text

        history = [ModelRequest([UserPromptPart("hi"), SystemPromptPart("A note."), UserPromptPart("more")])]
        await agent.run("go", message_history=history)
    [body] = bodies
    roles = [message["role"] for message in body["messages"]]
    assert "system" not in roles[1:]
    assert "A note." in json.dumps(body["messages"])
    assert "strict" not in json.dumps(body["tools"])
    limits = [key for key in ("max_tokens", "max_completion_tokens") if key in body]
    assert limits == ["max_completion_tokens" if server.kind == "vllm" else "max_tokens"]


def test_openais_own_address_keeps_its_profile() -> None:
    own: Any = {"supports_inline_system_prompts": True}
    assert profile_of(server_of("openai", "https://api.openai.com/v1"), "gpt-5.2", own) == own
    assert profile_of(server_of("azure", "https://x.openai.azure.com/v1"), "gpt-5.2", own) == own
    assert server_of("openai", "http://localhost:8000/v1").kind == "unknown"
    assert server_of("lm_studio", "http://localhost:1234/v1").kind == "lmstudio"


@pytest.mark.parametrize(("name", "asked"), [("qwen3:8b", "low"), ("llama-3.2-1b", None)])
async def test_thinking_is_asked_only_of_models_that_think(name: str, asked: str | None) -> None:
    bodies: list[Body] = []

    def answer(body: Body, _: int) -> Answer:
        bodies.append(body)
        return Answer(whole(DIALECTS["ollama"], {"content": "done"}, "stop", None))

    with serving(answer) as url:
        await Agent(ServedModel(name, url, "none", "ollama"), model_settings={"thinking": "low"}).run("go")
    assert bodies[0].get("reasoning_effort") == asked


async def test_a_server_that_drops_tools_is_noticed_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    bodies: list[Body] = []
    no_tools = {"/props": {"chat_template_caps": {"supports_tools": False}}, "/v1/models": {"data": [{"id": "m"}]}}

    def answer(body: Body, _: int) -> Answer:
        bodies.append(body)
        return Answer(whole(DIALECTS["llama.cpp"], {"content": "Hello."}, "stop", None))

    with serving(answer, no_tools) as url:
        model = {"provider": "llama.cpp", "model": "m", "base_url": url}
        with Kernel(config={"agent": {"model": model}}) as kernel, caplog.at_level(logging.WARNING):
            agent = kernel.create_agent(backend="memory")
            for _ in range(2):
                await agent.run("hi", deps=create_default_deps(kernel=kernel))
    assert [("tools" in body, "<tool_call>" in json.dumps(body["messages"])) for body in bodies] == [(False, True)] * 2
    assert len([record for record in caplog.records if "does not give tools" in record.getMessage()]) == 1


@either
async def test_tools_that_the_count_cannot_hold_are_noticed(streamed: bool, caplog: pytest.LogCaptureFixture) -> None:
    counts = iter([37, 2_000])
    seen: list[Any] = []
    for _ in range(2):
        usage = {"prompt_tokens": next(counts), "completion_tokens": 3, "total_tokens": 40}
        answer = answering(DIALECTS["llama.cpp"], Quirk({"content": "Hello."}, "stop", usage))
        with serving(answer) as url:
            model = ServedModel("m", url, "none", "llama.cpp")
            agent = Agent(model, tools=[described(each) for each in range(8)])
            async with agent.run_stream_events("go") if streamed else nullcontext() as events:
                if events is None:
                    await agent.run("go")
                else:
                    _ = [event async for event in events]
        seen.append(model.facts.has_tools)
    assert seen == [False, True]
    assert model.profile.get("supports_tools") is True
    assert len([each for each in caplog.records if "drops the tools" in each.getMessage()]) == 1


def described(number: int) -> Tool:
    return Tool(lambda text: text, name=f"tool_{number}", description="What it does, in many words. " * 9)


async def test_a_server_that_loads_its_model_is_waited_for() -> None:
    asked: list[str] = []
    models = DIALECTS["llama.cpp"].models

    def get(path: str) -> Answer:
        asked.append(path)
        if len(asked) == 1:
            return Answer({"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}, 503)
        return Answer(models.get(path, {}), 200 if path in models else 404)

    with serving(lambda _, __: Answer({}), get) as url:
        facts = await find_facts(ServedModel("m", url, "none", None))
    assert facts is not None
    assert (facts.server.kind, facts.window) == ("llama.cpp", 8192)


# -- any reply -------------------------------------------------------------------------------------------------------

WORDS = "id object created model choices message delta role content tool_calls function name arguments index type usage"
words = st.sampled_from([*WORDS.split(), "finish_reason", "prompt_tokens", "completion_tokens", "error", "logprobs"])
junk = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=5),
    max_leaves=20,
)
functions = st.fixed_dictionaries({}, optional={"name": junk, "arguments": junk})
tool_calls = st.lists(st.fixed_dictionaries({}, optional={"id": junk, "index": junk, "function": functions | junk}))
messages = st.fixed_dictionaries({}, optional={"content": junk, "tool_calls": tool_calls | junk, "role": junk})
choices = st.lists(
    st.fixed_dictionaries(
        {}, optional={"message": messages | junk, "delta": messages | junk, "finish_reason": junk, "index": junk}
    ),
    max_size=2,
)
bodies = st.fixed_dictionaries(
    {"choices": choices | junk}, optional={"id": junk, "created": junk, "model": junk, "usage": junk}
)


@settings(max_examples=examples(500))
@given(bodies)
def test_a_repaired_reply_is_what_openai_promises(body: Body) -> None:
    made = ChatCompletion.model_validate(repaired(body, "m"))
    ids = [each.id for choice in made.choices for each in choice.message.tool_calls or []]
    assert all(ids)
    for chunk in as_chunks(body, "m"):
        ChatCompletionChunk.model_validate(chunk)


@settings(max_examples=examples(500))
@given(st.lists(bodies, max_size=4))
def test_a_repaired_stream_is_what_openai_promises(pieces: list[Body]) -> None:
    repair = ChatRepair("m")
    made = [ChatCompletionChunk.model_validate(repair.chunk(piece)) for piece in pieces]
    for last in repair.last():
        ChatCompletionChunk.model_validate(last)
    calls = [each for chunk in made for choice in chunk.choices[:1] for each in choice.delta.tool_calls or []]
    ids = {each.index: each.id for each in calls}
    assert len(set(ids.values())) == len(ids)


@settings(max_examples=examples(300))
@given(junk)
def test_any_body_is_an_error_or_none(body: object) -> None:
    found = error_of(body)
    if found is not None:
        assert 400 <= found[0] < 600
        assert isinstance(found[1]["message"], str)
