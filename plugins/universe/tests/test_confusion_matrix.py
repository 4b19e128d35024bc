"""Every driver against every recorded response of every driver, and against what nobody wrote."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from deep_universe.calls import InvalidCall, ToolCall
from deep_universe.driver import FALLBACK, GOOD, NONE
from deep_universe.drivers import default_drivers
from deep_universe.drivers.text import TextDriver

from plugins.universe.tests.fuzzing import Fuzzer, recorded, tool_names
from tests.drawn import many
from tests.tables import table

DRIVERS = default_drivers()
RECORDED = recorded()
ROWS = [
    pytest.param(name, entry["response"], id=f"{name}: {entry['about']}")
    for name, entries in RECORDED.items()
    for entry in entries
]


def test_D4_every_driver_has_recorded_responses() -> None:
    assert RECORDED.keys() == {driver.name for driver in DRIVERS}


@table("own, response", ROWS)
def test_D4_a_response_is_won_by_its_own_driver_and_others_only_fall_back(own: str, response: Any) -> None:
    scores = {driver.name: driver.can_handle_response(response) for driver in DRIVERS}
    assert scores.pop(own) >= GOOD
    assert {name: score for name, score in scores.items() if score > 50} == {}


@pytest.mark.slow
def test_D3_no_object_and_no_string_makes_a_driver_raise_or_leave_the_scale() -> None:
    responses = [entry["response"] for entries in RECORDED.values() for entry in entries]
    fuzzer = Fuzzer(41, tool_names(RECORDED), responses)
    for _ in range(many(2_000, 10_000)):
        response = fuzzer.response()
        for driver in DRIVERS:
            score = driver.can_handle_response(response)
            assert type(score) is int
            assert 0 <= score <= 100
            _parses_or_refuses(driver, response)


def _parses_or_refuses(driver: Any, response: Any) -> None:
    try:
        found = driver.parse(response)
    except ValueError:
        assert driver.can_handle_response(response) == NONE or not isinstance(driver, TextDriver)
    else:
        assert all(isinstance(call, ToolCall | InvalidCall) for call in found)


def test_D3_a_response_is_not_changed_by_looking_at_it() -> None:
    for entries in RECORDED.values():
        for entry in entries:
            before = copy.deepcopy(entry["response"])
            for driver in DRIVERS:
                driver.can_handle_response(entry["response"])
            assert entry["response"] == before


def test_D4_a_quoted_call_is_only_a_fallback_for_its_driver() -> None:
    for driver in DRIVERS:
        if isinstance(driver, TextDriver):
            call = driver.encode_calls([ToolCall("", "now", {})])
            assert driver.can_handle_response(f"````\n{call}\n````\n") == FALLBACK
            assert driver.parse(f"````\n{call}\n````\n") == []
