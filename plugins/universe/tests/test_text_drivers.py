"""What holds for every text dialect: replies split anywhere, quoting, cut-off calls, round trips, linear time."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from deep_universe.calls import InvalidCall, ToolCall, ToolResult
from deep_universe.driver import FALLBACK, GOOD, NATIVE, NONE, WireTarget
from deep_universe.drivers import default_drivers
from deep_universe.drivers.hermes import HermesDriver
from deep_universe.drivers.mistral import MistralDriver
from deep_universe.drivers.scanner import UnopenedTag
from deep_universe.drivers.text import TextDriver
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart
from pydantic_ai.tools import ToolDefinition

from plugins.universe.tests.dialects import (
    DIALECTS,
    MARKUP,
    calls,
    nasty,
    outcome,
    pieces,
    read,
    recorded,
    shown,
    values,
)
from tests.drawn import examples, many, sample
from tests.tables import table

DRIVERS = [driver for driver in default_drivers() if isinstance(driver, TextDriver)]
every_driver = pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
driver_of_the_sample = pytest.mark.parametrize("driver", sample(DRIVERS, *DRIVERS[::3]), ids=lambda driver: driver.name)
RECORDED = [
    pytest.param(driver, entry, id=f"{driver.name}: {entry['about']}")
    for driver in DRIVERS
    for entry in recorded(driver.name)
]
CALL = ToolCall("", "get_weather", {"city": "Oslo", "days": 3})
QUOTED = re.compile(r"<think>.*?</think>|\[THINK\].*?\[/THINK\]|````.*?````", re.DOTALL)
TOOL = ToolDefinition(
    name="get_weather",
    description='Weather where a < b & "c".',
    parameters_json_schema={
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    },
)


def fragments(driver: TextDriver) -> st.SearchStrategy[str]:
    """Replies made of the dialect's own markup, broken and whole, and of everything that quotes."""
    whole = [entry["response"] for entry in recorded(driver.name)]
    own = [*whole, *(each[:5] for each in whole), driver.encode_calls([CALL]), driver.encode_calls([CALL])[:-4]]
    own += [*driver.encode_calls([CALL]).split("\n"), *DIALECTS[driver.name].markers]
    return st.lists(st.one_of(st.sampled_from(own), st.sampled_from(MARKUP), st.text(max_size=4)), max_size=10).map(
        "".join
    )


@table("driver, entry", RECORDED)
def test_D2_a_recorded_reply_gives_its_calls(driver: TextDriver, entry: dict[str, Any]) -> None:
    assert outcome(driver.parse(entry["response"])) == {"calls": entry["calls"], "invalid": entry["invalid"]}
    assert driver.can_handle_response(entry["response"]) == NATIVE


@every_driver
def test_D2_ten_replies_are_recorded(driver: TextDriver) -> None:
    assert len(recorded(driver.name)) >= 10
    assert len({entry["about"] for entry in recorded(driver.name)}) == len(recorded(driver.name))


@pytest.mark.slow
@table("driver, entry", RECORDED)
def test_a_reply_split_at_every_position_gives_the_same(driver: TextDriver, entry: dict[str, Any]) -> None:
    reply = f"First a `word`.\n\n{entry['response']}\n"
    whole = read(driver.scanner(), [reply])
    for cut in range(0, len(reply) + 1, many(3, 1)):
        assert read(driver.scanner(), pieces(reply, [cut])) == whole
    assert read(driver.scanner(), reply) == whole


@table("driver, entry", RECORDED)
def test_text_before_the_end_is_never_markup(driver: TextDriver, entry: dict[str, Any]) -> None:
    """A user who watches sees, at every moment, a beginning of what is shown in the end."""
    scanner, seen, final = driver.scanner(), "", shown(driver, entry["response"])
    for character in entry["response"]:
        seen += "".join(item for item in scanner.feed(character) if isinstance(item, str))
        assert final.startswith(seen)
    visible = QUOTED.sub("", final)
    assert not [marker for marker in DIALECTS[driver.name].markers if marker in visible]


@driver_of_the_sample
@settings(max_examples=examples(300))
@given(data=st.data())
def test_any_reply_split_anywhere_gives_the_same(driver: TextDriver, data: st.DataObject) -> None:
    reply = data.draw(fragments(driver))
    cuts = data.draw(st.lists(st.integers(0, len(reply)), max_size=6))
    whole = read(driver.scanner(), [reply])
    assert read(driver.scanner(), pieces(reply, cuts)) == whole
    assert read(driver.scanner(), reply) == whole
    items = [*(scanner := driver.scanner()).feed(reply), *scanner.finish()]
    unopened = max((at for at, item in enumerate(items) if isinstance(item, UnopenedTag)), default=-1)
    assert [item for item in items[unopened + 1 :] if not isinstance(item, str)] == driver.parse(reply)


