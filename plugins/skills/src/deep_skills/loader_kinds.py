"""What a loader may offer beyond `SkillLoader`: its problems, and the names of a skill's resources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from pydantic_ai import RunContext

    from deep_core import SkillMeta

    from .problem import Problem

__all__ = ["Listing", "ListsResources", "ReportsProblems"]


@dataclass(frozen=True)
class Listing:
    """Skills and what was wrong, from one and the same search."""

    skills: tuple[SkillMeta, ...] = ()
    problems: tuple[Problem, ...] = ()


@runtime_checkable
class ReportsProblems(Protocol):
    """A loader that tells what is wrong with the skills it found."""

    async def listing(self, ctx: RunContext[Any]) -> Listing:
        """Used instead of `list` where there is one."""
        ...


@runtime_checkable
class ListsResources(Protocol):
    """A loader that can name a skill's files."""

    async def resources(self, ctx: RunContext[Any], name: str) -> Sequence[str]:
        """Paths relative to the skill, SKILL.md left out. Raises KeyError for an unknown skill."""
        ...
