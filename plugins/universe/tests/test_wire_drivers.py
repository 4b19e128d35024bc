"""Every driver of an API: what it recognises, reads and writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from deep_universe import FALLBACK, NATIVE, NONE, InvalidCall, ToolCall, ToolDriver, ToolResult, WireTarget
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart

from plugins.universe.tests.wire_tools import BY_NAME, TOOLS, WIRE
from tests.drawn import examples
from tests.tables import table

HERE = Path(__file__).parent
RECORDED: dict[str, list[dict[str, Any]]] = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted((HERE / "recorded").glob("*.json"))
}
ROWS = [
    pytest.param(BY_NAME[name], row, id=f"{name}: {row['about']}")
    for name, rows in RECORDED.items()
    if name in BY_NAME
    for row in rows
]

each = pytest.mark.parametrize("driver", WIRE, ids=lambda driver: driver.name)
each_row = table("driver, row", ROWS)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)
ids = st.text("abcdefXYZ0123456789_-", min_size=1, max_size=40)
names = st.text("abcdefXYZ0123456789_-", min_size=1, max_size=64)
calls = st.lists(st.builds(ToolCall, ids, names, st.dictionaries(st.text(), json_values, max_size=4)), max_size=5)

# Data that almost is a response: the keys and values that drivers look at, in the wrong places.
WORDS = """
choices message messages content tool_calls function name arguments id type object role output input call_id
function_call tool_use assistant model text candidates parts functionCall args method params jsonrpc
chat.completion response tools/call toolUse stopReason stop_reason finish_reason status summary
"""
words = st.sampled_from(WORDS.split())
almost = st.recursive(
    words | st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=5),
    max_leaves=25,
)


class Wrapped(BaseModel):
    """An SDK's object with fields that it does not know, as OpenAI's and Anthropic's are."""

    model_config = {"extra": "allow"}


class Hostile(dict[str, Any]):
    def get(self, key: str, default: Any = None) -> Any:
        raise RuntimeError("no")

    __contains__ = __getitem__ = get  # type: ignore[assignment]


class Impostor:
    @property
    def __class__(self) -> type:
        raise RuntimeError("no class")


class Broken:
    def model_dump(self, **options: Any) -> dict[str, Any]:
        raise RuntimeError("no dump")


# -- what is recorded ------------------------------------------------------------------------------------------------


@each
def test_D2_every_driver_has_ten_recorded_responses(driver: ToolDriver) -> None:
    assert len(RECORDED[driver.name]) >= 10


@each_row
def test_D2_a_recorded_response_gives_its_calls(driver: ToolDriver, row: dict[str, Any]) -> None:
    found = driver.parse(row["response"])
    good = [{"name": call.name, "arguments": call.arguments} for call in found if isinstance(call, ToolCall)]
    assert good == row["calls"]
    assert sum(isinstance(call, InvalidCall) for call in found) == row["invalid"]


@each_row
def test_D4_a_recorded_response_is_its_own_drivers(driver: ToolDriver, row: dict[str, Any]) -> None:
    scores = {other.name: other.can_handle_response(row["response"]) for other in WIRE}
    mine = scores.pop(driver.name)
    assert mine > FALLBACK
    assert max(scores.values(), default=0) <= FALLBACK


@each_row
def test_D9_an_sdk_object_gives_the_same_calls(driver: ToolDriver, row: dict[str, Any]) -> None:
    response = row["response"]
    wrapped = [Wrapped(**item) for item in response] if isinstance(response, list) else Wrapped(**response)
    assert driver.parse(wrapped) == driver.parse(response)
    assert driver.can_handle_response(wrapped) == driver.can_handle_response(response)


# -- negotiation -----------------------------------------------------------------------------------------------------


@each
def test_P5_a_driver_is_native_for_its_protocol_and_nothing_else(driver: ToolDriver) -> None:
    protocols = ["openai", "openai-responses", "anthropic", "google", "bedrock", "mcp", None]
    scores = [driver.can_handle(WireTarget("m", frozenset({"tools"}), protocol)) for protocol in protocols]
    assert sorted(scores) == [NONE] * 6 + [NATIVE]
    assert [driver.can_handle(WireTarget("m", frozenset(), protocol)) for protocol in protocols] == [NONE] * 7


def test_P7_the_names_are_in_the_order_of_registration() -> None:
    assert [driver.name for driver in WIRE] == list(BY_NAME)
    assert len(BY_NAME) == len(WIRE)


# -- fingerprints ----------------------------------------------------------------------------------------------------