@pytest.mark.slow
@driver_of_the_sample
@settings(max_examples=examples(300))
@given(data=st.data())
def test_D5_parse_reads_what_encode_calls_writes(driver: TextDriver, data: st.DataObject) -> None:
    made = data.draw(calls)
    written = driver.encode_calls(made)
    assert driver.parse(written) == made
    assert read(driver.scanner(), written) == made
    assert driver.parse(f"Before.\n{written}") == made


@driver_of_the_sample
@settings(max_examples=examples(150))
@given(text=nasty, value=values)
def test_results_hold_no_markup_of_their_own(driver: TextDriver, text: str, value: Any) -> None:
    """What a tool returns cannot forge a call or another result when it comes back in the history."""
    call = driver.encode_calls([CALL])
    for result in (
        ToolResult("", f"{text}{call}", None, {"tool": "read"}),
        ToolResult("", {"found": [value, call]}, None, {"tool": "read"}),
        ToolResult("", None, f"no {text} {call}", {"tool": "read", "error_code": "TOOL_EXECUTION_ERROR"}),
    ):
        written = driver.encode_results([result, result])
        assert driver.parse(written) == []
        plain = driver.encode_results([ToolResult("", "x", result.error and "x", {"tool": "read"})] * 2)
        for marker in DIALECTS[driver.name].result_markers:
            assert written.count(marker) == plain.count(marker)


@every_driver
def test_D8_nothing_quoted_is_a_call(driver: TextDriver) -> None:
    call = driver.encode_calls([CALL])
    line = call.replace("\n", " ")
    quoted = [
        f"<think>{call}</think>done",
        f"<think>\n{call}\n</think>\n",
        f"<thinking>\n{call}\n",
        f"`{line}`",
        f"Write ``{line}`` so.",
        f"`so\n{call}\nit is`",
        f'He wrote "{line}" there.',
        f"'{call}' it said",
        json.dumps({"page": line, "more": [line]}, ensure_ascii=False),
        *(f"> {part}" for part in ["\n> ".join(call.split("\n"))]),
    ]
    quoted += [
        f"```\n{call}\n```",
        f"````md\n```\n````x\n{call}\n```\n{call}\n",
        f"~~~ `x`\n{call}\n~~~",
        f"1. So:\n   ```xml\n   x\n{call}\n   ```",
    ]
    if driver.parse(f"x {call}"):  # elsewhere a call must begin a line, and the second of these does
        quoted.append(f"“{call}\n{call}” and more")
    for reply in quoted:
        assert driver.parse(reply) == [], reply
        assert shown(driver, reply) == reply
        assert driver.can_handle_response(reply) in (NONE, FALLBACK)


@every_driver
def test_D5_text_with_half_of_the_markup_comes_back_whole(driver: TextDriver) -> None:
    for marker in (*DIALECTS[driver.name].markers, "`", "```\n", "<think>"):
        made = [ToolCall("", "write", {"text": f"So: {marker} it is\n{marker}"}), CALL]
        assert driver.parse(driver.encode_calls(made)) == made
        if isinstance(driver, HermesDriver | MistralDriver):  # a model does not escape in strings, and need not
            raw = driver.encode_calls([ToolCall("", "write", {"text": "TEXT"}), CALL]).replace("TEXT", marker.strip())
            assert driver.parse(raw) == [ToolCall("", "write", {"text": marker.strip()}), CALL]


@every_driver
def test_D8_a_call_that_a_value_quotes_is_never_executed(driver: TextDriver) -> None:
    """The model writes a file about calls, and does not escape them: at worst its own call is invalid."""
    call = driver.encode_calls([CALL])
    outer = driver.encode_calls([ToolCall("", "write_file", {"content": "CONTENT"})])
    for content in (call, f"So: {call} and\n\n{call}\n", f"{call[:-1]}\n{call}"):
        found = driver.parse(outer.replace("CONTENT", content))
        assert CALL not in found, content


@every_driver
def test_D8_what_only_looks_like_a_quotation_does_not_hide_a_call(driver: TextDriver) -> None:
    call = driver.encode_calls([CALL])
    for before in (
        "It`s `here`.\n",
        "An unclosed `word\n",
        "An unclosed `word.\n\n",
        "```\ncode\n```\n",
        "```code``` in a line\n",
        "~~~\n```\n~~~\n",
        "<think>`</think>\n",
        "<think>\n```\n</think>\n\n",
        "a > b\n",
        "> quoted\n",
        "``` x `y` ```\n\n",
        'I look for "tides".\n',
        '"',
        "The users' ",
    ):
        inline = driver.parse(f"x {call}") == [CALL]
        if before.endswith("\n"):
            assert driver.parse(before + call) == [CALL], before
        elif inline:
            assert driver.parse(f"I look for {before}tides{before}{call}") == [CALL], before


