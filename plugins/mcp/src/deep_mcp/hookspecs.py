"""The hook that this plugin owns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from deep_core import hookspec

if TYPE_CHECKING:
    from deep_core import PluginContext

    from .servers import FoundServer

__all__ = ["deep_mcp_servers"]


@hookspec(policy="collect", item="deep_mcp.servers:FoundServer")
def deep_mcp_servers(context: PluginContext) -> Iterable[FoundServer]:  # pyright: ignore[reportReturnType]
    """Add MCP servers.

    Called:
        Once for every agent, and by `deep mcp list`, `test`.

    Result:
        The servers are weaker than those of the user's configuration and files: one of a name that exists is listed as
        shadowed. A server that is not ready is listed with its reason. Their tools ask and are tagged as those of any
        server. If the function raises, the kernel leaves the plugin out of the agent.

    Example:
        from deep_core import hookimpl
        from deep_mcp import read_server

        @hookimpl(of="mcp")
        def deep_mcp_servers(context):
            return [read_server("notes", {"command": "notes-server"}, "the plugin notes")]
    """
