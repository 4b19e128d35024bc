"""docs/reference/dialects.md: each driver reads the replies that the page shows, and writes the results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from deep_universe import TextDriver, ToolCall, ToolResult, default_drivers

PAGE = (Path(__file__).parents[3] / "docs/reference/dialects.md").read_text("utf-8")
SECTIONS = re.findall(r"^## `([a-z-]+)`\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
DRIVERS = {driver.name: driver for driver in default_drivers() if isinstance(driver, TextDriver)}
CALLS = [("get_weather", {"city": "Oslo", "days": 1}), ("get_weather", {"city": "<Rome>"})]
RESULTS = [
    ToolResult("1", "Sunny, 14 °C", meta={"tool": "get_weather"}),
    ToolResult("2", error="no forecast for <Rome>", meta={"tool": "get_weather"}),
]


def block(section: str, title: str) -> str:
    (found,) = re.findall(rf'^(`{{3,}})text title="{title}"\n(.*?)\n\1$', section, re.MULTILINE | re.DOTALL)
    return found[1]


def read(driver: TextDriver, text: str) -> list[tuple[str, dict[str, object]]]:
    calls = driver.parse(text)
    assert all(isinstance(call, ToolCall) for call in calls), calls
    return [(call.name, dict(call.arguments)) for call in calls if isinstance(call, ToolCall)]


def test_every_dialect_has_its_section() -> None:
    assert [name for name, _ in SECTIONS] == list(DRIVERS)


@pytest.mark.parametrize(("name", "section"), SECTIONS, ids=[name for name, _ in SECTIONS])
def test_the_exchange_is_what_the_driver_reads_and_writes(name: str, section: str) -> None:
    driver = DRIVERS[name]
    assert read(driver, block(section, "reply")) == CALLS
    calls = [ToolCall(str(number), tool, arguments) for number, (tool, arguments) in enumerate(CALLS, 1)]
    assert read(driver, driver.encode_calls(calls)) == CALLS
    assert block(section, "results") == driver.encode_results(RESULTS).strip("\n")
