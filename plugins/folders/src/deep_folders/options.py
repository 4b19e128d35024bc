"""The options of folders, and of the project's instructions."""

# No postponed annotations: pydantic would compile and evaluate the text of each at class creation.
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field, StringConstraints

from deep_core import PluginOptions

__all__ = ["FoldersOptions"]

VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\*?$")]
FileName = Annotated[str, StringConstraints(pattern=r"^[^/\\\x00]{1,100}$")]


class FoldersOptions(PluginOptions):
    """Options of the plugin `folders`."""

    names: Sequence[FileName] = Field(
        default=("AGENTS.md", "CLAUDE.md", "GEMINI.md"), json_schema_extra={"project": "subset"}
    )
    """File names to look for in a folder; the first that exists counts. An empty list turns the section off."""
    nested: bool = Field(default=True, json_schema_extra={"project": "off"})
    """Also read the files of folders below the workspace, once the agent works there."""
    above: bool = False
    """For workspaces that are a directory of this machine: also read the files of the folders above it, up to the one
    with `.git`, although the model's tools cannot reach them."""
    max_chars: int = Field(default=6_000, ge=500, le=7_500, json_schema_extra={"project": "lower"})
    """Maximum characters of the section; beyond it the files farthest from the work are cut first."""
    added: bool = Field(default=True, json_schema_extra={"project": "off"})
    """Use the folders that `deep folders add` added."""
    installed: bool = Field(default=True, json_schema_extra={"project": "off"})
    """Use the skills and MCP servers of installed distributions with an `agent_plugins.json`."""
    paths: tuple[str, ...] = ()
    """More folders, used where they are. Their programs do not start: their content is not pinned."""
    output_style: str = ""
    """The output style of a folder that the agent follows, as `folder:style`. Default: one that its folder imposes."""
    hook_env: Mapping[str, Sequence[VariableName]] = Field(default_factory=dict[str, Sequence[str]])
    """Folder -> more variables that its hooks get. `SG_*` is all that begin so, but possible secrets: they need their
    whole name."""
