"""With every wrapper of others' work configured at once, `explain` names the plugin of each part."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import deep_backends
import deep_filesystem
import deep_skills
import deep_subagents
import pytest
from deep_backends import local_backend
from pydantic_ai import FunctionToolset
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.models.test import TestModel

from deep_core import Kernel

SERVER = Path(__file__).resolve().parent.parent / "plugins" / "mcp" / "tests" / "server.py"
NAMES = ("ask", "capabilities.named_capabilities", "folders", "guards", "mcp", "memories", "web_tools")


class Weather(AbstractCapability[Any]):
    """A capability of somebody else."""

    def get_instructions(self) -> str:
        return "In celsius."

    def get_toolset(self) -> FunctionToolset[Any]:
        toolset = FunctionToolset[Any](id="weather")
        toolset.add_function(lambda city: f"sun in {city}", name="forecast", description="Forecast.")
        return toolset


@pytest.mark.slow
def test_explain_names_the_source_of_each_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("home", "work", "server", "review/skills/reviewing", "review/agents", "review/.claude-plugin"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    (tmp_path / "work" / "AGENTS.md").write_text("Use tabs.")
    review = tmp_path / "review"
    (review / ".claude-plugin" / "plugin.json").write_text(json.dumps({"name": "review"}))
    (review / "skills" / "reviewing" / "SKILL.md").write_text("---\nname: reviewing\ndescription: Review.\n---\nRead.")
    (review / "agents" / "critic.md").write_text("---\nname: critic\ndescription: Finds defects.\n---\nBe strict.")
    server = {"command": sys.executable, "args": [str(SERVER), str(tmp_path / "server")]}
    options: dict[str, Any] = {
        "ask": {"offer": True},
        "named_capabilities": {"entries": {"weather": {"use": f"{__name__}:Weather"}}},
        "folders": {"paths": [str(review)]},
        "guards": {"deny_commands": ["git push"]},
        "mcp": {"servers": {"harbor": server}, "wait": 60},
        "memories": {"enabled": True, "project": "harbor"},
        "web_tools": {"search": "searxng", "searxng_url": "http://127.0.0.1:1"},
    }
    plugins: list[Any] = [deep_backends, deep_filesystem, deep_skills, deep_subagents]
    plugins += [import_module(f"deep_{name}") for name in NAMES]
    config = {"plugins": {name: {"options": found} for name, found in options.items()}}
    with Kernel(plugins=plugins, discover=False, strict=True, config=config) as kernel:
        found = kernel.explain(kernel.create_agent(TestModel(), backend=lambda context: local_backend(".")))
    tools: dict[str, set[str]] = {}
    for tool in found.tools:
        tools.setdefault(tool.plugin, set()).add(tool.name)
    assert tools == {
        "ask": {"ask_user"},
        "filesystem": {"ls", "read_file", "write_file", "edit_file", "glob", "grep", "execute"},
        "mcp": {f"harbor_{name}" for name in ("look", "put", "burn", "echo", "die", "hang", "fail")},
        "memories": {"recall", "remember", "forget"},
        "named_capabilities": {"forecast"},
        "skills": {"list_skills", "load_skill", "read_skill_resource"},
        "subagents": {"task"},
        "web_tools": {"fetch", "search"},
    }
    sections = {(section.plugin, section.name) for section in found.sections}
    assert sections == {
        ("backends", "workspace"),
        ("folders", "instructions"),  # AGENTS.md
        ("guards", "warning"),
        ("memories", "index"),
        ("named_capabilities", "instructions"),
        ("skills", "active"),
        ("skills", "catalog"),
        ("subagents", "prepared"),
        ("subagents", "types"),
    }
    capabilities = {(found["plugin"], found["id"]) for found in found.capabilities}
    assert {("guards", "guards"), ("named_capabilities", "named_capabilities.weather")} <= capabilities
    assert {plugin for plugin, _ in capabilities} <= {"deep_core", "pydantic_ai", *found.by_plugin()}  # none is "app"
    assert [(each["plugin"], each["hook"], each["item"]) for each in found.contributions] == [
        ("folders", "deep_subagents", "critic"),
        ("folders", "deep_skill_loaders", "FolderLoader"),
        ("skills", "deep_skill_loaders", "DirectoryLoader"),
        ("skills", "deep_skill_loaders", "DirectoryLoader"),
    ]
    assert "Use tabs." in found.prompt
    assert "reviewing" in found.prompt
    assert found.left_out == ()
    configured = {"ask", "folders", "mcp", "memories", "named_capabilities", "web_tools"}
    assert {plugin for plugin, tokens in found.by_plugin().items() if tokens} >= configured  # guards say nothing yet
