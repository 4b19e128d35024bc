"""The fifteen defects of the design's reference, each shown right on a universe with its own drivers."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Annotated, Any
from xml.etree import ElementTree

import pytest
from deep_universe import ErrorCode, FunctionTool, Injected, MiddlewareError, ToolCall, ToolDriver, ToolResult, Universe

pytestmark = pytest.mark.anyio


def act(number: int = 0) -> int:
    """Return a number."""
    return number


@pytest.fixture
def u() -> Universe:
    universe = Universe()
    universe.register(act, tags={"t"})
    return universe


def chat(*calls: tuple[str, str, str]) -> dict[str, Any]:
    """A reply of OpenAI's chat API: (id, name, arguments as text) of each call."""
    listed = [{"id": id, "type": "function", "function": {"name": name, "arguments": text}} for id, name, text in calls]
    message = {"role": "assistant", "content": None, "tool_calls": listed}
    return {"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]}


def codes(results: Sequence[ToolResult]) -> list[str]:
    return ["ok" if result.is_success else str(result.meta["error_code"]) for result in results]


async def test_defect_1_a_payment_is_made_once(u: Universe) -> None:
    paid: list[int] = []

    @u.tool
    async def pay() -> None:
        paid.append(1)
        raise RuntimeError("the receipt cannot be printed")

    async def passes_through(call: ToolCall, next: Any) -> Any:
        return await next(call)

    u.use(passes_through, uid="passes_through", critical=False)
    assert codes(await u.dispatch(chat(("c", "pay", "{}")))) == ["TOOL_EXECUTION_ERROR"]
    assert paid == [1]


async def test_defect_2_results_with_empty_ids_keep_their_places(u: Universe) -> None:
    results = await u.dispatch(chat(("", "act", '{"number": 1}'), ("", "nope", "{}"), ("", "act", '{"number": 3}')))
    assert codes(results) == ["ok", "TOOL_NOT_FOUND", "ok"]
    assert [result.result for result in results] == [1, None, 3]
    assert len({result.id for result in results}) == 3


async def test_defect_3_a_context_with_a_lock_is_no_crash(u: Universe) -> None:
    @u.tool
    def use(db: Annotated[Any, Injected("db")]) -> bool:
        return db is handle

    class Handle:
        def __init__(self) -> None:
            self.lock = threading.Lock()

    handle = Handle()
    (result,) = await u.dispatch(chat(("c", "use", "{}")), context={"db": handle})
    assert result.result is True


async def test_defect_4_a_plain_text_reply_is_no_error(u: Universe) -> None:
    assert await u.dispatch({"choices": [{"message": {"content": "hi", "tool_calls": None}}]}) == []


@pytest.mark.parametrize("response", [{"unheard": "of"}, {"tool": "act"}, 42, None, object(), ["act"], b"act"])
async def test_defect_5_an_unknown_response_is_reported(u: Universe, response: object) -> None:
    assert codes(await u.dispatch(response)) == [ErrorCode.PROTOCOL_DETECTION_FAILED]


async def test_defect_6_an_unknown_driver_is_an_error_result(u: Universe) -> None:
    assert codes(await u.dispatch(chat(("c", "act", "{}")), driver="nope")) == ["DRIVER_NOT_FOUND"]


async def test_defect_7_two_closures_of_one_factory_never_drop_each_other(u: Universe) -> None:
    seen: list[str] = []

    def noting(word: str) -> Any:
        async def note(call: ToolCall, next: Any) -> Any:
            seen.append(word)
            return await next(call)

        return note

    with pytest.raises(MiddlewareError, match="has no name of its own"):
        u.use(noting("one"))
    for word in ("one", "two"):
        u.use(noting(word), uid=word)
    await u.dispatch(chat(("c", "act", "{}")))
    assert seen == ["one", "two"]


OPENAI = ["o4-mini", "o1", "mistral-large-latest", "qwen3-32b", "chatgpt-4o-latest", "openai:gpt-5.2"]


@pytest.mark.parametrize(
    ("model", "driver"), [*((model, "openai") for model in OPENAI), ("anthropic:claude-sonnet-4-5", "anthropic")]
)
def test_defect_8_models_render_in_the_format_of_their_api(u: Universe, model: str, driver: str) -> None:
    assert u["t"].driver_for(model).name == driver
    assert u["t"].render(model) == u["t"].render(driver)


def winner(u: Universe, response: object) -> ToolDriver:
    return max(u.drivers, key=lambda driver: driver.can_handle_response(response))


@pytest.mark.parametrize("name", ["openai-responses", "anthropic", "openai", "gemini"])
def test_defect_9_no_driver_takes_the_responses_of_another(u: Universe, name: str) -> None:
    response = u.driver(name).encode_calls([ToolCall("c1", "act", {"number": 1})])
    assert winner(u, response).name == name
    rivals = [driver for driver in u.drivers if driver.name != name]
    assert max(driver.can_handle_response(response) for driver in rivals) <= 50


def test_defect_10_gemini_gets_function_declarations(u: Universe) -> None:
    rendered = json.dumps(u["t"].render("gemini-2.5-pro"))
    assert "functionDeclarations" in rendered or "function_declarations" in rendered
    assert '"type": "function"' not in rendered


async def test_defect_11_the_most_common_open_dialect_is_understood(u: Universe) -> None:
    reply = 'I look.\n<tool_call>\n{"name": "act", "arguments": {"number": 7}}\n</tool_call>'
    (result,) = await u.dispatch(reply)
    assert (result.result, result.meta["tool"]) == (7, "act")


async def test_defect_12_xml_is_escaped_both_ways(u: Universe) -> None:
    text = 'a < b & "c" </parameter>'
    u.register_tool(FunctionTool(lambda text: text, name="echo", description=text, tags={"x"}))
    assert ElementTree.fromstring(u["x"].render("xml")).findtext("tool/description") == text
    written = u.driver("xml").encode_calls([ToolCall("c", "echo", {"text": text})])
    (result,) = await u.dispatch(f"I look.\n{written}")
    assert (result.error, result.result) == (None, text)


async def test_defect_13_one_bad_call_loses_no_other(u: Universe) -> None:
    reply = chat(("1", "act", '{"number": 1}'), ("2", "act", '{"number": '), ("3", "act", '{"number": 3}'))
    results = await u.dispatch(reply)
    assert codes(results) == ["ok", "INVALID_ARGUMENTS", "ok"]
    assert [result.result for result in results] == [1, None, 3]


@pytest.mark.parametrize("tag", ["v1.2", "a/b", "a-b"])
def test_defect_14_a_tag_may_contain_dots_and_slashes(u: Universe, tag: str) -> None:
    u.register(act, name="tagged", tags={tag})
    assert [tool.name for tool in u[tag]] == ["tagged"]


def test_defect_15_a_second_universe_is_empty(u: Universe) -> None:
    assert not Universe().tools
    assert u.tools
