"""The options of the plugin, and those of one entry."""

# No postponed annotations: pydantic would compile and evaluate the text of each at class creation.
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from deep_core import PluginOptions

__all__ = ["PLUGIN", "CapabilitiesOptions", "EntrySettings"]

PLUGIN = "named_capabilities"


class CapabilitiesOptions(PluginOptions):
    """Options of the plugin `named_capabilities`."""

    # Without a `project` mark: an untrusted project's file cannot name code to import. Checked entry by entry, so that
    # one wrong entry does not cost the others.
    entries: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    """Capabilities by a name of your choice: `use`, `options`, `enabled`, `prefix`, `tools`,
    `require_approval`, `defer`, `tags`."""


class EntrySettings(PluginOptions):
    """One capability of the agent."""

    use: str | dict[str, Any]
    """`module:Class`, the name of a class of Pydantic AI or of its harness, or an entry of an agent spec."""
    options: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Arguments of the class."""
    enabled: bool = True
    """False leaves the entry out."""
    prefix: str = Field(default="", pattern=r"^([A-Za-z][A-Za-z0-9_-]*)?$")
    """Goes before the names of its tools, with an underscore."""
    tools: str | None = None
    """A tool expression: the agent has only these of its tools."""
    require_approval: bool | str | None = None
    """True or a tool expression: these of its tools ask. False: none asks by itself."""
    defer: bool | str | None = None
    """True or a tool expression: the model finds these of its tools by tool search."""
    tags: dict[str, list[str]] = Field(default_factory=dict[str, list[str]])
    """Tags of its tools by original name, in place of those that it has."""
