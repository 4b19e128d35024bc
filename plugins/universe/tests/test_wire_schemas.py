"""Rendered tools: golden files, the official SDKs' types, JSON Schema, and servers that check as the provider does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anthropic
import anyio
import httpx
import mcp
import openai
import pytest
from anthropic.types import Message, MessageParam, ToolParam, ToolResultBlockParam, ToolUseBlockParam
from deep_universe import NATIVE, ToolCall, ToolDriver, ToolResult, ToolSchemaError, Universe
from google import genai
from google.genai import types as google
from jsonschema import Draft202012Validator
from mcp import types as mcp_types
from mcp.server.lowlevel import Server
from openai.types.chat import (
    ChatCompletion,
    ChatCompletionAssistantMessageParam,
    ChatCompletionFunctionToolParam,
    ChatCompletionToolMessageParam,
)
from openai.types.responses import FunctionToolParam, Response, ResponseFunctionToolCallParam
from openai.types.responses.response_input_item_param import FunctionCallOutput
from pydantic import BaseModel, TypeAdapter
from pydantic_ai import Agent
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.profiles.google import GoogleJsonSchemaTransformer
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.tools import Tool, ToolDefinition

from plugins.universe.tests.wire_tools import (
    BY_NAME,
    FUNCTIONS,
    STRICT,
    TOOLS,
    WIRE,
    adopt,
    definition,
    get_balance,
    graft,
    move,
    plant,
    weather,
)
from tests.environments import REPOSITORY
from tests.stubs import AnthropicStub, Call, OpenAIStub, Script, anthropic_model, openai_model
from tests.stubs.tool_schemas import openai_problem

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
        "title": "n",
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
    inner = tool.get("function") or tool.get("toolSpec") or tool
    if "json" in (found := inner.get("inputSchema", {})):
        return found["json"]
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


@each
def test_P1_parameters_called_like_keywords_survive(driver: ToolDriver) -> None:
    [schema] = schemas(driver, [definition(graft)])
    assert set(schema["properties"]) == {"tree", "branch", "title"}
    keywords = ["title", "properties", "type", "default", "const", "$schema", "examples", "format", "items", "required"]
    parameters = {"type": "object", "properties": {word: {"type": "string"} for word in keywords}}
    [schema] = schemas(driver, [ToolDefinition(name="x", parameters_json_schema=parameters)])
    assert schema["properties"] == parameters["properties"]


WITHOUT_SDKS = """
import sys
sys.modules.update(dict.fromkeys(["openai", "anthropic", "google.genai", "mcp"]))
from plugins.universe.tests.wire_tools import STRICT, TOOLS, WIRE
import json
print(json.dumps({driver.name: [driver.render(TOOLS), driver.render(STRICT)] for driver in WIRE}))
"""


@pytest.mark.slow
def test_P9_a_render_needs_no_sdk_and_is_the_same_without_it() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_SDKS], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    for name, (plain, strict) in json.loads(ran.stdout).items():
        assert plain == BY_NAME[name].render(TOOLS)
        # The rules of Anthropic's strict mode are in its package.
        assert (strict == BY_NAME[name].render(STRICT)) is (name != "anthropic")
        assert ("strict" in strict[0]) is (name == "openai-responses")


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


@pytest.mark.parametrize("tools", [TOOLS, STRICT], ids=["plain", "strict"])
def test_P1_openai_types_accept_the_tools_and_items_of_responses(tools: Sequence[ToolDefinition]) -> None:
    driver = BY_NAME["openai-responses"]
    fits(list[FunctionToolParam], driver.render(tools))
    fits(list[ResponseFunctionToolCallParam], driver.encode_calls(CALLS))
    fits(list[FunctionCallOutput], driver.encode_results(RESULTS))


@pytest.mark.parametrize("tools", [TOOLS, STRICT], ids=["plain", "strict"])
def test_D10_googles_types_accept_the_declarations_and_contents(tools: Sequence[ToolDefinition]) -> None:
    driver = BY_NAME["gemini"]
    same(google.Tool, driver.render(tools)[0])
    same(google.Content, driver.encode_calls(CALLS))
    same(google.Content, driver.encode_results(RESULTS))


@pytest.mark.parametrize("tools", [TOOLS, STRICT], ids=["plain", "strict"])
def test_P1_mcps_types_accept_the_tools_and_messages(tools: Sequence[ToolDefinition]) -> None:
    driver = BY_NAME["mcp"]
    for tool in driver.render(tools):
        same(mcp_types.Tool, tool)
    for request in driver.encode_calls(CALLS):
        same(mcp_types.JSONRPCRequest, request)
        same(mcp_types.CallToolRequest, {key: request[key] for key in ("method", "params")})
    for response in driver.encode_results(RESULTS):
        same(mcp_types.JSONRPCResponse, response)
        same(mcp_types.CallToolResult, response["result"])


def same(kind: type[BaseModel], data: Any) -> None:
    """Check data against an SDK's model, which must know every key of it."""
    assert kind.model_validate(data).model_dump(mode="json", by_alias=True, exclude_unset=True) == data


