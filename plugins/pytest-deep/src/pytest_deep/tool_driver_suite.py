"""The conformance suite for tool drivers: they read what they write, leave what is not theirs, and never break."""

# A test suite: its checks are assertions.
# ruff: noqa: S101

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from datetime import date
from typing import Any, ClassVar

import pytest
from deep_universe import FALLBACK, GOOD, InvalidCall, TextDriver, ToolCall, ToolDriver, ToolResult, WireTarget
from pydantic_ai.tools import ToolDefinition

__all__ = ["ToolDriverConformance"]

NAME = re.compile(r"[a-z][a-z0-9_-]*")
HOSTILE = (
    *("", " ", "\n", '"', "\\", "'", "`", "```\n", "{}", "[1]", "1", "true", "null", "NaN", "é 😀", "\x00", "\u2028"),
    *("<think>", "</think>", "<tool_call>", "</tool_call>", "</parameter>", "]]>", "&lt;", "&amp;lt;", "\\u003c"),
    *(
        "[TOOL_CALLS]",
        "<|python_tag|>",
        "\nAction: x\nAction Input: {}",
        "\n```tool_call\n{}\n```",
        "[f(x=1)]",
        "a\r\nb",
    ),
)
"""Texts that are markup somewhere."""
VALUES: tuple[Any, ...] = (None, True, False, 0, -1, 2**60, 0.5, -1e-9, [], {}, [[1, "x"], {"a": None}], {"a b": ["<"]})
CALL = ToolCall("call_1", "get_weather", {"city": "Oslo", "days": 3})
TARGETS = (
    WireTarget("gpt-4o", frozenset({"tools"}), "openai"),
    WireTarget("gpt-5.2", frozenset({"tools"}), "openai-responses"),
    WireTarget("claude-sonnet-4-5", frozenset({"tools"}), "anthropic"),
    WireTarget("gemini-2.5-pro", frozenset({"tools"}), "google"),
    *(WireTarget("acme-1", frozenset({"tools"})), WireTarget("gemma3:4b"), WireTarget("")),
)
TOOLS = (
    ToolDefinition(
        name="get_weather",
        description='Weather where a < b & "c".\n```\n</tools>',
        parameters_json_schema={
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}},
            "required": ["city"],
        },
    ),
    ToolDefinition(name="now"),
)


class Unfriendly:
    """An object on which everything raises."""

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return object.__getattribute__(self, name)
        raise RuntimeError("no attribute can be read")


class BadDump:
    """An object whose `model_dump` raises."""

    def model_dump(self, **how: Any) -> Any:
        raise RuntimeError("it cannot be dumped")


DATA = """
    {} [] [[]] [null] {"": ""} {"text": 1} {"choices":null} {"choices":[{}]} {"content":"x"} {"output":"x"} {"method":1}
    {"choices":[{"message":{"tool_calls":[null]}}]} {"content":[{"type":3}]} {"content":[{"type":"tool_use","input":3}]}
    [{"type":null}] {"candidates":[{"content":null}]} {"method":"tools/call","params":[]}
    {"output":[{"type":"function_call"}]}
"""
OBJECTS: tuple[object, ...] = (None, True, 0, 1e999, b"x", object(), Unfriendly(), BadDump())
LONG = ("<", "[", "`", '{"a":', "<tool_call>", "[TOOL_CALLS]", "<think>", "&")
JUNK: tuple[object, ...] = (
    *OBJECTS,
    *("", "x", "{", "[", "null", "\ud800", *(each * 500 for each in LONG)),
    *(json.loads(each) for each in re.split(r"\s+(?=[\[{])", DATA.strip())),
)
"""What no driver may trip over."""


