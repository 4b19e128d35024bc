"""Agents as data: what Pydantic AI reads of a file is the same agent here, and `deep` adds plugins and policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deep_sessions import OwnAgent, load_agent
from deep_sessions.agent_files import _deep_agent  # pyright: ignore[reportPrivateUsage]
from pydantic_ai import Agent
from pydantic_ai.agent.spec import AgentSpec

from deep_core import ConfigError, Kernel, create_default_deps
from deep_core.plugin_api import read_agent_config
from tests.stubs import Call, Script, function_model

pytestmark = pytest.mark.anyio
PLAIN: dict[str, Any] = {
    "model": "openai:gpt-x",
    "name": "plain",
    "instructions": ["You are plain.", "Be short."],
    "model_settings": {"temperature": 0.25},
    "retries": 2,
    "capabilities": ["Thinking"],
    "output_schema": {"type": "object", "properties": {"sum": {"type": "integer"}}, "title": "Sum"},
}


@pytest.fixture
def anyio_backend() -> str:
    """Pydantic AI runs agents in asyncio."""
    return "asyncio"


async def agent_in(folder: Path, data: object, name: str = "agent.json") -> OwnAgent:
    """The agent of a file with this data."""
    (folder / name).write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return await load_agent(name, str(folder))


async def test_without_deep_it_is_the_agent_that_pydantic_ai_makes(tmp_path: Path) -> None:
    own = await agent_in(tmp_path, PLAIN)
    theirs: Any = Agent.from_file(tmp_path / "agent.json", defer_model_check=True)
    ours: Any = own.agent
    assert not own.is_deep
    assert own.model == "openai:gpt-x"
    for name in ("name", "model", "model_settings", "output_json_schema", "_instructions", "_max_tool_retries"):
        one, other = (getattr(each, name) for each in (ours, theirs))
        assert (one() if callable(one) else one) == (other() if callable(other) else other), name


async def test_with_deep_it_has_plugins_and_our_policy(tmp_path: Path) -> None:
    deep = {
        "agent": {"tool_filter": "name:read_file | name:write_file", "interrupt_on": {"write_file": True}},
        "plugins": {"disable": ["todo"], "backends": {"options": {"root": str(tmp_path)}}},
    }
    own = await agent_in(tmp_path, {**PLAIN, "output_schema": None, "capabilities": [], "deep": deep})
    assert own.is_deep
    script = Script(Call("write_file", {"path": "a.txt", "content": "a"}), "Done.")
    with own.agent.override(model=function_model(script)):  # type: ignore[attr-defined]
        result = await own.agent.run("Go.", deps=create_default_deps(kernel=own.kernel))
    assert [call.tool_name for call in result.output.approvals] == ["write_file"]
    assert not (tmp_path / "a.txt").exists()
    assert isinstance(own.kernel, Kernel)
    offered = {tool.name for tool in own.kernel.explain(own.agent).tools}  # type: ignore[arg-type]
    assert offered == {"read_file", "write_file"}


@pytest.mark.parametrize("name", ["agent.yaml", "agent.yml"])
async def test_yaml_and_json_are_one_agent(name: str, tmp_path: Path) -> None:
    yaml = "model: openai:gpt-x\ninstructions: |\n  You are plain.\ndeep:\n  agent: {tool_filter: read}\n"
    own = await agent_in(tmp_path, yaml, name)
    assert (own.is_deep, own.model) == (True, "openai:gpt-x")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"instruction": "x"}, "unknown key 'instruction'. Did you mean 'instructions'?"),
        ({"model": 5}, "model: Input should be a valid string"),
        ({"deep": 5}, "deep must be a table"),
        ({"deep": {"agnt": {}}}, "unknown table 'agnt'. Did you mean 'agent'?"),
        ({"deep": {"agent": {"tool_filtr": "x"}}}, "agent.tool_filtr: unknown key"),
        ({"deep": {"plugins": {"backends": {"options": {"dir": 1}}}}}, "plugins.backends.options.dir: unknown option"),
        ({"deep": {}, "deps_schema": {"type": "object"}}, "deps_schema: a deep agent's deps are its session"),
        ({"capabilities": ["Thinkin"]}, "capabilities: Pydantic AI has no 'Thinkin'. Did you mean 'Thinking'?"),
        ({"deep": {}, "capabilities": ["Nosuch"]}, "Nosuch"),
        ({"model": "openai:a", "deep": {"agent": {"model": "openai:b"}}}, "the model is named twice"),
        ({"model": "openai:a", "deep": {"agent": {"model": {"model": "b"}}}}, "the model is named twice"),
        ([1], "it must be a table of keys"),
        ("{", "line 1 column 2"),
    ],
)
async def test_a_wrong_file_is_one_error_with_its_name_and_key(data: object, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        await agent_in(tmp_path, data)
    assert str(error.value).startswith("--agent agent.json: ")
    assert words in str(error.value)


def test_a_template_has_no_values_in_a_deep_agent() -> None:
    spec = AgentSpec.model_construct(instructions=["a", object()])  # a template, without the package that reads them
    with pytest.raises(ConfigError, match=r"deep\.agent\.prompt\.system, with variables"):
        _deep_agent(spec, {})


BOMB = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}' if n else 'x'] * 9)}]" for n in range(9))


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("agent.yaml", "deep:\n  agent: {tool_filter: read}\n  agent: {}", "line 2: the key 'agent' stands twice"),
        ("agent.yaml", "model: a\nmodel: b", "line 1: the key 'model' stands twice in one table"),
        ("agent.json", '{"deep": {"agent": {}, "agent": {}}}', "the key 'agent' stands twice in one table"),
        ("agent.yaml", "deep: {agent: {interrupt_on: {on: true}}}", "the key on is no text; write it in quotes"),
        ("agent.yaml", "deep: {plugins: {1: {}}}", "the key 1 is no text; write it in quotes"),
        ("agent.yaml", BOMB, "it has more than 100,000 values"),
        ("agent.yaml", "metadata: &x {x: [*x]}", "it has more than 100,000 values"),
        ("agent.yaml", "metadata: " + "[" * 5_000, "it is nested too deeply"),
        ("agent.json", '{"metadata":' * 50_000, "it is nested too deeply"),
        ("agent.json", '{"model_settings": {"temperature": NaN}}', "NaN is no JSON"),
        ("agent.yaml", "model: !!python/object/apply:os.system [id]", "could not determine a constructor"),
        ("agent.yaml", "a: 1\n---\na: 2", "expected a single document"),
    ],
)
async def test_an_odd_file_is_one_line(name: str, text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        await agent_in(tmp_path, text, name)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


async def test_a_byte_order_mark_and_merges_are_read(tmp_path: Path) -> None:
    text = "\ufeffmodel: openai:a\ndeep: {agent: {interrupt_on: {<<: &ask {ls: yes}, ls: no}}}"
    own = await agent_in(tmp_path, text, "agent.yaml")
    assert own.model == "openai:a"
    assert isinstance(own.kernel, Kernel)
    assert read_agent_config(own.kernel.config).interrupt_on == {"ls": False}


async def test_a_missing_file_and_broken_yaml_are_errors_too(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        await load_agent("no.yaml", str(tmp_path))
    with pytest.raises(ConfigError, match="line 2"):
        await agent_in(tmp_path, "model: x\n  name: [", "agent.yaml")