# -- what each format says in its own way ----------------------------------------------------------------------------


def test_D10_gemini_gets_declarations_after_googles_transformer() -> None:
    tool = definition(adopt)
    [rendered] = BY_NAME["gemini"].render([tool])
    [declaration] = rendered["functionDeclarations"]
    expected = GoogleJsonSchemaTransformer(tool.parameters_json_schema).walk()
    assert declaration["parametersJsonSchema"] == expected != tool.parameters_json_schema
    assert "const" not in json.dumps(expected)


def test_D10_gemini_gets_the_schema_of_results_that_an_author_includes() -> None:
    tool = definition(get_balance, include_return_schema=True)
    assert BY_NAME["gemini"].render([tool])[0]["functionDeclarations"][0]["responseJsonSchema"] == {"type": "number"}


def test_X12_gemini_gets_no_id_that_it_did_not_give() -> None:
    universe = Universe()
    universe.register(get_balance)
    response = {"role": "model", "parts": [{"functionCall": {"name": "get_balance", "args": {"account": "1"}}}]}
    [result] = anyio.run(universe.dispatch, response)
    assert result.id
    [part] = BY_NAME["gemini"].encode_results([result])["parts"]
    assert part == {"functionResponse": {"name": "get_balance", "response": {"output": 4}}}


def test_D10_gemini_gets_a_result_with_a_reference_as_text() -> None:
    schema = {"type": "array", "items": {"$ref": "#/$defs/Node"}}
    results = [ToolResult("", schema, meta={"tool": "t"}), ToolResult("", {"x": 1}, meta={"tool": "t"})]
    first, second = (
        part["functionResponse"]["response"] for part in BY_NAME["gemini"].encode_results(results)["parts"]
    )
    assert json.loads(first["output"]) == schema
    assert second == {"output": {"x": 1}}


def test_D2_a_tool_of_responses_says_that_it_is_not_strict() -> None:
    plain, strict = BY_NAME["openai-responses"].render([definition(weather), definition(weather, strict=True)])
    assert (plain["strict"], strict["strict"]) == (False, True)
    assert strict["parameters"]["required"] == ["place", "unit", "days"]


def test_D2_an_mcp_tool_has_the_hints_of_its_tags() -> None:
    tags = {"read": ["read"], "wipe": ["destructive", "network"], "plain": [], "finance": ["finance"]}
    tools = [ToolDefinition(name=name, metadata={"tags": given}) for name, given in tags.items()]
    annotations = [tool.get("annotations") for tool in BY_NAME["mcp"].render(tools)]
    assert annotations == [{"readOnlyHint": True}, {"openWorldHint": True, "destructiveHint": True}, None, None]


def test_D2_an_mcp_tool_keeps_its_servers_annotations() -> None:
    given = {"title": "Weather", "readOnlyHint": True, "openWorldHint": False}
    tool = ToolDefinition(name="x", metadata={"annotations": given})
    assert BY_NAME["mcp"].render([tool])[0]["annotations"] == given


