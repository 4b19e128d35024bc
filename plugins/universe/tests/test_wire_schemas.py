"""Rendered tools: golden files, the official SDKs' types, JSON Schema, and servers that check as the provider does."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from anthropic.types import Message, MessageParam, ToolParam, ToolResultBlockParam, ToolUseBlockParam
from deep_universe import NATIVE, ToolCall, ToolDriver, ToolResult, ToolSchemaError
from jsonschema import Draft202012Validator
from openai.types.chat import (
    ChatCompletion,
    ChatCompletionAssistantMessageParam,
    ChatCompletionFunctionToolParam,
    ChatCompletionToolMessageParam,
)
from pydantic import TypeAdapter
from pydantic_ai.tools import ToolDefinition

from plugins.universe.tests.wire_tools import BY_NAME, STRICT, TOOLS, WIRE, definition, get_balance, move, weather
from tests.stubs import AnthropicStub, Call, OpenAIStub, Script

GOLDEN = Path(__file__).parent / "golden"

CALLS = [ToolCall("call_1", "get_balance", {"account": "1201"}), ToolCall("call_2", "list_files", {})]
RESULTS = [
    ToolResult("call_1", {"balance": 12.5}, meta={"tool": "get_balance"}),
    ToolResult("call_2", error="no such folder", meta={"tool": "list_files"}),
]
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "get_balance": {"account": "1201", "currency": "NOK"},
    "list_files": {},
    "weather": {"place": {"city": "Oslo", "country": "NO"}, "unit": "kelvin", "days": 3},
    "plant": {"name": "root", "children": [{"name": "leaf", "children": [], "parent": None}], "parent": None},
    "graft": {
        "tree": {"name": "a", "children": [], "parent": None},
        "branch": {"name": "b", "children": [], "parent": None},
        "note": "n",
    },
    "adopt": {"pet": {"kind": "dog", "tricks": ["sit"]}, "tags": {"a": 1}},
    "move": {"points": [[1.5, 2.5]], "extra": {"x": 1}},
}
"""Arguments that fit, of each tool, all of them given, so that they fit a strict schema too."""
WRONG: Mapping[str, Mapping[str, Any]] = {
    "get_balance": {"account": 5},
    "weather": {"place": {"city": "Oslo"}, "unit": "fahrenheit"},
    "plant": {"name": "root", "children": [{"name": 5}]},
    "graft": {"tree": {"name": "a"}, "branch": {"children": []}},
    "adopt": {"pet": {"kind": "fish"}},
    "move": {"points": [["x", "y"]]},
}

each = pytest.mark.parametrize("driver", WIRE, ids=lambda driver: driver.name)


def fits(kind: Any, data: Any) -> None:
    """Check data against an SDK's type, which must know every key of it."""
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    assert json.loads(adapter.dump_json(adapter.validate_python(data))) == data


