"""Options of plugins in a project's file that is not trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deep_core.plugin_api import ConfigLayer

__all__ = ["plugin_options"]


def plugin_options(layer: ConfigLayer) -> list[str]:
    """Return the options of plugins that an untrusted layer sets. At most they narrow; only the plugin knows which."""
    tables = ((name, part) for name, part in layer.data.get("plugins", {}).items() if name != "require")
    return [f"plugins.{name}.options.{option}" for name, part in tables for option in part.get("options", {})]