class ToolDriverConformance:
    """Subclass it in a test module and define the fixture `driver`:

        class TestMyDriver(ToolDriverConformance):
            recorded = [({"tool": "now", "with": {}}, [("now", {})])]
            foreign = ["Plain text.", {"choices": [{"message": {"content": "hi"}}]}]

            @pytest.fixture
            def driver(self):
                return MyDriver()

    A driver of text, a `TextDriver`, is also tested for replies that arrive in pieces, are quoted or are cut off.

    Attributes:
        recorded: responses in the driver's format, each with the (name, arguments) of its calls.
        malformed: a response with three calls, of which the second cannot be read; None to skip the test.
        foreign: responses in other formats, and plain text.
    """

    recorded: ClassVar[Sequence[tuple[object, Sequence[tuple[str, dict[str, Any]]]]]] = ()
    malformed: ClassVar[object] = None
    foreign: ClassVar[Sequence[object]] = (
        "Sunny in Oslo.",
        "a < b, [1] and `x`",
        {"answer": 42},
        [1, 2],
        {"text": "hi"},
    )

    @pytest.fixture
    def driver(self) -> ToolDriver:
        """The driver under test."""
        raise NotImplementedError("define the fixture `driver`")

    @pytest.fixture
    def text_driver(self, driver: ToolDriver) -> TextDriver:
        """The driver under test, if its format is text."""
        if not isinstance(driver, TextDriver):
            pytest.skip("it is not a TextDriver")
        return driver

    def test_is_a_tool_driver(self, driver: ToolDriver) -> None:
        """It has a name that users can type, and a priority."""
        assert isinstance(driver, ToolDriver), "a driver subclasses deep_universe.ToolDriver"
        assert NAME.fullmatch(driver.name), f"name {driver.name!r}: it matches {NAME.pattern}"
        assert type(driver.priority) is int, f"priority is an int, not {driver.priority!r}"

    def test_scores_of_models_are_on_the_scale(self, driver: ToolDriver) -> None:
        """`can_handle` returns an int from 0 to 100, the same each time."""
        for target in TARGETS:
            score = driver.can_handle(target)
            _on_the_scale(score, f"can_handle({target.name!r})")
            assert driver.can_handle(target) == score, "can_handle changes from call to call: a driver holds no state"

    def test_no_response_makes_it_raise(self, driver: ToolDriver) -> None:
        """`can_handle_response` takes every object; `parse` returns calls or raises `ValueError`."""
        for response in JUNK:
            shown = f"{object.__repr__(response)}" if isinstance(response, Unfriendly) else f"{response!r:.60}"
            try:
                score = driver.can_handle_response(response)
            except Exception as error:  # noqa: BLE001 - the failure says which one
                pytest.fail(f"can_handle_response({shown}) raised {error!r}: return 0 for what is not yours")
            _on_the_scale(score, f"can_handle_response({shown})")
            try:
                found = driver.parse(response)
            except ValueError:
                continue
            except Exception as error:  # noqa: BLE001
                pytest.fail(f"parse({shown}) raised {error!r}: raise ValueError for what is not your format")
            for call in found:
                assert isinstance(call, ToolCall | InvalidCall), f"parse({shown}) returned {call!r:.80}"

    def test_what_is_foreign_is_left_to_others(self, driver: ToolDriver) -> None:
        """Other formats, and plain text, score 50 at most."""
        for response in self.foreign:
            score = driver.can_handle_response(response)
            assert score <= 50, f"{response!r:.80} is not in the format of {driver.name}, and scores {score}: over 50"

    def test_recorded_responses_are_read(self, driver: ToolDriver) -> None:
        """Each is recognized, and gives its calls; reading does not change it."""
        if not self.recorded:
            pytest.skip("no responses are recorded: recorded = [(response, [(name, arguments), …]), …]")
        for response, expected in self.recorded:
            before = copy.deepcopy(response)
            score = driver.can_handle_response(response)
            assert score >= GOOD, (
                f"{response!r:.80} is in the format of {driver.name}, and scores {score}: below {GOOD}"
            )
            found = [(call.name, dict(call.arguments)) for call in driver.parse(response) if isinstance(call, ToolCall)]
            assert found == list(expected), f"{response!r:.80} gave {found}"
            assert response == before, "parse or can_handle_response changed the response"

    def test_one_malformed_call_does_not_lose_the_others(self, driver: ToolDriver) -> None:
        """The second of three is an `InvalidCall` in its place."""
        if self.malformed is None:
            pytest.skip("no malformed response is set: malformed = …")
        kinds = [type(call).__name__ for call in driver.parse(self.malformed)]
        assert kinds == ["ToolCall", "InvalidCall", "ToolCall"], (
            f"parse gave {kinds}: catch the error of one call, and return an InvalidCall for it"
        )

    def test_written_calls_are_read_back(self, driver: ToolDriver) -> None:
        """`parse(encode_calls(calls))` gives equal calls, whatever stands in their arguments."""
        samples = [[CALL, ToolCall("call_2", "now", {})], [CALL, CALL]]
        samples += [[ToolCall("call_1", "write", {"text": text, "n": 1}), CALL] for text in HOSTILE]
        samples += [[ToolCall("call_1", "write", {"value": value})] for value in VALUES]
        for calls in samples:
            written = driver.encode_calls(calls)
            found = driver.parse(written)
            assert [_facts(call) for call in found] == [_facts(call) for call in calls], (
                f"{calls!r:.200} was written as {written!r:.200} and read as {found!r:.200}: escape markup"
            )
            ids = [(call.id, read.id) for call, read in zip(calls, found, strict=True)]
            assert all(read in ("", id) for id, read in ids), f"ids were changed: {ids}"
            assert driver.can_handle_response(written) >= GOOD, f"{written!r:.200} is not recognized"

    def test_rendering_is_stable_and_complete(self, driver: ToolDriver) -> None:
        """Every tool is shown with its name and parameters, byte for byte the same each time; no tools render too."""
        before = copy.deepcopy(TOOLS)
        rendered = driver.render(TOOLS)
        text = rendered if isinstance(rendered, str) else json.dumps(rendered)
        again = driver.render(list(TOOLS))
        assert text == (again if isinstance(again, str) else json.dumps(again)), (
            "two renders differ: prompts are cached"
        )
        for word in ("get_weather", "now", "city", "days"):
            assert word in text, f"{word!r} is not in the rendered tools"
        assert before == TOOLS, "render changed the tools"
        empty = driver.render([])
        assert isinstance(empty, str) or not empty, f"no tools render to {empty!r:.80}: return an empty value"

    def test_results_are_written(self, driver: ToolDriver) -> None:
        """A value, an error, and what JSON cannot say: each is in the text or data that is returned."""
        results = [
            ToolResult("call_1", "sunny-42", None, {"tool": "get_weather"}),
            ToolResult("call_2", None, "failed-43", {"tool": "now", "error_code": "TOOL_EXECUTION_ERROR"}),
            ToolResult("call_3", {"on": date(2026, 1, 2), "tags": {"one"}}, None, {"tool": "now"}),
        ]
        written = driver.encode_results(results)
        text = written if isinstance(written, str) else json.dumps(written, allow_nan=False)
        for word in ("sunny-42", "failed-43", "2026"):
            assert word in text, f"{word!r} is not in the written results: {text:.300}"

    def test_text_in_pieces_gives_the_same(self, text_driver: TextDriver) -> None:
        """A reply that is split anywhere gives the same text and calls, and never shows markup on the way."""
        call = text_driver.encode_calls([CALL, ToolCall("", "now", {})])
        for reply in (f"First.\n\n{call}\n", f"A `word` < x.\n{call}\nLast.", *self._replies()):
            whole = _read(text_driver, [reply])
            assert _read(text_driver, list(reply)) == whole, (
                f"character by character, {reply!r:.120} gives something else"
            )
            for cut in range(len(reply)):
                split = _read(text_driver, [reply[:cut], reply[cut:]])
                assert split == whole, f"cut at {cut}, {reply!r:.120} gives {split!r:.200}"
            shown, final = "", "".join(item for item in whole if isinstance(item, str))
            scanner = text_driver.scanner()
            for character in reply:
                shown += "".join(item for item in scanner.feed(character) if isinstance(item, str))
                assert final.startswith(shown), f"while it arrives, {reply!r:.120} shows {shown!r:.120}"

    def test_quoted_text_is_never_a_call(self, text_driver: TextDriver) -> None:
        """Calls in reasoning, a code fence, backticks or a quotation are text."""
        call = text_driver.encode_calls([CALL])
        line = call.replace("\n", " ")
        quotations = (f"<think>{call}</think>", f"````\n{call}\n````", f"`{line}`", "> " + call.replace("\n", "\n> "))
        for reply in quotations:
            assert text_driver.parse(reply) == [], f"{reply!r:.120} is quoted: it is not a call"
            assert text_driver.can_handle_response(reply) <= max(FALLBACK, 50), f"{reply!r:.120} is quoted: 50 at most"

    def test_text_that_is_cut_off_is_never_a_call(self, text_driver: TextDriver) -> None:
        """A beginning of a call is not executed until its markup is closed."""
        call = text_driver.encode_calls([CALL])
        closed = False
        for end in range(len(call)):
            found = [item for item in text_driver.parse(call[:end]) if isinstance(item, ToolCall)]
            closed = closed or bool(found)
            assert not found or _facts(found[0]) == _facts(CALL), f"{call[:end]!r:.120} gave {found[0]!r:.120}"
            assert not closed or found, f"{call[:end]!r:.120} is no call any more"
        data = f"{json.dumps(CALL.arguments['days'])}"
        assert not [
            item for item in text_driver.parse(call[: call.rindex(data) + len(data)]) if isinstance(item, ToolCall)
        ], "a call counts before its markup is closed"

    def test_text_takes_linear_time(self, text_driver: TextDriver) -> None:
        """The scanner examines each character a few times, in hostile replies too: `Scanner.examined` counts them."""
        call = text_driver.encode_calls([CALL])
        opener = call[: call.index("get_weather")]
        half = call[: call.index("Oslo")]
        for reply in (opener * 500 + call, (half + "\n") * 500, call * 200, ("`\n" + call + "\n") * 200, "<" * 20_000):
            scanner = text_driver.scanner()
            scanner.feed(reply)
            scanner.finish()
            assert len(reply) <= 2 * scanner.examined + 1000, "the scanner does not count what it examines"
            assert scanner.examined <= 16 * len(reply), (
                f"{len(reply)} characters, {scanner.examined} examined: the time is not linear"
            )

    def _replies(self) -> list[str]:
        return [response for response, _ in self.recorded if isinstance(response, str)]


def _on_the_scale(score: object, what: str) -> None:
    assert type(score) is int, f"{what} returned {score!r}: an int from 0 to 100"
    assert 0 <= score <= 100, f"{what} returned {score}: an int from 0 to 100"


def _facts(call: ToolCall | InvalidCall) -> object:
    """What must survive; equal numbers of different types are different."""
    if isinstance(call, InvalidCall):
        return call
    return call.name, json.dumps(dict(call.arguments), sort_keys=True)


def _read(driver: TextDriver, chunks: Sequence[str]) -> list[str | ToolCall | InvalidCall]:
    """What a scanner finds, neighboring texts joined."""
    scanner = driver.scanner()
    items = [item for chunk in chunks for item in scanner.feed(chunk)] + scanner.finish()
    joined: list[str | ToolCall | InvalidCall] = []
    for item in items:
        last = joined[-1] if joined else None
        if isinstance(item, str) and isinstance(last, str):
            joined[-1] = last + item
        else:
            joined.append(item)
    return joined
