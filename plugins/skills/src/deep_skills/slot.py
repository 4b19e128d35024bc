"""The session's record of skills: those in use, and the catalog that the model saw."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deep_core import StateSlot

if TYPE_CHECKING:
    from .active import ActiveSkill

__all__ = ["CATALOG", "SKILLS", "CatalogSeen"]


class CatalogSeen(NamedTuple):
    """The catalog of one run, read at its first request."""

    run_id: str | None = None
    text: str | None = None


def _active() -> type[dict[str, ActiveSkill]]:
    from .active import ActiveSkill

    return dict[str, ActiveSkill]


def _none_active() -> dict[str, ActiveSkill]:
    return {}


SKILLS: StateSlot[dict[str, ActiveSkill]] = StateSlot("skills", _active, _none_active, child="fresh")
"""The skills in use, by name. A subagent starts with none."""

CATALOG: StateSlot[CatalogSeen] = StateSlot("skills_catalog", CatalogSeen, CatalogSeen, child="fresh", persist=False)
"""Read again from the files, so not stored."""