@pytest.mark.parametrize("wire_id", [7, "7", "a", '"7"', 0, -3, "007", '"a"', "-", '""7""', "9" * 30])
def test_D5_a_json_rpc_id_comes_back_as_it_was(wire_id: str | int) -> None:
    driver = BY_NAME["mcp"]
    request = {"jsonrpc": "2.0", "id": wire_id, "method": "tools/call", "params": {"name": "x"}}
    [call] = driver.parse(request)
    assert [driver.encode_calls([call])[0]["id"], driver.encode_results([ToolResult(call.id)])[0]["id"]] == [
        wire_id
    ] * 2


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


def answering(requests: list[Any], *replies: Any) -> httpx.MockTransport:
    """A server that records the bodies of requests and plays replies."""
    rest = iter(replies)

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(json.loads(request.content))
        return httpx.Response(200, json=next(rest))

    return httpx.MockTransport(answer)


def recorded(name: str, about: str) -> Any:
    rows = json.loads((Path(__file__).parent / "recorded" / f"{name}.json").read_text(encoding="utf-8"))
    return next(row["response"] for row in rows if row["about"] == about)


@pytest.mark.parametrize("tools", [TOOLS, STRICT], ids=["plain", "strict"])
def test_D9_openai_client_sends_the_tools_of_responses(tools: Sequence[ToolDefinition]) -> None:
    driver, requests = BY_NAME["openai-responses"], []
    replies = [recorded("openai-responses", about) for about in ("reasoning, then parallel calls", "text alone")]
    with openai.OpenAI(
        api_key="x", http_client=httpx.Client(transport=answering(requests, *replies)), max_retries=0
    ) as client:
        items: list[Any] = [{"role": "user", "content": "go"}]
        reply = client.responses.create(model="stub", input=items, tools=driver.render(tools))
        assert driver.parse(reply) == driver.parse(reply.output) == driver.parse(replies[0])
        items += [*reply.output, *driver.encode_results([ToolResult(call.id, 1) for call in driver.parse(reply)])]
        last = client.responses.create(model="stub", input=items, tools=driver.render(tools))
        assert driver.parse(last) == []
    assert requests[1]["tools"] == driver.render(tools)
    for tool in requests[1]["tools"]:
        assert openai_problem(tool["name"], tool["parameters"], strict=tool["strict"]) is None
    sent = requests[1]["input"]
    calls = [item for item in sent if item.get("type") == "function_call"]
    outputs = [item for item in sent if item.get("type") == "function_call_output"]
    assert [item["call_id"] for item in calls] == [item["call_id"] for item in outputs]
    assert len(calls) == 3


@pytest.mark.parametrize("tools", [TOOLS, STRICT], ids=["plain", "strict"])
def test_D9_googles_client_sends_the_declarations(tools: Sequence[ToolDefinition]) -> None:
    driver, requests = BY_NAME["gemini"], []
    replies = [recorded("gemini", about) for about in ("a call with an id and a thought signature", "text alone")]
    options = google.HttpOptions(httpx_client=httpx.Client(transport=answering(requests, *replies)))
    with genai.Client(api_key="x", http_options=options) as client:
        contents: list[Any] = [{"role": "user", "parts": [{"text": "go"}]}]
        config = google.GenerateContentConfig(tools=driver.render(tools))
        reply = client.models.generate_content(model="stub", contents=contents, config=config)
        assert driver.parse(reply) == driver.parse(replies[0]) != []
        assert reply.candidates is not None
        content = reply.candidates[0].content
        assert content is not None
        assert driver.parse(content) == driver.parse(content.parts) == driver.parse(reply)
        contents += [content, driver.encode_results([ToolResult("8f2b1a3c", 15, meta={"tool": "t"})])]
        last = client.models.generate_content(model="stub", contents=contents, config=config)
        assert driver.parse(last) == []
    # The client writes some names as Python does, which the API takes too.
    sent, rendered = (google.Tool.model_validate(tool) for tool in (*requests[1]["tools"], *driver.render(tools)))
    assert sent == rendered
    assert [content["role"] for content in requests[1]["contents"]] == ["user", "model", "user"]


