"""The options of the plugin."""

# No postponed annotations: pydantic would compile and evaluate the text of each at class creation.
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from deep_core import PluginOptions

__all__ = ["SkillsOptions"]


class SkillsOptions(PluginOptions):
    """Options of the plugin `skills`."""

    from_list: ClassVar[str] = "directories"

    directories: Sequence[str | Path] = ()
    """More directories of skills, before all others, relative to the working directory. Never from a
    project's file: files of a skill are read without approval, so the option could open any folder."""
    project: bool = Field(default=True, json_schema_extra={"project": "off"})
    """Search `.deep/skills`, `.agents/skills` and `.claude/skills` of the working directory."""
    user: bool = Field(default=True, json_schema_extra={"project": "off"})
    """Search the user's `deep/skills` (configuration directory), `~/.agents/skills` and `~/.claude/skills`."""
    strict: bool = Field(default=False, json_schema_extra={"project": "on"})
    """Skip skills that the standard's reference validator rejects, instead of only reporting problems."""
    allowed_tools: Literal["ask", "inform"] = "ask"
    """`ask`: a call that changes something needs approval unless a skill in use lists it in its allowed-tools.
    `inform`: the model only sees the list."""
    catalog_chars: int = Field(default=4_000, ge=500, le=7_500, json_schema_extra={"project": "lower"})
    """Maximum characters of the catalog in the conversation; `list_skills` finds the rest."""
    list_chars: int = Field(default=3_000, ge=500, le=20_000, json_schema_extra={"project": "lower"})
    """Maximum characters of an answer of `list_skills`."""
    page_chars: int = Field(default=30_000, ge=1_000, le=200_000, json_schema_extra={"project": "lower"})
    """Maximum characters of instructions or of a resource shown at once; `offset` reads the rest."""
