"""Calls that small models write nearly right: one meaning is read, several are asked about, prose stays text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from deep_universe.calls import InvalidCall, ToolCall
from deep_universe.drivers import default_drivers
from deep_universe.drivers.repairing import repair
from deep_universe.drivers.text import TextDriver
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.tools import ToolDefinition

from plugins.universe.tests.dialects import pieces, read
from tests.drawn import examples

DRIVERS = {driver.name: driver for driver in default_drivers() if isinstance(driver, TextDriver)}
WEATHER = ToolDefinition(
    name="get_weather",
    parameters_json_schema={
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    },
)
ECHO = ToolDefinition(
    name="echo",
    parameters_json_schema={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
)
NOW = ToolDefinition(name="now", parameters_json_schema={"type": "object", "properties": {}})
TOOLS = [WEATHER, ECHO, NOW]
OSLO = [("get_weather", {"city": "Oslo"})]
GOOD = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'


def found(driver: str, text: str, tools: list[ToolDefinition] | None = None) -> list[Any]:
    """The calls of a reply, the same however it is split; `?` for one that is asked about again."""
    dialect, offered = DRIVERS[driver], TOOLS if tools is None else tools
    whole = read(dialect.scanner(offered), [text])
    assert read(dialect.scanner(offered), text) == whole
    for cut in range(0, len(text), 7):
        assert read(dialect.scanner(offered), pieces(text, [cut])) == whole
    scanner = dialect.scanner(offered)
    items = [item for item in [*scanner.feed(text), *scanner.finish()] if not isinstance(item, str)]
    return [(item.name, item.arguments) if isinstance(item, ToolCall) else "?" for item in items]


def hermes(body: str) -> str:
    return f"<tool_call>\n{body}\n</tool_call>"


# -- one meaning -----------------------------------------------------------------------------------------------------

BODIES = {
    "a comma too many": '{"name": "get_weather", "arguments": {"city": "Oslo",},}',
    "single quotes": "{'name': 'get_weather', 'arguments': {'city': 'Oslo'}}",
    "names without quotes": '{name: "get_weather", arguments: {city: "Oslo"}}',
    "the form of an API": '{"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}',
    "that form, arguments as text": '{"function": {"name": "get_weather", "arguments": "{\\"city\\": \\"Oslo\\"}"}}',
    "the name in function": '{"function": "get_weather", "parameters": {"city": "Oslo"}}',
    "tool and args": '{"tool": "get_weather", "args": {"city": "Oslo"}}',
    "action and action_input": '{"action": "get_weather", "action_input": {"city": "Oslo"}}',
    "doubled braces": '{{"name": "get_weather", "arguments": {"city": "Oslo"}}}',
    "all braces doubled": '{{"name": "get_weather", "arguments": {{"city": "Oslo"}}}}',
    "one brace short": '{"name": "get_weather", "arguments": {"city": "Oslo"}',
    "one brace too many": '{"name": "get_weather", "arguments": {"city": "Oslo"}}}',
    "a comma behind": GOOD + ",",
    "a fence inside": f"```json\n{GOOD}\n```",
    "a list": f"[{GOOD}]",
    "tool_calls": f'{{"tool_calls": [{GOOD}]}}',
    "two slips": "{'name': 'get_weather', 'arguments': {'city': 'Oslo',}",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_slip_with_one_meaning_is_read(body: str) -> None:
    assert found("hermes", hermes(body)) == OSLO


@pytest.mark.parametrize(
    "text",
    [
        '**Action:** get_weather\n**Action Input:** {"city": "Oslo"}',
        '**Action**: `get_weather`\n**Action Input**: {"city": "Oslo",}',
        "Action: get_weather\nAction Input: {'city': 'Oslo'}\nObservation: sunny",
        '**Thought:** I look.\n**Action:** get_weather\n**Action Input:** {"city": "Oslo"}\n**Observation:** sunny',
        'action: get_weather\naction input: {"city": "Oslo"}\nobservation: sunny',
        'Action : get_weather\nAction Input : {"city": "Oslo"}',
        '- Action: get_weather\n- Action Input: {"city": "Oslo"}\n- Observation: sunny',
        '- **Action**: get_weather\n- **Action Input**: {"city": "Oslo"}',
        '### Action: get_weather\n### Action Input: {"city": "Oslo"}',
        'Action: get_weather\nAction Input: ```json\n{"city": "Oslo"}\n```',
        'Action: get_weather\nAction Input:\n```\n{"city": "Oslo"}```\nObservation: sunny',
        'Action: get_weather\nAction Input: ```json\n{"city": "Oslo"}',
    ],
)
def test_react_is_read_with_labels_and_inputs_as_small_models_write_them(text: str) -> None:
    assert found("react", text) == OSLO


def test_what_follows_a_fence_of_arguments_is_read() -> None:
    one = 'Action: get_weather\nAction Input: ```json\n{"city": "Oslo"}\n```\n'
    assert found("react", one * 2) == OSLO * 2
    items = [*DRIVERS["react"].scanner(TOOLS).feed(one + "So it is.\n")]
    assert "".join(item for item in items if isinstance(item, str)).strip() == "So it is."


@pytest.mark.parametrize(
    "text",
    [
        '<function=get_weather>{"city": "Oslo"}</function>',
        'I look.\n<function=get_weather>{"city": "Oslo"}</function><|eom_id|>',
        '<function=get_weather>\n{"city": "Oslo",}\n</function>',
        '<function=get_weather>{"city": "Oslo"}<|eot_id|>',
    ],
)
def test_the_functions_tag_of_llama_is_read(text: str) -> None:
    assert found("llama", text) == OSLO


@pytest.mark.parametrize("text", ['<function=get_weather>{"city": ', "<function=get_weather>", "<function=>{}"])
def test_a_functions_tag_of_llama_without_a_call_is_asked_about(text: str) -> None:
    assert found("llama", text) == ["?"]


@pytest.mark.parametrize("indent", ["", " ", "   ", "      ", "\t"])
def test_a_fence_of_calls_may_be_indented(indent: str) -> None:
    block = f"```tool_call\n{GOOD}\n```"
    text = "1. First:\n\n" + "\n".join(indent + line for line in block.splitlines())
    assert found("markdown", text) == OSLO


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        '{"name": "get_weather", "parameters": {"city": "Oslo"}}',
        '{"type": "function", "name": "get_weather", "parameters": {"city": "Oslo"}}<|eot_id|>',
        f"I look.\n\n{GOOD}",
        "{'name': 'get_weather', 'arguments': {'city': 'Oslo'}}",
        '{\n  "name": "get_weather",\n  "arguments": {\n    "city": "Oslo"\n  }\n}\n',
        '{"name": "get_weather", "arguments": {"city": "Oslo"}',
        f"[{GOOD}]",
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}\n```\nThis shows the weather.",
    ],
)
def test_bare_json_that_names_an_offered_tool_is_a_call(driver: str, text: str) -> None:
    assert found(driver, text) == OSLO


def test_several_bare_calls_are_made() -> None:
    other = GOOD.replace("Oslo", "Rome")
    both = [("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})]
    for between in ("\n", "; ", ", ", "\n\n", ""):
        assert found("llama", f"{GOOD}{between}{other}") == both


@pytest.mark.parametrize(
    ("driver", "text"),
    [
        ("hermes", hermes('{"name": "echo", "arguments": "hi there"}')),
        ("hermes", hermes('{"name": "echo", "input": "hi there"}')),
        ("react", "Action: echo\nAction Input: hi there"),
        ("react", "Action: echo\nAction Input: hi there\nObservation: hi"),
        ("react", 'Action: echo\nAction Input: "hi there"\n'),
        ("mistral", "[TOOL_CALLS]echo[ARGS]hi there"),
        ("hermes", '{"name": "echo", "arguments": "hi there"}'),
    ],
)
def test_one_value_is_the_argument_of_a_tool_with_one_parameter(driver: str, text: str) -> None:
    assert found(driver, text) == [("echo", {"text": "hi there"})]


def test_a_number_stays_text_where_the_parameter_is_text() -> None:
    assert found("react", "Action: echo\nAction Input: 02134\n") == [("echo", {"text": "02134"})]


def test_nothing_is_the_input_of_a_tool_without_parameters() -> None:
    assert found("react", "Action: now\nAction Input: None\n") == [("now", {})]


# -- more than one meaning, or none ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("driver", "text"),
    [
        ("hermes", hermes('{"name": "get_weather", "arguments": "Oslo"}')),  # of two parameters
        ("react", "Action: get_weather\nAction Input: Oslo"),
        ("hermes", hermes('{"name": "get_weather", "city": "Oslo"}')),  # not dropped
        ("hermes", hermes('{"name": "get_weather", "args": {}, "input": {"city": "Oslo"}}')),
        ("hermes", hermes('{"tool": "get_weather", "action": "echo", "arguments": {}}')),
        ("hermes", hermes('{"name": "get_weather", "arguments": {"city": "Oslo"')),  # two braces short
        ("hermes", hermes('{"name": "get_weather", "arguments": {"at": {"city": "Oslo"}, "days": {"n": 1}}')),
        ("hermes", hermes("{'name': 'get_weather', 'arguments': {'city': 'L'Aquila'}}")),
        ("hermes", hermes('{"name": "get_weather", "arguments": {"city": Oslo}}')),
        ("hermes", hermes('{"name": "get_weather", "arguments": {"city": "Oslo", "city": "Rome",}}')),
        ("hermes", '{"name": "get_weather", "arguments": {"city": "L"Aquila"}}'),
        ("hermes", '{"name": "get_weather", "arguments": {"city": "Os'),
        ("hermes", f"For example:\n```json\n{GOOD}\n```\n"),
    ],
)
def test_where_a_meaning_would_be_guessed_the_model_is_asked_again(driver: str, text: str) -> None:
    assert found(driver, text) == ["?"]


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(
    "text",
    [
        '{"name": "rm", "arguments": {"path": "/"}}',  # not offered
        '{"name": "Oslo", "population": 700000}',
        '{"city": "Oslo", "note": "get_weather"}',
        f"> {GOOD}",
        f"Write `{GOOD}` to call it.",
        f"{GOOD} is how a call looks.",
        f"````\n{GOOD}\n````",
        f'```python\nprint("a")\n{GOOD}\n```',
        f'```json\n{{"name": "Oslo", "calls": [\n{GOOD}\n]}}\n```',
        f'{{\n"name": "example",\n"steps": [\n{GOOD}\n]\n}}',
        f"<think>{GOOD}</think>No.",
    ],
)
def test_what_is_quoted_or_names_no_offered_tool_stays_text(driver: str, text: str) -> None:
    if driver == "llama" and "rm" in text:
        return  # its own form: the model reads that there is no such tool
    assert found(driver, text) == []
    scanner = DRIVERS[driver].scanner(TOOLS)
    assert "".join(item for item in [*scanner.feed(text), *scanner.finish()] if isinstance(item, str)) == text


def test_a_call_behind_broken_json_is_not_lost() -> None:
    call = hermes(GOOD)
    for broken in ('{"name": <none>', '```json\n{"name": "x", \n```\n', "{'name': ?\n"):
        assert found("hermes", f"{broken}\n{call}") == OSLO, broken
    assert found("hermes", f'{{"name": "x\n{call}') == ["?"]  # in a string that is not closed


def test_llamas_own_form_needs_no_tools() -> None:
    text = '{"name": "get_weather", "parameters": {"city": "Oslo"}}'
    assert DRIVERS["llama"].parse(text) == [ToolCall("", *OSLO[0])]
    assert [driver.name for driver in DRIVERS.values() if driver.can_handle_response(text)] == ["llama"]
    assert DRIVERS["hermes"].parse(text) == []


# -- any slip --------------------------------------------------------------------------------------------------------

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text("ab'\"\\{}[],: \n", max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc_", min_size=1, max_size=3), inner),
    max_leaves=6,
)
objects = st.dictionaries(st.text("abc_", min_size=1, max_size=3), plain, max_size=3)


@settings(max_examples=examples(300))
@given(objects)
def test_mend_reads_json_as_json_does(value: Any) -> None:
    assert repair(json.dumps(value)) == value
    assert repair(json.dumps(value, indent=2).replace("\n}", ",\n}") if value else "{}") == value


@settings(max_examples=examples(300))
@given(objects)
def test_mend_reads_what_python_prints(value: Any) -> None:
    assert repair(repr(value).replace("\\\\", "\\u005c")) == value


@settings(max_examples=examples(500))
@given(objects, st.data())
def test_a_cut_in_the_middle_is_never_mended_into_other_arguments(value: Any, data: st.DataObject) -> None:
    text = json.dumps({"name": "f", "arguments": value})
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    try:
        found = repair(cut)
    except ValueError:
        return
    assert found == {"name": "f", "arguments": value}


@settings(max_examples=examples(500))
@given(st.text("{}[]\"'\\:,<>` \nanme1gumts", max_size=60))
def test_any_reply_is_split_alike(text: str) -> None:
    for driver in ("hermes", "llama", "markdown", "react"):
        whole = read(DRIVERS[driver].scanner(TOOLS), [text])
        assert read(DRIVERS[driver].scanner(TOOLS), text) == whole


@pytest.mark.parametrize("size", [200, 2_000])
@pytest.mark.parametrize(
    "unit",
    ['{"name": "', '{"name": {', '```json\n{"name": "a', "{'name': '\n", '{"name": "x"}\n', f"```json\n{GOOD}\n"],
)
def test_hostile_json_is_read_in_linear_time(unit: str, size: int) -> None:
    scanner = DRIVERS["hermes"].scanner(TOOLS)
    text = "say\n" + unit * size
    for start in range(0, len(text), 50):
        scanner.feed(text[start : start + 50])
    scanner.finish()
    assert scanner.examined < 60 * len(text)


def test_a_problem_tells_what_to_write() -> None:
    scanner = DRIVERS["hermes"].scanner(TOOLS)
    [call] = [*scanner.feed(hermes('{"name": "get_weather", "city": "Oslo"}')), *scanner.finish()]
    assert isinstance(call, InvalidCall)
    assert call.problem == 'write the arguments of get_weather as one object, in "arguments"'
