"""Optional abilities of a `SkillLoader`: report problems, and list the names of a skill's resources."""

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
    """Skills and problems of one search."""

    skills: tuple[SkillMeta, ...] = ()
    problems: tuple[Problem, ...] = ()


@runtime_checkable
class ReportsProblems(Protocol):
    """A loader that reports problems of its skills."""

    async def listing(self, ctx: RunContext[Any]) -> Listing:
        """Replaces `list` if it exists."""
        ...


@runtime_checkable
class ListsResources(Protocol):
    """A loader that can list a skill's files."""

    async def resources(self, ctx: RunContext[Any], name: str) -> Sequence[str]:
        """List paths relative to the skill, without SKILL.md. Raises KeyError for an unknown skill."""
        ...
