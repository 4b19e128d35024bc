"""What can be set for skills."""

# No postponed annotations: pydantic would compile and evaluate the text of each while the class is made.
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from deep_core import PluginOptions

__all__ = ["SkillsOptions"]


class SkillsOptions(PluginOptions):
    """Options of the plugin `skills`."""

    directories: Sequence[str | Path] = Field(default=(), json_schema_extra={"trusted": True})
    """More directories of skills, before all others; relative ones are to the working directory. Not taken from a
    project's file: the files of a skill are read without asking, so whoever may name any folder could read it."""
    project: bool = True
    """Look in `.deep/skills`, `.agents/skills` and `.claude/skills` of the working directory."""
    user: bool = True
    """Look in the user's `deep/skills` (configuration directory), `~/.agents/skills` and `~/.claude/skills`."""
    strict: bool = False
    """Leave out every skill that the standard's reference validator refuses, instead of only saying what is wrong."""
    allowed_tools: Literal["ask", "inform"] = Field(default="ask", json_schema_extra={"trusted": True})
    """`ask`: a call that changes something and that no skill in use lists in its allowed-tools needs approval.
    `inform`: the model is told what a skill lists, and nothing more."""
    catalog_chars: int = Field(default=4_000, ge=500, le=7_500)
    """Characters of the catalogue in the conversation; what does not fit is found with `list_skills`."""
    list_chars: int = Field(default=3_000, ge=500, le=20_000)
    """Characters of one answer of `list_skills`."""
    page_chars: int = Field(default=30_000, ge=1_000, le=200_000)
    """Characters of instructions or of a resource that are shown at once; the rest is read with `offset`."""
