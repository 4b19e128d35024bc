"""`[agent] profile = "small"`: what a model with a small window is sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturn, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from deep_core import Kernel, create_default_deps

pytestmark = pytest.mark.anyio
FOUR = ["edit_file", "execute", "read_file", "write_file"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def run(
    agent_section: dict[str, Any], folder: Path, *calls: ToolCallPart, **parameters: Any
) -> tuple[list[AgentInfo], Any]:
    """Run with a model that makes the calls, one a turn; give what each request offered, and the result."""
    seen: list[AgentInfo] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info)
        left = calls[len(seen) - 1 : len(seen)]
        return ModelResponse([*left] or [TextPart("done")])

    config = {"agent": agent_section, "plugins": {"backends": {"options": {"root": str(folder)}}}}
    with Kernel(config=config) as kernel:
        agent = kernel.create_agent(FunctionModel(answer), backend="local", interrupt_on=False, **parameters)
        result = await agent.run("go", deps=create_default_deps(kernel=kernel))
    return seen, result


def tokens(info: AgentInfo) -> int:
    tools = sum(len(t.description or "") + len(json.dumps(t.parameters_json_schema)) for t in info.function_tools)
    parts = info.model_request_parameters.instruction_parts or []
    return (tools + sum(len(part.content) for part in parts)) // 4


async def test_profile_small_offers_four_tools_in_less_than_600_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    whole, _ = await run({}, tmp_path)
    small, _ = await run({"profile": "small"}, tmp_path)
    assert sorted(tool.name for tool in small[0].function_tools) == FOUR
    assert tokens(small[0]) < 600 < tokens(whole[0])
    assert (small[0].model_settings or {}).get("parallel_tool_calls") is False
    assert len(whole[0].function_tools) > 4


async def test_profile_small_offers_the_tools_of_the_application(tmp_path: Path) -> None:
    def get_tide(port: str) -> str:
        """Return the tide of a port."""
        return "low"

    seen, result = await run(
        {"profile": "small"}, tmp_path, ToolCallPart("get_tide", {"port": "Brest"}), tools=[get_tide]
    )
    assert sorted(tool.name for tool in seen[0].function_tools) == sorted([*FOUR, "get_tide"])
    assert "low" in str(result.all_messages())


async def test_the_small_profile_cuts_a_long_result_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "long.txt").write_text("tide " * 4_000)
    _, result = await run({"profile": "small"}, tmp_path, ToolCallPart("read_file", {"path": "long.txt"}))
    (found,) = [part for m in result.all_messages() for part in m.parts if isinstance(part, ToolReturnPart)]
    assert len(str(found.content)) < 3_100
    assert "more characters: read less at once" in str(found.content)


async def test_the_small_profile_cuts_what_has_metadata_too(tmp_path: Path) -> None:
    def get_tides() -> ToolReturn[str]:
        """Return the tides."""
        return ToolReturn("tide " * 4_000, metadata={"port": "Brest"})

    _, result = await run({"profile": "small"}, tmp_path, ToolCallPart("get_tides", {}), tools=[get_tides])
    (found,) = [part for m in result.all_messages() for part in m.parts if isinstance(part, ToolReturnPart)]
    assert len(str(found.content)) < 3_100
    assert found.metadata["port"] == "Brest"


async def test_a_tool_that_is_not_offered_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "long.txt").write_text("x")
    _, result = await run({"profile": "small"}, tmp_path, ToolCallPart("ls", {}))
    assert result.output == "done"
    made = [part for m in result.all_messages() for part in m.parts if isinstance(part, ToolReturnPart)]
    assert [part.outcome for part in made] != ["success"]
    assert "long.txt" not in str(made)
