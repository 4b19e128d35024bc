"""The README's program runs unchanged."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deep_backends
import deep_subagents
import pytest

import deep_core
from plugins.subagents.tests.actors import Cast, call, say_results, task
from tests.plugins_by_hand import Tools, plugin

README = Path(__file__).parents[1] / "README.md"
pytestmark = pytest.mark.anyio


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "unused")
    tools = Tools("execute", "look", id="things", requires_approval=True, tags=["execute"])
    things = plugin("things", toolsets=[tools.toolset])
    with deep_core.Kernel(plugins=[deep_subagents, deep_backends, things], discover=False) as kernel:
        monkeypatch.setattr("deep_core.plugins.kernel._default", kernel)
        namespace: dict[str, Any] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for block in re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.M | re.S):
                exec(compile(block, str(README), "exec"), namespace)
        yield namespace


async def test_the_readme_decides_call_by_call(program: dict[str, Any]) -> None:
    roles: dict[str, Any] = {
        "go": [task("work", "t1"), say_results],
        "work": [[call("execute", "c1", path="make"), call("look", "c2", path="/a")], say_results],
    }
    with program["agent"].override(model=Cast(roles).model):
        output = await program["work"]("go")
    assert output == "success:denied:No commands today. | success:look /a"


async def test_the_readmes_own_agent_is_used(program: dict[str, Any]) -> None:
    cast = Cast({"go": [task("sing", "t1", subagent_type="poet"), say_results], "sing": ["roses are red"]})
    with program["agent"].override(model=cast.model):
        result = await program["agent"].run("go", deps=program["deps"])
    assert result.output == "success:roses are red"
    assert "- reviewer: Reads a change" in (cast.of("go")[0].info.instructions or "")
