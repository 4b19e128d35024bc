"""The suite for tool drivers: the drivers of deep-universe pass, and each mistake fails the test about it."""

from __future__ import annotations

from typing import Any

import pytest
from deep_universe import TextDriver, ToolDriver, default_drivers
from pytest_deep import ToolDriverConformance

from tests.authors_pytest import RunPytest

pytest_plugins = ["pytester"]

DRIVERS = {driver.name: driver for driver in default_drivers()}


class Ours(ToolDriverConformance):
    """Their recorded responses are deep-universe's own tests."""

    test_recorded_responses_are_read = None  # type: ignore[assignment]
    test_one_malformed_call_does_not_lose_the_others = None  # type: ignore[assignment]

    @pytest.fixture
    def driver(self, name: str) -> ToolDriver:
        return DRIVERS[name]


@pytest.mark.parametrize("name", [name for name, driver in DRIVERS.items() if isinstance(driver, TextDriver)])
class TestOurDialects(Ours):
    pass


@pytest.mark.parametrize("name", [name for name, driver in DRIVERS.items() if not isinstance(driver, TextDriver)])
class TestOurWireFormats(Ours):
    test_text_in_pieces_gives_the_same = None  # type: ignore[assignment]
    test_quoted_text_is_never_a_call = None  # type: ignore[assignment]
    test_text_that_is_cut_off_is_never_a_call = None  # type: ignore[assignment]
    test_text_takes_linear_time = None  # type: ignore[assignment]


class TestRecorded(ToolDriverConformance):
    recorded = (('<tool_call>{"name": "now", "arguments": {}}</tool_call>', [("now", {})]),)
    malformed = '<tool_call>{"name": "a"}</tool_call><tool_call>{x}</tool_call><tool_call>{"name": "c"}</tool_call>'

    @pytest.fixture
    def driver(self) -> ToolDriver:
        return next(driver for driver in default_drivers() if driver.name == "hermes")


AUTHOR = """
import itertools, json, re

import pytest
from deep_universe import InvalidCall, NATIVE, Scanner, ToolCall
from deep_universe.drivers.hermes import HermesDriver
from deep_universe.drivers.json_body import Markers, JsonBody
from deep_universe.drivers.openai import OpenAIDriver
from pytest_deep import ToolDriverConformance

RECORDED = [('<tool_call>{"name": "now", "arguments": {}}</tool_call>', [("now", {})])]
MALFORMED = '<tool_call>{"name": "a"}</tool_call><tool_call>{x}</tool_call><tool_call>{"name": "c"}</tool_call>'


class BadName(HermesDriver):
    name = "My Driver"

class OffTheScale(HermesDriver):
    def can_handle(self, target):
        return 101

class Raises(HermesDriver):
    def can_handle_response(self, response):
        return NATIVE if "<tool_call>" in response else 0

class TakesAll(HermesDriver):
    def can_handle_response(self, response):
        return NATIVE if isinstance(response, str) else 0

class Deaf(HermesDriver):
    def parse(self, response):
        return super().parse(response)[:0]

class AllOrNothing(HermesDriver):
    def parse(self, response):
        found = super().parse(response)
        return found if all(isinstance(call, ToolCall) for call in found) else []

class Unescaped(OpenAIDriver):
    def encode_calls(self, calls):
        return {"role": "assistant", "tool_calls": [{"id": call.id, "type": "function", "function": {"name": call.name,
            "arguments": json.dumps(dict(call.arguments)).replace("null", "None")}} for call in calls]}

class Counts(HermesDriver):
    numbers = itertools.count()
    def render(self, tools):
        return super().render(tools) + str(next(self.numbers))

class HidesErrors(HermesDriver):
    def encode_results(self, results):
        return super().encode_results([result for result in results if result.error is None])

class Whole(Scanner):
    def feed(self, chunk):
        return super().feed(chunk) + super().finish()

class NoPieces(HermesDriver):
    def scanner(self, tools=()):
        return Whole(self._grammar)

class Greedy(HermesDriver):
    def parse(self, response):
        found = re.findall("<tool_call>.*?</tool_call>", response, re.S)
        return [call for each in found for call in super(Greedy, self).parse(each)]

class Hasty(HermesDriver):
    def parse(self, response):
        brackets = "}}" if response.endswith("3") else "}"
        return super().parse(response + brackets + "</tool_call>") or super().parse(response)

class Again(Scanner):
    def feed(self, chunk):
        self.examined += len(chunk) ** 2
        return super().feed(chunk)

class Slow(HermesDriver):
    def scanner(self, tools=()):
        return Again(self._grammar)
"""
CAUGHT = {
    "BadName": "test_is_a_tool_driver",
    "OffTheScale": "test_scores_of_models_are_on_the_scale",
    "Raises": "test_no_response_makes_it_raise",
    "TakesAll": "test_what_is_foreign_is_left_to_others",
    "Deaf": "test_recorded_responses_are_read",
    "AllOrNothing": "test_one_malformed_call_does_not_lose_the_others",
    "Unescaped": "test_written_calls_are_read_back",
    "Counts": "test_rendering_is_stable_and_complete",
    "HidesErrors": "test_results_are_written",
    "NoPieces": "test_text_in_pieces_gives_the_same",
    "Greedy": "test_quoted_text_is_never_a_call",
    "Hasty": "test_text_that_is_cut_off_is_never_a_call",
    "Slow": "test_text_takes_linear_time",
}
SUBCLASS = """
class Test{name}(ToolDriverConformance):
    recorded = RECORDED
    malformed = MALFORMED

    @pytest.fixture
    def driver(self):
        return {name}()
"""


@pytest.mark.slow
def test_every_mistake_is_caught(pytester: pytest.Pytester, run_pytest: RunPytest) -> None:
    pytester.makepyfile(AUTHOR + "".join(SUBCLASS.format(name=name) for name in CAUGHT))
    chosen = " or ".join(f"(Test{name} and {test})" for name, test in CAUGHT.items())
    result = run_pytest("-k", chosen)
    outcomes: dict[str, Any] = result.parseoutcomes()
    assert outcomes == {"failed": len(CAUGHT), "deselected": outcomes["deselected"]}
    result.stdout.fnmatch_lines_random([f"FAILED *::Test{name}::{test}*" for name, test in CAUGHT.items()])


def test_every_check_has_a_driver_that_fails_it() -> None:
    assert set(CAUGHT.values()) == {name for name in vars(ToolDriverConformance) if name.startswith("test_")}