OTHERS = [
    None, 0, True, 1.5, b"{}", "", "hi", "{}", '{"choices": []}', object(), object, ToolDriver, [], {}, set(), (), [[]],
    [None], [1, "a"], {"a": 1}, {1: 2}, {"choices": None}, {"choices": []}, {"choices": [1]}, {"content": 5},
    {"role": "user", "content": "hi"}, {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    {"error": {"message": "no", "type": "invalid_request_error"}}, {"type": "error", "error": {"message": "no"}},
    {"name": "x", "arguments": {}}, ..., iter([]),
]  # fmt: skip


HOSTILE = {
    "mock": MagicMock,
    "raising dict": Hostile,
    "raising class": Impostor,
    "raising dump": Broken,
    "list of dicts": lambda: [Hostile()],
    "list of objects": lambda: [Impostor(), Broken()],
}


@each
@table("response", OTHERS)
def test_D3_what_is_no_response_scores_zero_and_does_not_parse(driver: ToolDriver, response: object) -> None:
    assert driver.can_handle_response(response) == NONE
    with pytest.raises(ValueError, match=f"driver '{driver.name}' does not know this response"):
        driver.parse(response)


@each
@table("make", HOSTILE.values())
def test_D3_an_object_that_raises_scores_zero(driver: ToolDriver, make: Callable[[], object]) -> None:
    assert driver.can_handle_response(make()) == NONE
    with pytest.raises(ValueError, match="does not know this response"):
        driver.parse(make())


@each
@given(response=almost | json_values)
@settings(max_examples=examples(500))
def test_D3_any_data_scores_an_int_and_what_scores_parses(driver: ToolDriver, response: object) -> None:
    score = driver.can_handle_response(response)
    assert type(score) is int
    assert 0 <= score <= 100
    if score:
        assert all(isinstance(call, ToolCall | InvalidCall) for call in driver.parse(response))


@each
@given(data=st.data())
@settings(max_examples=examples(200))
def test_D3_a_damaged_response_never_raises(driver: ToolDriver, data: st.DataObject) -> None:
    row = data.draw(st.sampled_from(RECORDED[driver.name]))
    response = json.loads(json.dumps(row["response"]))
    place, parents = response, []
    while place and isinstance(place, dict | list):
        key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
        parents.append((place, key))
        place = place[key]
    parent, key = data.draw(st.sampled_from(parents))
    parent[key] = data.draw(almost)
    if driver.can_handle_response(response):
        driver.parse(response)


# -- reading and writing ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@each
@given(calls=calls)
@settings(max_examples=examples(200))
def test_D5_what_is_encoded_is_parsed_again(driver: ToolDriver, calls: list[ToolCall]) -> None:
    message = json.loads(json.dumps(driver.encode_calls(calls)))
    if calls:
        assert driver.parse(message) == calls
        assert driver.can_handle_response(message) == NATIVE


@each
@given(values=st.lists(json_values, max_size=3))
@settings(max_examples=examples(50))
def test_D5_results_keep_their_ids_and_are_json(driver: ToolDriver, values: list[Any]) -> None:
    results = [ToolResult(f"call_{index}", value, meta={"tool": "t"}) for index, value in enumerate(values)]
    text = json.dumps(driver.encode_results([*results, ToolResult("bad", error="no such city", meta={"tool": "t"})]))
    for index in range(len(values)):
        assert f'"call_{index}"' in text
    assert '"bad"' in text
    assert "no such city" in text


@each
def test_D5_results_of_any_type_can_be_written(driver: ToolDriver) -> None:
    loop: list[Any] = []
    loop.append(loop)
    for value in (object(), b"\xff", {1, 2}, loop, Wrapped(x=1), None, {(1, 2): 3}):
        json.dumps(driver.encode_results([ToolResult("c", value, meta={"tool": "t"})]))


@each
def test_D5_text_that_is_not_unicode_can_be_sent(driver: ToolDriver) -> None:
    half = "a\ud83d"
    written = [
        driver.encode_results([ToolResult("c", value, meta={"tool": "t"})]) for value in (half, [half], {half: half})
    ]
    written.append(driver.encode_results([ToolResult("c", error=half, meta={"tool": "t"})]))
    json.dumps(written, ensure_ascii=False).encode()


@pytest.mark.parametrize("name", ["openai", "openai-responses"])
def test_D5_half_a_surrogate_pair_is_sent_back_as_an_escape(name: str) -> None:
    call = ToolCall("c", "t", {"x": "é\ud83d"})
    message = BY_NAME[name].encode_calls([call])
    json.dumps(message, ensure_ascii=False).encode()
    assert BY_NAME[name].parse(message) == [call]


@each
def test_D9_a_model_response_gives_its_calls(driver: ToolDriver) -> None:
    response = ModelResponse(
        parts=[
            ThinkingPart("I call <tool_call>"),
            TextPart("Looking."),
            ToolCallPart("a", {"x": 1}, tool_call_id="c1"),
            ToolCallPart("b", '{"x": 1', tool_call_id="c2"),
            ToolCallPart("c", None, tool_call_id="c3"),
        ]
    )
    first, broken, last = driver.parse(response)
    assert (first, last) == (ToolCall("c1", "a", {"x": 1}), ToolCall("c3", "c", {}))
    assert isinstance(broken, InvalidCall)
    assert (broken.id, broken.name, broken.code) == ("c2", "b", "INVALID_ARGUMENTS")
    assert driver.can_handle_response(response) > FALLBACK


@each
def test_X3_a_model_response_without_calls_is_no_error(driver: ToolDriver) -> None:
    response = ModelResponse(parts=[TextPart("hi")])
    assert driver.parse(response) == []
    assert 0 < driver.can_handle_response(response) <= FALLBACK


@each
def test_U9_two_renders_are_identical_and_no_render_changes_a_tool(driver: ToolDriver) -> None:
    before = [json.dumps(tool.parameters_json_schema) for tool in TOOLS]
    first = json.dumps(driver.render(TOOLS))
    assert json.dumps(driver.render(TOOLS)) == first
    assert [json.dumps(tool.parameters_json_schema) for tool in TOOLS] == before


@each
def test_U5_no_tools_render_as_an_empty_list(driver: ToolDriver) -> None:
    assert driver.render([]) == []
