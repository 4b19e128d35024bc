"""The suite for skill loaders: the directory loader passes, and a careless one fails the right tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from deep_skills import directory_loader
from pytest_deep import SkillLoaderConformance

from deep_core import SkillLoader
from tests.authors_pytest import RunPytest

pytest_plugins = ["pytester"]


class TestDirectories(SkillLoaderConformance):
    resource = ("weather", "cities.txt")

    @pytest.fixture
    def loader(self, tmp_path: Path) -> SkillLoader:
        for name in ("weather", "travel"):
            folder = tmp_path / "skills" / name
            folder.mkdir(parents=True)
            (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: About {name}.\n---\nAsk first.\n")
            (folder / "cities.txt").write_text("Oslo\n")
        return directory_loader(tmp_path / "skills")


AUTHOR = """
import random
import pytest
from deep_core import SkillMeta
from pytest_deep import SkillLoaderConformance

class Careless:
    source = "project"

    def __init__(self, folder):
        self.folder = folder

    async def list(self, ctx):
        names = ["weather", "travel", "music", "cooking", "Not A Name"]
        random.shuffle(names)
        return [SkillMeta(name, f"About {name}.", "project", str(self.folder)) for name in names]

    async def read(self, ctx, name):
        return "---\\nname: x\\n---\\nAsk first."

    async def resource(self, ctx, name, path):
        return (self.folder / path).read_bytes()

class TestCareless(SkillLoaderConformance):
    @pytest.fixture
    def loader(self, tmp_path):
        return Careless(tmp_path)
"""


@pytest.mark.slow
def test_a_careless_loader_is_caught(pytester: pytest.Pytester, run_pytest: RunPytest) -> None:
    pytester.makepyfile(AUTHOR)
    result = run_pytest()
    result.stdout.fnmatch_lines(["*skill 'Not A Name': a name matches*"])
    result.stdout.fnmatch_lines(["*the list changes from call to call: sort it*"])
    result.stdout.fnmatch_lines(["*has the frontmatter; return the text after it*"])
    result.stdout.fnmatch_lines(["*for a skill that is not listed: raise KeyError(name)*"])
    result.stdout.fnmatch_lines(["*'/etc/passwd') gave b'root:*: resolve links and*"])
