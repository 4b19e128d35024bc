"""What holds for the whole package: its dependencies, isolation of calls, and one language of filters."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from deep_universe import ToolCall, Universe, diagnose

from deep_core import ToolExpression

from .dispatching import PlainDriver, plain

pytestmark = pytest.mark.anyio

BARE = """
import sys
import deep_universe
assert not {"pydantic", "pydantic_ai"} & set(sys.modules), "importing the package imported them"
allowed = {"deep_core", "deep_universe", "pydantic_ai"}
brought = {"openai", "anthropic", "google.genai", "mcp", "lark", "docstring_parser"}
for name in brought:
    sys.modules[name] = None  # importing it raises ImportError
import asyncio
universe = deep_universe.Universe()
universe.register(lambda x: x + 1, name="add_one", tags={"math"})
for driver in universe.drivers:
    call = deep_universe.ToolCall("c1", "add_one", {"x": 41})
    assert universe["math"].render(driver.name), driver.name
    results = asyncio.run(universe.dispatch(driver.encode_calls([call]), driver=driver.name))
    print(driver.name, [(result.result, result.error) for result in results])
"""


def test_C1_the_package_depends_on_the_kernel_and_its_expressions_alone() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["dependencies"] == ["deep-agent-core>=0.1,<1", "tool-expressions>=0.1,<1"]


@pytest.mark.slow
def test_C1_a_universe_works_without_any_sdk() -> None:
    done = subprocess.run([sys.executable, "-c", BARE], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(Universe().drivers)
    assert all(line.endswith("[(42, None)]") for line in lines), done.stdout


async def test_C2_calls_share_no_state() -> None:
    universe = Universe([PlainDriver()])
    universe.register(lambda: None, name="act")
    seen: list[Any] = []

    async def append(call: ToolCall, next: Any) -> Any:
        call.context["seen"].append(call.id)
        seen.append(call.context["seen"])
        return await next(call)

    universe.use(append, uid="append")
    context: dict[str, list[str]] = {"seen": []}
    await universe.dispatch(plain(ToolCall("1", "act", {}), ToolCall("2", "act", {})), context=context)
    assert sorted(seen) == [["1"], ["2"]]
    assert context == {"seen": []}


@pytest.mark.parametrize("text", ["a", "a & ~b", "name:two | ^thr", "~plugin:app", "~(a | b)", 'name:""'])
async def test_C3_one_expression_selects_the_same_tools_everywhere(text: str) -> None:
    universe = Universe([PlainDriver()])
    for name, tags in {"one": ["a"], "two": ["a", "b"], "three": ["b"], "four": ["c"]}.items():
        universe.register(lambda: None, name=name, tags=tags)
    expression = ToolExpression.parse(text)
    surrounded: list[str] = []

    async def note(call: ToolCall, next: Any) -> Any:
        surrounded.append(call.name)
        return await next(call)

    universe.use(note, uid="note", scope=expression)
    calls = plain(*(tool.name for tool in universe.tools))
    await universe.dispatch(calls, max_parallel=1)
    allowed = await universe.dispatch(calls, tool_filter=expression)
    shown = [tool.name for tool in universe[expression]]
    assert shown == [tool.name for tool in universe[text]]
    assert shown == surrounded[: len(shown)]
    assert shown == [result.meta["tool"] for result in allowed if result.is_success]
    assert shown == [tool.name for tool in universe.tools if diagnose(expression, tool.facts).matched]
