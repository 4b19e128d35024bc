"""A universe with every driver: replies in each format are executed, and no reply makes it fail."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from deep_universe import ErrorCode, ToolResult, Universe, UniverseTool
from deep_universe.drivers import default_drivers
from pydantic_ai.tools import ToolDefinition

from deep_core import ToolName
from plugins.universe.tests.fuzzing import HIDDEN, Fuzzer, recorded, tool_names
from tests.drawn import many
from tests.tables import table

pytestmark = pytest.mark.anyio

RECORDED = recorded()
NAMES = tool_names(RECORDED)
CASES = [
    pytest.param(driver, entry, id=f"{driver}: {entry['about']}")
    for driver, entries in RECORDED.items()
    for entry in entries
]


class Echo(UniverseTool):
    """Takes any arguments, and notes them."""

    def __init__(self, name: str, runs: list[tuple[str, dict[str, Any]]]) -> None:
        super().__init__(ToolDefinition(name=name, parameters_json_schema={"type": "object"}))
        self.runs = runs

    async def prepare(self, arguments: Mapping[str, Any], context: Mapping[str, Any]) -> Any:
        async def execute() -> dict[str, Any]:
            self.runs.append((self.name, dict(arguments)))
            return dict(arguments)

        return execute


@pytest.fixture
def runs() -> list[tuple[str, dict[str, Any]]]:
    return []


@pytest.fixture
def universe(runs: list[tuple[str, dict[str, Any]]]) -> Universe:
    universe = Universe()
    for name in (*NAMES, HIDDEN):
        universe.register_tool(Echo(name, runs))
    return universe


def test_X1_there_are_recorded_responses_of_every_driver() -> None:
    assert {driver.name for driver in default_drivers()} == RECORDED.keys()
    assert all(len(entries) >= 10 for entries in RECORDED.values())


@table("driver, entry", CASES)
@pytest.mark.parametrize("named", [True, False], ids=["named", "recognized"])
async def test_X1_a_reply_in_every_format_is_executed(
    universe: Universe, driver: str, entry: dict[str, Any], named: bool
) -> None:
    results = await universe.dispatch(entry["response"], driver=driver if named else None)
    assert [result.result for result in results if result.is_success] == [call["arguments"] for call in entry["calls"]]
    assert [result.meta["tool"] for result in results if result.is_success] == [call["name"] for call in entry["calls"]]
    failures = [result for result in results if not result.is_success]
    assert len(failures) == entry["invalid"]
    assert {result.meta["error_code"] for result in failures} <= {ErrorCode.INVALID_ARGUMENTS, ErrorCode.PARSE_ERROR}
    assert all(result.id for result in results)


@table("driver, entry", [case for case in CASES if case.values[1]["calls"]])  # type: ignore[index]
async def test_X6_a_reply_in_every_format_is_filtered(
    universe: Universe, runs: list[Any], driver: str, entry: dict[str, Any]
) -> None:
    results = await universe.dispatch(entry["response"], tool_filter=ToolName("another"))
    denied = [result for result in results if result.meta["error_code"] == ErrorCode.FILTER_DENIED]
    assert len(denied) == len(entry["calls"])
    assert runs == []


async def test_X19_792_calls_in_one_reply_run_8_at_once_and_stay_in_order() -> None:
    now, peak, tasks = 0, 0, 0

    async def work(n: int) -> int:
        nonlocal now, peak, tasks
        now += 1
        peak, tasks = max(peak, now), max(tasks, len(asyncio.all_tasks()))
        for _ in range(3 + n % 5):
            await asyncio.sleep(0)
        now -= 1
        return n

    universe = Universe()
    universe.register(work)
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": "work", "arguments": f'{{"n": {n}}}'}}
        for n in range(792)
    ]
    reply = {"choices": [{"index": 0, "message": {"role": "assistant", "content": None, "tool_calls": calls}}]}
    before = len(asyncio.all_tasks())
    results = await universe.dispatch(reply, max_parallel=8)
    assert [(result.id, result.result) for result in results] == [(f"call_{n}", n) for n in range(792)]
    assert peak == 8
    assert tasks <= before + 2 * 8


@pytest.mark.slow
def test_X2_no_response_raises_and_no_tool_runs_that_was_not_offered(
    universe: Universe, runs: list[tuple[str, dict[str, Any]]]
) -> None:
    responses = [entry["response"] for entries in RECORDED.values() for entry in entries]
    fuzzer = Fuzzer(14, NAMES, responses)
    offered = ~ToolName(HIDDEN)
    outcomes: dict[str, int] = {}

    async def dispatch_all(count: int) -> None:
        for _ in range(count):
            response = fuzzer.response()
            before = len(runs)
            results = await universe.dispatch(response, tool_filter=offered)
            assert all(isinstance(result, ToolResult) for result in results)
            assert sum(result.is_success for result in results) == len(runs) - before
            for result in results:
                code = str(result.meta.get("error_code", "ok"))
                outcomes[code] = outcomes.get(code, 0) + 1
                assert "Traceback" not in str(result.error)

    asyncio.run(dispatch_all(many(10_000, 100_000)))
    assert HIDDEN not in {name for name, _ in runs}
    # The fuzz reaches what it is about: calls that run, are denied, unknown, invalid, and responses of no format.
    expected = {"ok", "FILTER_DENIED", "TOOL_NOT_FOUND", "INVALID_ARGUMENTS", "PROTOCOL_DETECTION_FAILED"}
    assert expected <= outcomes.keys(), outcomes
    assert outcomes.keys() <= {"ok", *map(str, ErrorCode)}
