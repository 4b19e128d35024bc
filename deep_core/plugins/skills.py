"""The kernel's types for skills: metadata and loaders. `deep-skills` implements them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from pydantic_ai import RunContext


@dataclass(frozen=True)
class SkillMeta:
    """A skill's metadata: its agentskills.io frontmatter, and where it was found."""

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
        """Return the skills, reading only frontmatter."""
        ...

    async def read(self, ctx: RunContext[Any], name: str) -> str:
        """Return the instructions of one skill. Raises KeyError for an unknown skill."""
        ...

    async def resource(self, ctx: RunContext[Any], name: str, path: str) -> bytes:
        """Return a file of the skill, never one outside its directory. Raises KeyError or FileNotFoundError."""
        ...
