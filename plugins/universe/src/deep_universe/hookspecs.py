"""The hooks that this plugin owns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deep_core import hookspec

if TYPE_CHECKING:
    from deep_core import PluginContext

    from .driver import ToolDriver

__all__ = ["deep_tool_drivers"]


@hookspec(policy="collect", item="deep_universe:ToolDriver")
def deep_tool_drivers(context: PluginContext) -> Sequence[ToolDriver]:  # pyright: ignore[reportReturnType]
    """Add drivers: the wire formats of models that a universe renders for and parses.

    Called:
        Once for each `drivers_of(kernel)`, `Universe.from_agent` and `deep tools` command.

    Result:
        A universe can render for these models and execute their answers. Two plugins with one driver name are an error
        that names both. A plugin that raises, or returns a wrong type, is left out.

    Example:
        from deep_core import hookimpl

        @hookimpl(of="universe")
        def deep_tool_drivers(context):
            from acme_drivers import AcmeDriver

            return [AcmeDriver()]
    """
