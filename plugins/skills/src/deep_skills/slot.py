"""What a session knows of skills: which are in use, and what it was told there are."""

from __future__ import annotations

from dataclasses import dataclass

from deep_core import StateSlot

__all__ = ["CATALOG", "SKILLS", "ActiveSkill", "CatalogSeen"]


@dataclass
class ActiveSkill:
    """A skill that the session's model has loaded.

    Attributes:
        name: of the skill.
        source: where it came from: `project`, `user`, `package`.
        path: its folder.
        digest: SHA-256 of its instructions as they were loaded.
        instructions: their beginning, said again after a compaction.
        allowed_tools: what its frontmatter lists.
        call_id: of the `load_skill` call whose result has the instructions.
        run_id: of the run that loaded it.
        narrows: whether its `allowed_tools` still decide which calls ask: until the user's next message.
    """

    name: str
    source: str
    path: str
    digest: str
    instructions: str
    allowed_tools: tuple[str, ...]
    call_id: str
    run_id: str
    narrows: bool = True


@dataclass
class CatalogSeen:
    """The catalogue of one run: read at its first request."""

    run_id: str | None = None
    text: str | None = None


def _none_active() -> dict[str, ActiveSkill]:
    return {}


SKILLS: StateSlot[dict[str, ActiveSkill]] = StateSlot("skills", dict[str, ActiveSkill], _none_active, child="fresh")
"""The skills in use, by name. A subagent starts with none: its instructions are its own."""

CATALOG: StateSlot[CatalogSeen] = StateSlot("skills_catalog", CatalogSeen, CatalogSeen, child="fresh", persist=False)
"""Made again from the files, so not stored."""
