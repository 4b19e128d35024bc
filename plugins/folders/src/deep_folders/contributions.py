"""What folders contribute to other plugins: types of subagents, and MCP servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .environment import NO_BYTE_CODE

if TYPE_CHECKING:
    from deep_mcp import FoundServer
    from deep_subagents import SubAgentConfig

    from .folder import Folder

__all__ = ["servers_of", "types_of"]


def types_of(folders: Sequence[Folder]) -> Iterator[SubAgentConfig]:
    """Yield a type for each agent. Of two with one name, the second gets its folder's name in front."""
    from deep_subagents import SubAgentConfig

    taken: set[str] = set()
    for folder in folders:
        for agent in folder.agents:
            name = agent.name
            if name in taken:
                name = f"{folder.name.replace('.', '-')}-{agent.name}"[:40]
            if name in taken or not name[0].isalpha():
                continue
            taken.add(name)
            tools: str | list[str] | None = [] if agent.tools == "" else agent.tools
            yield SubAgentConfig.model_validate(
                {
                    "name": name,
                    "description": agent.description,
                    "instructions": agent.instructions[:100_000],
                    "tools": tools,
                }
            )


def servers_of(folders: Sequence[Folder]) -> Iterator[FoundServer]:
    """Yield every server, ready or with the reason why it is not."""
    from deep_mcp import FoundServer, read_server

    for folder in folders:
        for server in folder.servers:
            source = f"folder {folder.name}, {folder.source}"
            if folder.blocked:
                yield FoundServer(server.name, source, "blocked", folder.blocked)
                continue
            table = dict(server.table)
            if "command" in table:
                table["env"] = {**table.get("env", {}), **NO_BYTE_CODE}
            found = read_server(server.name, table, source, variables=server.variables)
            if found.status == "ready":
                folder.data.mkdir(parents=True, exist_ok=True)  # the format promises that it exists
            yield found
