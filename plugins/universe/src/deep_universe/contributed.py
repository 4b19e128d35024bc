"""The drivers that an application has: those of this package and of the kernel's plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .driver import ToolDriver
from .drivers import default_drivers

if TYPE_CHECKING:
    from deep_core import PluginKernel

__all__ = ["drivers_of"]


def drivers_of(kernel: PluginKernel) -> list[ToolDriver]:
    """Return this package's drivers, then those that plugins add with the hook `deep_tool_drivers`.

    The hook has no effect in a kernel in which the plugin `universe` is not active.

    Raises:
        PluginError: two drivers have one name; the message names both plugins.
    """
    own = default_drivers()
    if "deep_tool_drivers" not in kernel.caller.registry.hooks:
        return own
    found = kernel.caller.collect(
        "deep_tool_drivers",
        lambda plugin: {"context": kernel.context(plugin)},
        among=kernel.active,
        drop=kernel.leave_out,
    )
    kernel.check_unique(
        "tool driver",
        [*((driver.name, "universe") for driver in own), *((item.value.name, item.plugin) for item in found)],
    )
    return [*own, *(item.value for item in found)]
