"""The tools `list_mcp_resources` and `read_mcp_resource`, offered while a server has resources."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_ai import ToolDefinition
from pydantic_ai.exceptions import ToolFailed

from .connection import ServerFailed
from .hub import Hub
from .sanitize import clean_text

__all__ = ["RESOURCE_TOOLS", "list_resources", "read_resource"]

_SERVER = {"type": "string", "description": "Name of the MCP server."}
_MARKS = {"tags": ["read", "network"], "source": "deep-mcp-client"}

RESOURCE_TOOLS = [
    ToolDefinition(
        name="list_mcp_resources",
        description="List resources of MCP servers: server, URI, description.",
        parameters_json_schema={
            "type": "object",
            "properties": {"server": {**_SERVER, "description": "Only of this server."}},
            "additionalProperties": False,
        },
        metadata=_MARKS,
    ),
    ToolDefinition(
        name="read_mcp_resource",
        description="Read a resource of an MCP server.",
        parameters_json_schema={
            "type": "object",
            "properties": {"server": _SERVER, "uri": {"type": "string"}},
            "required": ["server", "uri"],
            "additionalProperties": False,
        },
        kind="unapproved",
        metadata=_MARKS,
    ),
]
MOST_RESOURCES = 200
"""Of one answer."""


async def list_resources(hub: Hub, args: dict[str, Any]) -> str:
    """List the resources of every server, or of one. A server that fails is a line of the answer."""
    only = args.get("server")
    names = [name for name, c in hub.connections.items() if c.listing is not None and c.listing.resources]
    if only is not None:
        names = [_server(hub, only)]

    async def of_server(name: str) -> list[str]:
        try:
            found = await hub.worker.run(hub.connections[name].resources())
        except ServerFailed as error:
            return [f"{name}: {error}"]
        lines = [f"{name} {clean_text(uri, 500)}: {clean_text(f'{title}. {what}', 200)}" for uri, title, what in found]
        more = len(lines) - MOST_RESOURCES
        return [*lines[:MOST_RESOURCES], *([f"{name}: {more:,} more are not shown"] if more > 0 else [])]

    listed = await asyncio.gather(*map(of_server, names))
    return "\n".join(line for lines in listed for line in lines) or "No MCP server has resources."


async def read_resource(hub: Hub, args: dict[str, Any]) -> Any:
    """Read one resource.

    Raises:
        ToolFailed: there is no such server.
        ServerFailed: the server failed.
    """
    name, uri = _server(hub, args.get("server")), args.get("uri")
    if not isinstance(uri, str) or not uri:
        raise ToolFailed("uri must be the URI of a resource; list_mcp_resources lists them")
    return await hub.worker.run(hub.connections[name].read_resource(uri))


def _server(hub: Hub, name: object) -> str:
    if isinstance(name, str) and name in hub.connections:
        return name
    raise ToolFailed(f"there is no MCP server {name!r}; there are: {', '.join(hub.connections)}")