def schema_of(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of the arguments in a rendered tool."""
    inner = tool.get("function", tool)
    return next(
        inner[key] for key in ("parameters", "input_schema", "parametersJsonSchema", "inputSchema") if key in inner
    )


def schemas(driver: ToolDriver, tools: Sequence[ToolDefinition]) -> list[Mapping[str, Any]]:
    rendered = driver.render(tools)
    if rendered and "functionDeclarations" in rendered[0]:
        rendered = rendered[0]["functionDeclarations"]
    return [schema_of(tool) for tool in rendered]


# -- golden files ----------------------------------------------------------------------------------------------------


@each
def test_D2_render_equals_the_golden_file(driver: ToolDriver) -> None:
    golden = json.loads((GOLDEN / f"{driver.name}.json").read_text(encoding="utf-8"))
    tools = [definition(get_balance), definition(weather)]
    assert driver.render(tools) == golden["tools"]
    assert driver.encode_calls(CALLS) == golden["calls"]
    assert driver.encode_results(RESULTS) == golden["results"]


# -- JSON Schema -----------------------------------------------------------------------------------------------------


@each
@pytest.mark.parametrize("tools", [TOOLS, STRICT], ids=["plain", "strict"])
def test_P1_every_schema_is_an_object_that_takes_what_fits(driver: ToolDriver, tools: Sequence[ToolDefinition]) -> None:
    for tool, schema in zip(tools, schemas(driver, tools), strict=True):
        assert schema["type"] == "object"
        Draft202012Validator.check_schema(schema)
        Draft202012Validator(schema).validate(ARGUMENTS[tool.name])


@each
def test_P1_every_schema_refuses_what_does_not_fit(driver: ToolDriver) -> None:
    for tool, schema in zip(TOOLS, schemas(driver, TOOLS), strict=True):
        if tool.name in WRONG:
            assert not Draft202012Validator(schema).is_valid(WRONG[tool.name]), tool.name


@each
def test_P1_descriptions_and_constraints_survive(driver: ToolDriver) -> None:
    text = json.dumps(driver.render(TOOLS))
    for part in ("The account's number.", "The city's name.", "Return the weather of a place.", "celsius", "NOK"):
        assert part in text


def test_P1_a_strict_tuple_is_an_error_that_names_the_tool() -> None:
    with pytest.raises(ToolSchemaError, match=r"tool 'move': .*strict"):
        BY_NAME["openai"].render([definition(move, strict=True)])


def test_P1_a_schema_from_elsewhere_gets_a_root() -> None:
    tool = ToolDefinition(name="x", parameters_json_schema={})
    for driver in WIRE:
        assert schemas(driver, [tool])[0]["type"] == "object"


# -- the SDKs' types -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tools", [TOOLS, STRICT], ids=["plain", "strict"])
def test_P1_openai_types_accept_the_tools_and_messages(tools: Sequence[ToolDefinition]) -> None:
    driver = BY_NAME["openai"]
    fits(list[ChatCompletionFunctionToolParam], driver.render(tools))
    fits(ChatCompletionAssistantMessageParam, driver.encode_calls(CALLS))
    fits(list[ChatCompletionToolMessageParam], driver.encode_results(RESULTS))


@pytest.mark.parametrize("tools", [TOOLS, STRICT], ids=["plain", "strict"])
def test_P1_anthropic_types_accept_the_tools_and_messages(tools: Sequence[ToolDefinition]) -> None:
    driver = BY_NAME["anthropic"]
    fits(list[ToolParam], driver.render(tools))
    # Whole messages hold iterables, which pydantic does not dump.
    said, answer = driver.encode_calls(CALLS), driver.encode_results(RESULTS)
    TypeAdapter(list[MessageParam]).validate_python([said, answer])
    fits(list[ToolUseBlockParam], said["content"])
    fits(list[ToolResultBlockParam], answer["content"])


# -- the SDKs' clients, against servers ------------------------------------------------------------------------------

TURNS = [Call("get_balance", {"account": "1201"}, id="call_1"), Call("list_files", {}, id="call_2")]


@pytest.mark.parametrize("tools", [TOOLS, STRICT], ids=["plain", "strict"])
def test_D9_openai_client_sends_the_tools_and_its_object_is_parsed(tools: Sequence[ToolDefinition]) -> None:
    driver = BY_NAME["openai"]
    with OpenAIStub(Script(TURNS, "Done.")) as stub:
        client = openai.OpenAI(base_url=stub.base_url, api_key="x", max_retries=0)
        messages: list[Any] = [{"role": "user", "content": "go"}]

        def ask() -> ChatCompletion:
            return client.chat.completions.create(model="stub", messages=messages, tools=driver.render(tools))

        with client:
            reply = ask()
            message = reply.choices[0].message
            assert driver.parse(reply) == driver.parse(message) == driver.parse(message.tool_calls) == CALLS
            messages += [driver.encode_calls(CALLS), *driver.encode_results(RESULTS)]
            assert driver.parse(ask()) == []
    assert stub.statuses == [200, 200]


@pytest.mark.parametrize("tools", [TOOLS, STRICT], ids=["plain", "strict"])
def test_D9_anthropic_client_sends_the_tools_and_its_object_is_parsed(tools: Sequence[ToolDefinition]) -> None:
    driver = BY_NAME["anthropic"]
    with AnthropicStub(Script(TURNS, "Done.")) as stub:
        client = anthropic.Anthropic(base_url=stub.base_url, api_key="x", max_retries=0)
        messages: list[Any] = [{"role": "user", "content": "go"}]

        def ask() -> Message:
            return client.messages.create(model="stub", max_tokens=99, messages=messages, tools=driver.render(tools))

        with client:
            reply = ask()
            assert driver.parse(reply) == driver.parse(reply.content) == CALLS
            # A history often holds the SDK's own blocks.
            assert driver.parse({"role": "assistant", "content": reply.content}) == CALLS
            messages += [driver.encode_calls(CALLS), driver.encode_results(RESULTS)]
            assert driver.parse(ask()) == []
    assert stub.statuses == [200, 200]


SDK_OBJECTS: Mapping[str, tuple[str, Callable[..., object]]] = {
    "openai": ("choices", ChatCompletion.construct),
    "anthropic": ("stop_reason", Message.construct),
}
"""Driver -> a field that only whole responses have, and how the SDK builds its object of one."""


@pytest.mark.parametrize("name", SDK_OBJECTS)
def test_D9_the_sdks_objects_of_recorded_responses_are_parsed(name: str) -> None:
    rows = json.loads((Path(__file__).parent / "recorded" / f"{name}.json").read_text(encoding="utf-8"))
    driver, (field, build) = BY_NAME[name], SDK_OBJECTS[name]
    whole = [row["response"] for row in rows if field in row["response"]]
    assert len(whole) >= 8
    for response in whole:
        assert driver.can_handle_response(build(**response)) == driver.can_handle_response(response) == NATIVE
        assert driver.parse(build(**response)) == driver.parse(response)
