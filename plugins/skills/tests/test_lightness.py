"""The modules that importing and using the plugin loads, in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import deep_skills
import pytest


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_plugin_loads_no_framework() -> None:
    loaded = "import sys; print(*sorted({'pydantic', 'pydantic_ai', 'yaml', 'anyio'} & set(sys.modules)))"
    assert run(f"import deep_skills; deep_skills.__all__; {loaded}") == ""


def test_every_public_name_is_there() -> None:
    assert {*deep_skills.__all__} <= {*dir(deep_skills)}
    assert all(getattr(deep_skills, name) is not None for name in deep_skills.__all__)


@pytest.mark.slow
def test_an_indexed_catalogue_does_not_load_the_yaml_parser(project: Path) -> None:
    folder = project / ".deep/skills/one"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: one\ndescription: d\n---\nx")
    code = """
import sys
from pathlib import Path
from deep_skills.directories import DirectoryLoader
from deep_skills.index import SkillIndex
from deep_skills.roots import project_roots
cache = Path("cache"); cache.mkdir(exist_ok=True)
scan = DirectoryLoader("project", project_roots, index=SkillIndex(lambda: cache)).scan()
print([found.meta.name for found in scan.skills], "yaml" in sys.modules)
"""
    assert run(code) == "['one'] True"
    assert run(code) == "['one'] False"