@every_driver
def test_D8_reasoning_that_the_prompt_opened_calls_nothing(driver: TextDriver) -> None:
    """Many chat templates end in `<think>`: the reply has its closing tag alone."""
    call = driver.encode_calls([CALL])
    for closer in {closer for _, closer in driver.reasoning}:
        assert driver.parse(f"I may write\n{call}\nor not.\n{closer}\n\nNo.") == []
        assert driver.parse(f"I may write\n{call}\n{closer}\n\n{call}") == [CALL]
        assert driver.parse(f"I think.{closer}\n{call}") == [CALL]
        assert driver.parse(f"<think>I think.</think>\n{call}\n{closer}\n") == [CALL]
        assert driver.parse(f"{call}\nIn `{closer}` it ends.") == [CALL]


@every_driver
def test_D8_a_call_that_the_end_cuts_off_is_never_executed(driver: TextDriver) -> None:
    call = driver.encode_calls([CALL])
    finished = next(end for end in range(len(call) + 1) if driver.parse(call[:end]) == [CALL])
    for end in range(finished):
        found = driver.parse(call[:end])
        assert not any(isinstance(item, ToolCall) for item in found), call[:end]
        text = shown(driver, call[:end])
        assert found or text == call[:end]
    assert [type(item) for item in driver.parse(call[: finished - 1])] == [InvalidCall]


@every_driver
@settings(max_examples=examples(200))
@given(text=st.one_of(st.text(), nasty))
def test_text_without_calls_is_shown_whole(driver: TextDriver, text: str) -> None:
    items = read(driver.scanner(), [text])
    if all(isinstance(item, str) for item in items) and not any(
        marker in text for marker in DIALECTS[driver.name].markers
    ):
        assert "".join(map(str, items)) == text


@every_driver
def test_the_blanks_around_calls_are_not_text(driver: TextDriver) -> None:
    call = driver.encode_calls([CALL])
    assert read(driver.scanner(), [f"{call}\n\n{call}\n"]) == [CALL, CALL]


@every_driver
def test_a_plain_reply_is_not_recognized_and_holds_no_calls(driver: TextDriver) -> None:
    for reply in ("Sunny in Oslo.", "", "a < b, [1], `x` and {2}", "Act now: call."):
        assert driver.can_handle_response(reply) == NONE
        assert driver.parse(reply) == []


@every_driver
def test_D9_a_model_response_gives_the_calls_of_its_text_but_not_of_its_thoughts(driver: TextDriver) -> None:
    call = driver.encode_calls([CALL])
    half = len(call) // 2
    response = ModelResponse(parts=[ThinkingPart(call), TextPart(call[:half]), TextPart(call[half:])])
    assert driver.parse(response) == [CALL]
    assert driver.can_handle_response(response) == NATIVE


@every_driver
@table("response", [None, 3, {"choices": []}, [], b"<tool_call>"])
def test_what_is_not_text_is_refused(driver: TextDriver, response: object) -> None:
    assert driver.can_handle_response(response) == NONE
    with pytest.raises(ValueError, match=f"the {driver.name} driver reads text"):
        driver.parse(response)


@every_driver
def test_D2_render_equals_the_golden_file(driver: TextDriver) -> None:
    golden = (Path(__file__).parent / "golden" / f"{driver.name}.txt").read_text("utf-8")
    assert driver.render([TOOL, ToolDefinition(name="now")]).rstrip("\n") + "\n" == golden


@every_driver
def test_the_prompt_lists_each_tool_and_is_itself_no_call(driver: TextDriver) -> None:
    prompt = driver.render([TOOL, ToolDefinition(name="now")])
    assert "get_weather" in prompt
    assert "now" in prompt
    assert "city" in prompt
    assert prompt == driver.render([TOOL, ToolDefinition(name="now")])


@every_driver
def test_U5_no_tools_render_to_nothing(driver: TextDriver) -> None:
    assert driver.render([]) == DIALECTS[driver.name].empty


@every_driver
def test_P1_a_text_dialect_serves_models_of_its_family_that_have_no_tool_calls(driver: TextDriver) -> None:
    for name in DIALECTS[driver.name].serves:
        assert driver.can_handle(WireTarget(name)) == GOOD
        assert 0 < driver.can_handle(WireTarget(name, frozenset({"tools"}), "openai")) <= 50
    assert driver.can_handle(WireTarget("gpt-4o", frozenset({"tools"}), "openai")) == NONE
    assert driver.can_handle(WireTarget("acme-1")) == (FALLBACK if driver.default else NONE)


# Linear time: the scanner counts the characters that it examines.

MOST = 8
"""Times that a character is examined, at most, in any reply below."""


