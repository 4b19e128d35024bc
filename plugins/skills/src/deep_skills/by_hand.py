"""Skills without an agent: the functions and types known from pydantic-deep, as blocking calls."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypeAlias, TypedDict

from anyio import to_thread

from deep_core import SkillMeta

from .catalog import catalog_text
from .directories import DirectoryLoader
from .discovery import FILE_NAMES, LocatedSkill, find_skills
from .fields import Value, parse_leniently
from .index import SkillIndex
from .options import SkillsOptions
from .problem import Problem
from .record import split_tools
from .resources import clean_path, list_resources, read_resource
from .roots import Root, project_roots, user_roots
from .split import split_either

if TYPE_CHECKING:
    from pydantic_ai import FunctionToolset, RunContext

    from deep_core import DeepAgentDeps

__all__ = [
    "Skill",
    "SkillDirectory",
    "check_skills",
    "create_skills_toolset",
    "discover_skills",
    "get_skills_system_prompt",
    "load_skill_instructions",
    "parse_skill_md",
]

VERSION = "1.0.0"
"""The version of a skill without one, as in pydantic-deep."""


class SkillDirectory(TypedDict):
    """A directory to search; `recursive` (the default) searches nested folders too."""

    path: str | os.PathLike[str]
    recursive: NotRequired[bool]


class Skill(TypedDict):
    """A skill: its frontmatter, and its instructions once loaded."""

    name: str
    description: str
    path: NotRequired[str]
    tags: NotRequired[list[str]]
    version: NotRequired[str]
    author: NotRequired[str]
    frontmatter_loaded: NotRequired[bool]
    instructions: NotRequired[str]
    resources: NotRequired[list[str]]


Directories: TypeAlias = "Sequence[SkillDirectory | str | os.PathLike[str]]"


def _roots(directories: Directories) -> list[Root]:
    roots: list[Root] = []
    for directory in directories:
        if isinstance(directory, str | os.PathLike):
            roots.append(Root(os.fspath(directory)))
        else:
            roots.append(Root(os.fspath(directory["path"]), recursive=directory.get("recursive", True)))
    return roots


def discover_skills(directories: Directories, backend: None = None) -> list[Skill]:
    """Find the skills below some directories, from their frontmatter alone.

    Problems are skipped here; `deep_skills.check_skills` reports them.

    Args:
        directories: paths, or `{"path": …, "recursive": False}`; missing ones are ignored.
        backend: not supported by this blocking function; see `deep_skills.backend_loader`.

    Raises:
        TypeError: a backend was given, which can only be read in a run.
    """
    if backend is not None:
        raise TypeError("discover_skills reads this machine's directories; for a backend: deep_skills.backend_loader")
    scan = find_skills(_roots(directories), "project", strict=False, index=SkillIndex())
    return [_skill(skill) for skill in scan.skills]


def check_skills(directories: Directories, *, strict: bool = False) -> list[Problem]:
    """List all problems of the skills below some directories, one line each (`str(problem)`).

    Args:
        directories: see `discover_skills`.
        strict: check like the standard's reference validator.
    """
    return list(find_skills(_roots(directories), "project", strict=strict, index=SkillIndex()).problems)


def _skill(location: LocatedSkill) -> Skill:
    meta = location.meta
    skill = Skill(
        name=meta.name,
        description=meta.description,
        path=meta.path,
        tags=split_tools(meta.metadata.get("tags", "")),
        version=meta.metadata.get("version", VERSION),
        author=meta.metadata.get("author", ""),
        frontmatter_loaded=True,
    )
    resources = list_resources(location.folder)
    if resources:
        skill["resources"] = resources
    return skill


def parse_skill_md(content: str) -> tuple[dict[str, Any], str]:
    """Parse the fields of a SKILL.md, every scalar as the author's text, and its body.

    Text without frontmatter is all body.

    Raises:
        BadSkill: the frontmatter is not closed, or is not a YAML mapping. A ValueError; its message has the line.
    """
    if not content.lstrip("\ufeff \t\r\n").startswith("---"):
        return {}, content
    text, first, body = split_either(content)
    fields = parse_leniently(text, first)[0].values if text.strip() else {}
    values: dict[str, Value] = {key: "" if value is None else value for key, value in fields.items()}
    return values, body.strip()


def load_skill_instructions(skill_path: str | os.PathLike[str]) -> str:
    """Read the instructions of the skill in a folder (or of a SKILL.md).

    Raises:
        OSError: the file does not exist or cannot be read.
        BadSkill: its frontmatter is not closed, or is not a YAML mapping.
    """
    path = Path(skill_path).expanduser()
    if path.is_dir():
        path = next((path / name for name in FILE_NAMES if (path / name).is_file()), path / FILE_NAMES[0])
    return parse_skill_md(path.read_bytes().decode("utf-8", errors="replace"))[1]


def get_skills_system_prompt(deps: DeepAgentDeps[Any] | None = None, skills: Sequence[Skill] | None = None) -> str:
    """Format the catalog of skills as an agent sees it; "" without skills.

    Args:
        deps: unused; kept for compatibility.
        skills: None for those of the project's and the user's directories.
    """
    if skills is None:
        loaders = (DirectoryLoader("project", project_roots), DirectoryLoader("user", user_roots))
        metas = [each.meta for loader in loaders for each in loader.scan().skills]
    else:
        metas = [_meta(skill) for skill in skills]
    return catalog_text(list({meta.name: meta for meta in reversed(metas)}.values())[::-1], _limit()) or ""


def _limit() -> int:
    return SkillsOptions().catalog_chars


def _meta(skill: Skill) -> SkillMeta:
    tags = ", ".join(skill.get("tags", ()))
    metadata = {"version": skill.get("version", ""), "author": skill.get("author", ""), "tags": tags}
    metadata = {key: value for key, value in metadata.items() if value}
    return SkillMeta(skill["name"], skill["description"], "project", skill.get("path", ""), metadata=metadata)


class _GivenSkills:
    """A loader of skills that the application created or discovered itself."""

    source = "project"

    def __init__(self, skills: Sequence[Skill]) -> None:
        self._skills = {skill["name"]: skill for skill in skills}

    async def list(self, ctx: RunContext[Any]) -> Sequence[SkillMeta]:
        return [_meta(skill) for skill in self._skills.values()]

    async def read(self, ctx: RunContext[Any], name: str) -> str:
        skill = self._skills[name]
        instructions = skill.get("instructions")
        if instructions is not None:
            return instructions
        folder = skill.get("path")
        if not folder:
            raise ValueError(f"skill {name!r} has neither instructions nor a path")
        return await to_thread.run_sync(load_skill_instructions, folder)

    async def resource(self, ctx: RunContext[Any], name: str, path: str) -> bytes:
        folder = self._skills[name].get("path")
        if not folder:
            raise FileNotFoundError(clean_path(path))
        return await to_thread.run_sync(read_resource, folder, path)

    async def resources(self, ctx: RunContext[Any], name: str) -> Sequence[str]:
        folder = self._skills[name].get("path")
        return await to_thread.run_sync(list_resources, folder) if folder else []


def create_skills_toolset(
    *, id: str = "skills", directories: Directories | None = None, skills: Sequence[Skill] | None = None
) -> FunctionToolset[Any]:
    """Create the skill tools for any `pydantic_ai.Agent` with `DeepAgentDeps`.

    Args:
        id: the toolset's id.
        directories: see `discover_skills`. None, without `skills`: the project's and the user's.
        skills: created or discovered beforehand; they take precedence over those of `directories`.
    """
    import logging

    from .toolset import build_toolset

    loaders: list[Any] = [] if skills is None else [_GivenSkills(skills)]
    if directories is not None:
        roots = _roots(directories)
        loaders.append(DirectoryLoader("project", lambda: roots))
    elif skills is None:
        loaders += [DirectoryLoader("project", project_roots), DirectoryLoader("user", user_roots)]
    return build_toolset(lambda: loaders, SkillsOptions(), logger=logging.getLogger("deep.skills"), id=id)