def test_D9_mcps_client_lists_the_tools_and_its_call_is_parsed() -> None:
    driver, seen = BY_NAME["mcp"], []

    async def list_tools(context: Any, params: Any) -> mcp_types.ListToolsResult:
        return mcp_types.ListToolsResult.model_validate({"tools": driver.render(TOOLS)})

    async def call_tool(context: Any, params: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:
        seen.extend(driver.parse(params))
        [encoded] = driver.encode_results([ToolResult("1", {"balance": 12.5})])
        return mcp_types.CallToolResult.model_validate(encoded["result"])

    async def talk() -> None:
        async with mcp.Client(Server("stub", on_list_tools=list_tools, on_call_tool=call_tool)) as client:
            listed = (await client.list_tools()).tools
            assert [tool.model_dump(by_alias=True, exclude_unset=True) for tool in listed] == driver.render(TOOLS)
            result = await client.call_tool("get_balance", {"account": "1201"})
            assert (result.structured_content, result.is_error) == ({"balance": 12.5}, False)

    anyio.run(talk)
    assert seen == [ToolCall("", "get_balance", {"account": "1201"})]


# -- the same tools as an agent sends --------------------------------------------------------------------------------

SENT = [function for function in FUNCTIONS if function not in (move, plant)]
"""Pydantic AI leaves a tuple without the `items` that OpenAI wants, and a recursive root without a `type`."""


@pytest.mark.parametrize(("name", "provider"), [("openai", OpenAIStub), ("anthropic", AnthropicStub)])
def test_P1_a_render_equals_what_an_agent_sends(name: str, provider: type[OpenAIStub | AnthropicStub]) -> None:
    with provider(Script("Done.")) as stub:
        model: Any = openai_model(stub) if isinstance(stub, OpenAIStub) else anthropic_model(stub)
        anyio.run(Agent(model, tools=[Tool(function, strict=False) for function in SENT]).run, "go")
    assert stub.requests[0]["tools"] == BY_NAME[name].render([definition(function) for function in SENT])


def test_D10_a_render_equals_what_an_agent_sends_to_gemini() -> None:
    requests: list[Any] = []
    transport = answering(requests, recorded("gemini", "text alone"))

    async def ask() -> None:
        async with httpx.AsyncClient(transport=transport) as http:
            options = google.HttpOptions(httpx_async_client=http)
            provider = GoogleProvider(client=genai.Client(api_key="x", http_options=options))
            model = GoogleModel("gemini-2.5-flash", provider=provider)
            await Agent(model, tools=SENT).run("go")

    anyio.run(ask)
    rendered = BY_NAME["gemini"].render([definition(function) for function in SENT])
    assert [google.Tool.model_validate(tool) for tool in requests[0]["tools"]] == [
        google.Tool.model_validate(tool) for tool in rendered
    ]


SDK_OBJECTS: Mapping[str, tuple[str, Callable[..., object]]] = {
    "openai": ("choices", lambda data: ChatCompletion.construct(**data)),
    "openai-responses": ("output", lambda data: Response.construct(**data)),
    "anthropic": ("stop_reason", lambda data: Message.construct(**data)),
    "gemini": ("candidates", google.GenerateContentResponse.model_validate),
    "mcp": ("jsonrpc", mcp_types.JSONRPCRequest.model_validate),
}
NO_OBJECT = ["arguments that are no object, between two good calls"]
"""What the SDK itself refuses."""
"""Driver -> a field that only whole responses have, and how the SDK builds its object of one."""


@pytest.mark.parametrize("name", SDK_OBJECTS)
def test_D9_the_sdks_objects_of_recorded_responses_are_parsed(name: str) -> None:
    rows = json.loads((Path(__file__).parent / "recorded" / f"{name}.json").read_text(encoding="utf-8"))
    driver, (field, build) = BY_NAME[name], SDK_OBJECTS[name]
    whole = [row["response"] for row in rows if field in row["response"] and row["about"] not in NO_OBJECT]
    assert len(whole) >= 8
    for response in whole:
        built = build(response)
        assert driver.can_handle_response(built) == driver.can_handle_response(response) == NATIVE
        assert driver.parse(built) == driver.parse(response)
