"""The conformance suite for skill loaders: listed skills can be read, and nothing else."""

# A test suite: its checks are assertions.
# ruff: noqa: S101

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Sequence
from typing import Any, ClassVar, TypeVar

import pytest
from pydantic_ai import RunContext
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage

from deep_core import SkillLoader, SkillMeta, create_default_deps

__all__ = ["SkillLoaderConformance"]

T = TypeVar("T")

NAME = re.compile(r"^[a-z0-9]+(-[a-z0-9]+)*$")
"""A skill's name by agentskills.io; at most 64 characters."""
SOURCES = ("project", "user", "package")
OUT = (
    *("../../../../etc/passwd", "/etc/passwd", "..", ".", "", "a/../../other/SKILL.md", "..\\..\\secret", "C:/secret"),
    *("a\0b", "file:///etc/passwd", "//etc/passwd", "./.././../secret"),
)
"""Paths that are not resources: they lead out of a skill, or to no file."""


class SkillLoaderConformance:
    """Subclass it in a test module and define the fixture `loader`, with at least one skill:

        class TestMyLoader(SkillLoaderConformance):
            @pytest.fixture
            def loader(self, tmp_path):
                return MyLoader(...)

    Attributes:
        resource: (skill, path) of an existing resource; None if no skill has one.
        max_skill_chars: limit of one skill's instructions.
    """

    resource: ClassVar[tuple[str, str] | None] = None
    max_skill_chars: ClassVar[int] = 100_000

    @pytest.fixture
    def loader(self) -> SkillLoader:
        """The loader under test."""
        raise NotImplementedError("define the fixture `loader`")

    @pytest.fixture
    def ctx(self) -> RunContext[Any]:
        """The context for the loader. Override it for a loader that needs a special session."""
        return RunContext(deps=create_default_deps(), model=TestModel(), usage=RunUsage())

    @pytest.fixture
    def skills(self, loader: SkillLoader, ctx: RunContext[Any]) -> Sequence[SkillMeta]:
        """The skills that the loader lists."""
        listed = _run(loader.list(ctx))
        assert listed, "the loader lists no skill: add one in the fixture `loader`"
        return listed

    def test_is_a_skill_loader(self, loader: SkillLoader) -> None:
        """It has `source`, `list`, `read` and `resource`."""
        assert isinstance(loader, SkillLoader), "a loader has source, list, read and resource (deep_core.SkillLoader)"
        assert loader.source in SOURCES, (
            f"source is one of {SOURCES}, not {loader.source!r}: it determines the precedence of skills"
        )

    def test_metadata_is_valid(self, skills: Sequence[SkillMeta], loader: SkillLoader) -> None:
        """Names, descriptions and sources are valid for agentskills.io and deep."""
        names = [skill.name for skill in skills]
        assert sorted(set(names)) == sorted(names), f"a name is listed twice: {names}; list only the one that is used"
        for skill in skills:
            assert isinstance(skill, SkillMeta), f"list() returns SkillMeta, not {type(skill).__name__}"
            assert NAME.fullmatch(skill.name), f"skill {skill.name!r}: a name matches {NAME.pattern}"
            assert len(skill.name) <= 64, f"skill {skill.name!r}: a name has at most 64 characters"
            assert skill.description.strip(), f"skill {skill.name!r}: the model chooses by the description; write one"
            assert len(skill.description) <= 1024, f"skill {skill.name!r}: a description has at most 1024 characters"
            assert skill.source == loader.source, f"skill {skill.name!r}: its source is its loader's, {loader.source!r}"
            assert skill.path, f"skill {skill.name!r}: set path to its location, for users and messages"

    def test_listing_is_stable(self, loader: SkillLoader, ctx: RunContext[Any], skills: Sequence[SkillMeta]) -> None:
        """Two listings agree, in order too; also two in parallel."""

        async def twice() -> tuple[Sequence[SkillMeta], Sequence[SkillMeta]]:
            return await asyncio.gather(loader.list(ctx), loader.list(ctx))

        for again in _run(twice()):
            assert list(again) == list(skills), "the list changes from call to call: sort it"

    def test_instructions_can_be_read(
        self, loader: SkillLoader, ctx: RunContext[Any], skills: Sequence[SkillMeta]
    ) -> None:
        """Every listed skill has instructions, without frontmatter, within a limit."""
        for skill in skills:
            text = _run(loader.read(ctx, skill.name))
            assert isinstance(text, str), f"read({skill.name!r}) returns text, not {type(text).__name__}"
            assert text.strip(), f"read({skill.name!r}) is empty: do not list a skill without instructions"
            assert not text.startswith("---\n"), f"read({skill.name!r}) has the frontmatter; return the text after it"
            assert len(text) <= self.max_skill_chars, (
                f"read({skill.name!r}) has {len(text)} characters; the limit is {self.max_skill_chars} "
                "(max_skill_chars): move parts into resources"
            )

    @pytest.mark.parametrize("name", ["no-such-skill", "", "..", "../other", "/etc", "a/b", "*"])
    def test_unknown_names_raise_key_error(self, loader: SkillLoader, ctx: RunContext[Any], name: str) -> None:
        """An unlisted skill raises KeyError, so that the model gets the list of skills."""
        for what, call in (("read", loader.read(ctx, name)), ("resource", loader.resource(ctx, name, "SKILL.md"))):
            outcome = _outcome(call)
            assert isinstance(outcome, KeyError), (
                f"{what}({name!r}) gave {outcome!r:.80} for a skill that is not listed: raise KeyError(name)"
            )

    def test_a_resource_can_be_read(self, loader: SkillLoader, ctx: RunContext[Any]) -> None:
        """A resource is bytes."""
        if self.resource is None:
            pytest.skip("no resource is set: resource = (skill, path)")
        data = _run(loader.resource(ctx, *self.resource))
        assert isinstance(data, bytes), f"resource() returns bytes, not {type(data).__name__}"

    def test_a_missing_resource_is_file_not_found(
        self, loader: SkillLoader, ctx: RunContext[Any], skills: Sequence[SkillMeta]
    ) -> None:
        """A missing file raises FileNotFoundError (or KeyError, as for an unknown skill)."""
        outcome = _outcome(loader.resource(ctx, skills[0].name, "no/such/file.txt"))
        assert isinstance(outcome, FileNotFoundError | KeyError), (
            f"a missing resource gave {outcome!r:.80}: raise FileNotFoundError"
        )

    @pytest.mark.parametrize("path", OUT)
    def test_resources_never_leave_the_skill(
        self, loader: SkillLoader, ctx: RunContext[Any], skills: Sequence[SkillMeta], path: str
    ) -> None:
        """A path that leads out of the skill, or is not a file, raises."""
        for skill in skills:
            outcome = _outcome(loader.resource(ctx, skill.name, path))
            assert isinstance(outcome, OSError | ValueError | KeyError), (
                f"resource({skill.name!r}, {path!r}) gave {outcome!r:.80}: resolve links and `..` first, and reject "
                "paths outside of the skill's folder"
            )


def _outcome(call: Coroutine[Any, Any, object]) -> object:
    """The result of a call, or its exception."""
    try:
        return _run(call)
    except Exception as error:  # noqa: BLE001 - the test checks which one
        return error


def _run(call: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(call)
