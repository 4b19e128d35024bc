"""The hooks of the plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_core import hookimpl

if TYPE_CHECKING:
    from pydantic_ai.capabilities import AbstractCapability

    from deep_core import AgentContext

    from .options import CapabilitiesOptions

__all__ = ["deep_capabilities", "deep_options"]


@hookimpl
def deep_options() -> type[CapabilitiesOptions]:
    """Return the options of this plugin."""
    from .options import CapabilitiesOptions

    return CapabilitiesOptions


@hookimpl
def deep_capabilities(context: AgentContext) -> list[AbstractCapability[Any]]:
    """Add the capabilities that the configuration names; nothing if it names none."""
    from .options import CapabilitiesOptions

    options = context.options(CapabilitiesOptions)
    if not options.entries:
        return []
    from .agents import add_entries

    return add_entries(context, options)
