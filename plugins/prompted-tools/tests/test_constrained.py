"""Replies that a server holds to a JSON schema of the tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from deep_prompted_tools import PromptedTools
from deep_prompted_tools.constrained import calls_schema
from deep_sessions.requests.served import ServedModel
from pydantic import BaseModel
from pydantic_ai import Agent, AgentRunResultEvent
from pydantic_ai.messages import ThinkingPart
from pydantic_ai.tools import ToolDefinition

from plugins.sessions.tests.dialects import DIALECTS, Answer, Body, chunks, serving, whole

pytestmark = pytest.mark.anyio
either = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
CALL = json.dumps({"name": "ping", "arguments": {"text": "a"}})


class City(BaseModel):
    city: str


async def run(
    answer: Callable[[Body, int], str | Body], streamed: bool, name: str = "m", **options: Any
) -> tuple[list[str], list[Body], Any]:
    """Run an agent with the tool ping; give its calls, the requests, and the result."""
    made: list[str] = []
    bodies: list[Body] = []

    def ping(text: str) -> str:
        made.append(text)
        return "ok"

    def reply(body: Body, number: int) -> Answer:
        bodies.append(body)
        said = answer(body, number)
        if isinstance(said, dict):
            return Answer(said, status=400)
        shape = chunks if body.get("stream") else whole
        return Answer(shape(DIALECTS["llama.cpp"], {"content": said}, "stop", None))

    output = options.pop("output_type", str)
    with serving(reply) as url:
        model = ServedModel(name, url, "none", "llama.cpp")
        agent = Agent(model, tools=[ping], output_type=output, capabilities=[PromptedTools("always", **options)])
        if not streamed:
            return made, bodies, await agent.run("go")
        result: Any = None
        async with agent.run_stream_events("go") as events:
            async for event in events:
                if isinstance(event, AgentRunResultEvent):
                    result = event.result
        return made, bodies, result


def held(bodies: list[Body]) -> list[bool]:
    return ["response_format" in body for body in bodies]


def schema_of(body: Body) -> Body:
    return body["response_format"]["json_schema"]["schema"]


@either
async def test_after_a_reply_that_cannot_be_read_the_next_one_is_held(streamed: bool) -> None:
    replies = ['<tool_call>{"name": "ping", "arguments": {"text": a}}</tool_call>', CALL, "done"]
    made, bodies, result = await run(lambda _, number: replies[number - 1], streamed)
    assert (made, result.output) == (["a"], "done")
    assert held(bodies) == [False, True, False]
    jsonschema.validate(json.loads(CALL), schema_of(bodies[1]))
    jsonschema.validate({"answer": "no call"}, schema_of(bodies[1]))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"name": "rm", "arguments": {}}, schema_of(bodies[1]))


@either
async def test_always_holds_every_reply_and_shows_no_json(streamed: bool) -> None:
    replies = [CALL, json.dumps({"answer": "It said ok."})]
    made, bodies, result = await run(lambda _, number: replies[number - 1], streamed, constrain="always")
    assert (made, result.output) == (["a"], "It said ok.")
    assert held(bodies) == [True, True]


@either
async def test_never_holds_none(streamed: bool) -> None:
    made, bodies, result = await run(lambda _, __: "<tool_call>{broken</tool_call>", streamed, constrain="never")
    assert made == []
    assert held(bodies) == [False] * 3
    assert result.output.strip() == "<tool_call>{broken</tool_call>"


@either
async def test_an_output_is_asked_for_by_its_schema(streamed: bool) -> None:
    _, bodies, result = await run(
        lambda body, _: '{"city": "Oslo"}' if "response_format" in body else "You live in Oslo.",
        streamed,
        output_type=City,
    )
    assert result.output == City(city="Oslo")
    assert held(bodies) == [False, True]
    assert schema_of(bodies[1])["required"] == ["city"]


@either
async def test_a_server_that_refuses_a_schema_is_asked_without_one_from_then_on(streamed: bool) -> None:
    def answer(body: Body, number: int) -> str | Body:
        if "response_format" in body:
            return {"error": {"message": "response_format is not supported"}}
        return f"<tool_call>{CALL}</tool_call>" if number == 2 else "done"

    made, bodies, result = await run(answer, streamed, constrain="always")
    assert (made, result.output) == (["a"], "done")
    assert held(bodies) == [True, False, False]


@either
async def test_a_server_that_ignores_the_schema_is_read_in_the_dialect(streamed: bool) -> None:
    replies = [f"I call. <tool_call>{CALL}</tool_call>", "done"]
    made, _, result = await run(lambda _, number: replies[number - 1], streamed, constrain="always")
    assert (made, result.output) == (["a"], "done")


@either
async def test_a_model_that_reasons_does_so_first(streamed: bool) -> None:
    replies = [json.dumps({"reasoning": "I must.", **json.loads(CALL)}), json.dumps({"reasoning": "", "answer": "ok"})]
    made, bodies, result = await run(lambda _, n: replies[n - 1], streamed, "qwen3:4b", constrain="always")
    assert (made, result.output) == (["a"], "ok")
    first = [*schema_of(bodies[0])["anyOf"][0]["properties"]]
    assert first == ["reasoning", "name", "arguments"]
    thoughts = [part.content for m in result.all_messages() for part in m.parts if isinstance(part, ThinkingPart)]
    assert thoughts == ["I must."]


def test_definitions_of_one_name_stay_apart() -> None:
    def tool(name: str, place: Body) -> ToolDefinition:
        schema = {"$defs": {"Place": place}, "properties": {"place": {"$ref": "#/$defs/Place"}}, "required": ["place"]}
        return ToolDefinition(name=name, parameters_json_schema={"type": "object", **schema})

    city: Body = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}
    number: Body = {"type": "object", "required": ["number"], "properties": {"number": {"type": "integer"}}}
    schema = calls_schema([tool("first", city), tool("second", number)], answers=True, thinks=False)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate({"name": "first", "arguments": {"place": {"city": "Oslo"}}}, schema)
    jsonschema.validate({"name": "second", "arguments": {"place": {"number": 1}}}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"name": "second", "arguments": {"place": {"city": "Oslo"}}}, schema)
