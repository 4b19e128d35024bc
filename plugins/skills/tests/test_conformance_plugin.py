"""The plugin passes the suite for plugins."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from pytest_deep import PluginConformance


class TestPlugin(PluginConformance):
    plugin = "skills"
    strict_import = True
    examples: ClassVar = {
        "list_skills": {"query": "weather {canary}"},
        "load_skill": {"skill_name": "weather"},
        "read_skill_resource": {"skill_name": "weather", "resource_name": "cities.txt"},
    }

    @pytest.fixture(autouse=True)
    def project(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = tmp_path / "project" / ".deep" / "skills" / "weather"
        folder.mkdir(parents=True)
        (folder / "cities.txt").write_text("Oslo\n", encoding="utf-8")
        text = "---\nname: weather\ndescription: Tomorrow's weather.\n---\nAsk for the city.\n"
        (folder / "SKILL.md").write_text(text, encoding="utf-8")
        monkeypatch.chdir(tmp_path / "project")
