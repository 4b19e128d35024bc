"""The tools of MCP servers for deep agents, under the agent's policy.

Importing this module loads neither pydantic nor Pydantic AI. The MCP libraries load when a server is first used.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from deep_sessions import ChatCommand
    from pydantic_ai.toolsets import AbstractToolset

    from deep_core import AgentContext, PluginContext, StateSlot

    from .options import McpOptions
    from .places import read_mcp_file
    from .servers import FoundServer, ServerConfig, find_servers, read_server

__all__ = ["FoundServer", "McpOptions", "ServerConfig", "find_servers", "read_mcp_file", "read_server"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "options": ["McpOptions"],
        "places": ["read_mcp_file"],
        "servers": ["FoundServer", "ServerConfig", "find_servers", "read_server"],
    },
)


@hookimpl
def deep_hookspecs() -> list[ModuleType]:
    """Add the hook `deep_mcp_servers`, through which other plugins bring servers."""
    from . import hookspecs

    return [hookspecs]


@hookimpl
def deep_options() -> type[McpOptions]:
    """Return the options of this plugin."""
    from .options import McpOptions

    return McpOptions


@hookimpl
def deep_state() -> list[StateSlot[Any]]:
    """Add which tools a conversation has used."""
    from .slot import USED

    return [USED]


@hookimpl
def deep_toolsets(context: AgentContext) -> list[AbstractToolset[Any]]:
    """Add the tools of the configured servers; nothing if none is configured."""
    from .options import McpOptions
    from .places import find_files

    options = context.options(McpOptions)
    files = find_files() if options.files else []
    contributed = [item.value for item in context.collect("deep_mcp_servers")]
    if not options.servers and not files and not contributed:
        return []
    from .kernels import hub_of
    from .servers import find_servers

    hub = hub_of(context, find_servers(options.servers, files, contributed), options)
    if not hub.connections:
        return []
    from .toolset import McpToolset

    return [McpToolset(hub, options)]


@hookimpl(of="sessions")
def deep_chat_commands(context: PluginContext) -> list[ChatCommand]:
    """Add the prompts of the servers that the kernel's agents use."""
    from .kernels import hubs_of

    if not (hubs := hubs_of(context.kernel)):
        return []
    from .prompts import commands_of

    return commands_of(hubs)