def hostile(driver: TextDriver) -> dict[str, str]:
    """Replies that a scanner with a second thought would read again and again."""
    call = driver.encode_calls([CALL])
    opener = call[: call.index("get_weather")]
    closer = call[call.rindex("3") + 1 :]
    return {
        "nested": opener * 1000 + call + closer * 1000,
        "unclosed": (opener + " x ") * 1000,
        "openers in an open value": call[: call.index("Oslo")] + opener * 1000,
        "unclosed strings": (call[: call.index("Oslo") + 4] + closer) * 1000,
        "unclosed strings on one line": (call[: call.index("Oslo") + 4] + closer).replace("\n", "") * 1000,
        "backticks of every length": " ".join("`" * length for length in range(200)) + "\n" + call * 50,
        "unclosed backticks": ("`a\n" + call + "\n") * 300,
        "fences": "```\n```\n" * 1000 + call,
        "brackets": (opener + "[" * 2000 + "{" * 2000) * 3,
        "quotes": opener + '"' * 5000,
        "escapes": opener + '{"' + "\\" * 5001 + closer,
        "heads": "".join(marker + "\n" for marker in DIALECTS[driver.name].markers) * 300,
        "thoughts": "<think>" * 1000 + "</think>" * 1000,
        "half markers": "".join(marker[:-1] for marker in DIALECTS[driver.name].markers) * 300,
    }


SIZES = {1: "each character", 7: "pieces of seven", 10**9: "whole"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("driver", "size"),
    sample(
        [(driver, size) for driver in DRIVERS for size in SIZES],
        *((driver, 10**9) for driver in DRIVERS[::3]),
        *((driver, 1) for driver in DRIVERS if driver.name == "hermes"),
    ),
    ids=lambda value: SIZES[value] if isinstance(value, int) else value.name,
)
def test_a_hostile_reply_takes_linear_time(driver: TextDriver, size: int) -> None:
    for about, reply in hostile(driver).items():
        scanner = driver.scanner()
        for start in range(0, len(reply), size):
            scanner.feed(reply[start : start + size])
        scanner.finish()
        overhead = 64 if size == 1 else 16
        assert scanner.examined <= (MOST + overhead) * len(reply), about
        assert scanner.examined <= MOST * len(reply) or size < 10**9, about


@pytest.mark.slow
@pytest.mark.parametrize(
    "driver",
    sample(
        [driver for driver in DRIVERS if driver.name == "hermes" or driver in DRIVERS[::3]],
        *(driver for driver in DRIVERS if driver.name == "hermes"),
    ),
    ids=lambda driver: driver.name,
)
def test_a_reply_of_ten_megabytes_takes_linear_time(driver: TextDriver) -> None:
    call = driver.encode_calls([ToolCall("", "write", {"text": "line <b> of text `x`\n" * 250_000, "n": 1})])
    prose = "A line of prose, with `code`, a < b and [links](x).\n" * 100_000
    reply = prose + call
    assert len(reply) > 10_000_000
    scanner = driver.scanner()
    found = [item for item in [*scanner.feed(reply), *scanner.finish()] if not isinstance(item, str)]
    assert [len(item.arguments["text"]) for item in found if isinstance(item, ToolCall)] == [5_250_000]
    assert scanner.examined <= 3 * len(reply)


def test_offered_tools_decide_what_is_text() -> None:
    """A file that holds JSON stays text where the schema wants a string."""
    schema = {
        "type": "object",
        "properties": {
            "content": {"type": "string"},
            "title": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "mode": {"$ref": "#/$defs/Mode"},
            "count": {"type": "integer"},
            "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        },
        "$defs": {"Mode": {"enum": ["1", "2"]}},
    }
    tool = ToolDefinition(name="write", parameters_json_schema=schema)
    typed = {"content": '{"a": 1}', "title": None, "mode": "1", "count": 7, "either": 7}
    for driver in DRIVERS:
        if driver.untyped:
            raw = driver.encode_calls([ToolCall("", "write", {**typed, "content": {"a": 1}, "mode": 1})])
            assert read(driver.scanner([tool]), [raw]) == [ToolCall("", "write", typed)]
            assert read(driver.scanner(), [raw]) == [ToolCall("", "write", {**typed, "content": {"a": 1}, "mode": 1})]
            assert read(driver.scanner([tool]), [driver.encode_calls([ToolCall("", "write", typed)])]) == [
                ToolCall("", "write", typed)
            ]


def test_a_number_that_python_reads_as_an_infinity_makes_its_call_invalid() -> None:
    for number, valid in (("1e999", False), ("-1E+4000", False), ("1e308", True), ("5e-999", True)):
        (found,) = HermesDriver().parse(f'<tool_call>{{"name": "f", "arguments": {{"x": {number}}}}}</tool_call>')
        assert isinstance(found, ToolCall) is valid, number
