"""What the kernel knows of skills: how they are described and where they come from. What they are is `deep-skills`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from pydantic_ai import RunContext

__all__ = ["SkillLoader", "SkillMeta"]


@dataclass(frozen=True)
class SkillMeta:
    """What is known of a skill before it is loaded (agentskills.io frontmatter, and where it was found)."""

    name: str
    description: str
    source: str
    path: str
    license: str | None = None
    compatibility: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    allowed_tools: tuple[str, ...] = ()


@runtime_checkable
class SkillLoader(Protocol):
    """A source of skills. Precedence by `source`: project > user > package."""

    source: str

    async def list(self, ctx: RunContext[Any]) -> Sequence[SkillMeta]:
        """The skills, from frontmatter alone."""
        ...

    async def read(self, ctx: RunContext[Any], name: str) -> str:
        """The instructions of one skill. Raises KeyError for an unknown one."""
        ...

    async def resource(self, ctx: RunContext[Any], name: str, path: str) -> bytes:
        """A file of the skill. Raises KeyError, or FileNotFoundError; never leaves the skill's directory."""
        ...
