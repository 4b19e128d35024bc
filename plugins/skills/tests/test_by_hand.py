"""The names of pydantic-deep, and the README's examples."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deep_skills
import pytest
from deep_skills import (
    Skill,
    SkillDirectory,
    create_skills_toolset,
    discover_skills,
    get_skills_system_prompt,
    load_skill_instructions,
    parse_skill_md,
)
from pydantic_ai import Agent

from deep_core import create_default_deps
from tests import another_process
from tests.stubs import Call, Script, function_model

Write = Callable[..., Path]
README = Path(__file__).parent.parent / "README.md"


def test_discovery_gives_what_the_frontmatter_says(tmp_path: Path, skill: Write) -> None:
    folder = skill(tmp_path, "review", "Reviews.", extra="metadata:\n  version: 1.10\n  author: me\n  tags: a, b\n")
    (folder / "ref").mkdir()
    (folder / "ref/x.md").write_text("x")
    directory: SkillDirectory = {"path": str(tmp_path)}
    assert discover_skills([directory]) == [
        {
            "name": "review",
            "description": "Reviews.",
            "path": str(folder),
            "tags": ["a", "b"],
            "version": "1.10",
            "author": "me",
            "frontmatter_loaded": True,
            "resources": ["ref/x.md"],
        }
    ]
    assert load_skill_instructions(folder) == load_skill_instructions(folder / "SKILL.md") == "Do it."
    assert parse_skill_md((folder / "SKILL.md").read_text())[0]["name"] == "review"
    with pytest.raises(FileNotFoundError):
        load_skill_instructions(tmp_path)
    with pytest.raises(TypeError, match="backend_loader"):
        discover_skills([], backend=object())  # type: ignore[arg-type]


def test_the_prompt_is_the_bounded_catalogue(project: Path, skill: Write) -> None:
    assert get_skills_system_prompt() == ""
    assert get_skills_system_prompt(None, []) == ""
    skill(project / ".deep/skills", "one", "First.")
    assert "- one: First." in get_skills_system_prompt()
    many = [Skill(name=f"s{n}", description="d" * 500) for n in range(500)]
    assert "more: find them with list_skills" in get_skills_system_prompt(None, many)
    assert len(get_skills_system_prompt(None, many)) <= 4_000


@pytest.mark.anyio
async def test_the_toolset_works_in_any_agent(
    project: Path, tmp_path: Path, skill: Write, results: Callable[[list[Any]], list[str]]
) -> None:
    found = skill(tmp_path / "more", "found", body="From a folder.")
    (found / "x.txt").write_text("X")
    skill(project / ".deep/skills", "not-asked-for")
    made = Skill(name="made", description="By the application.", instructions="From memory.")
    toolset = create_skills_toolset(skills=[made, *discover_skills([tmp_path / "more"])], directories=[])
    calls = [
        Call("list_skills"),
        Call("load_skill", {"skill_name": "made"}),
        Call("load_skill", {"skill_name": "found"}),
        Call("read_skill_resource", {"skill_name": "found", "resource_name": "x.txt"}),
        Call("read_skill_resource", {"skill_name": "made", "resource_name": "x.txt"}),
    ]
    agent = Agent(function_model(Script(calls, "done")), toolsets=[toolset], deps_type=object)
    result = await agent.run("go", deps=create_default_deps())
    listed, one, two, resource, missing = results(result.all_messages())
    assert "2 skills:" in listed
    assert "From memory." in one
    assert "From a folder." in two
    assert resource == "X"
    assert "does not exist" in missing


def test_every_public_name_is_exported() -> None:
    assert set(deep_skills.__all__) <= set(dir(deep_skills))
    assert all(getattr(deep_skills, name) is not None for name in deep_skills.__all__)
    with pytest.raises(AttributeError, match="no attribute 'skils'"):
        deep_skills.skils  # type: ignore[attr-defined]  # noqa: B018


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)


@pytest.mark.parametrize("number", range(len(blocks())))
def test_the_readmes_examples_run(number: int, project: Path) -> None:
    (project / "skills").mkdir()
    code = blocks()[number].replace('"anthropic:claude-sonnet-4-5"', '"test"')
    done = another_process.run(f"import warnings\nwarnings.simplefilter('error')\n{code}")
    assert done.returncode == 0, done.stderr
