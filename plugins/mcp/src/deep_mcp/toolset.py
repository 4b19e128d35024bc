"""The tools of all servers as one toolset."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic_ai import RunContext, ToolDefinition
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.toolsets import AbstractToolset
from pydantic_ai.toolsets.abstract import ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from deep_core import DeepAgentDeps
from deep_core.plugin_api import RESERVED_TOOL_NAMES

from .budget import searched
from .connection import Connection, ServerFailed
from .contents import Parts
from .hub import Hub
from .listing import ListedTool
from .resources import RESOURCE_TOOLS, list_resources, read_resource
from .results import bound_result, read_files
from .sanitize import clean_name, hashed_name
from .slot import USED

if TYPE_CHECKING:
    from .options import McpOptions

__all__ = ["McpToolset"]

CHANGED = "it is not the tool that was trusted: deep mcp test {} shows it, and with --accept trusts it"
_ARGS = SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))
"""The server checks a call's arguments."""


@dataclass(frozen=True)
class _Offered:
    """A tool as the model sees it, and where its calls go."""

    server: str
    tool: ListedTool
    definition: ToolDefinition


class McpToolset(AbstractToolset[Any]):
    """The tools of a kernel's servers. Entering it starts nothing: servers outlive runs."""

    def __init__(self, hub: Hub, options: McpOptions) -> None:
        self.hub, self._options = hub, options
        self._cached: tuple[tuple[object, ...], dict[str, _Offered]] = ((), {})

    @property
    def id(self) -> str:
        """`mcp`."""
        return "mcp"

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """List the tools of every server that has listed them."""
        await self.hub.known()
        used = _used(ctx)
        definitions = [
            replace(each.definition, defer_loading=False)
            if each.definition.defer_loading and used.get(name, ctx.run_id) != ctx.run_id
            else each.definition
            for name, each in self._offered().items()
        ]
        if any(c.listing is not None and c.listing.resources for c in self.hub.connections.values()):
            definitions += RESOURCE_TOOLS
        return {
            d.name: ToolsetTool[Any](toolset=self, tool_def=d, max_retries=ctx.max_retries, args_validator=_ARGS)
            for d in definitions
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Call the server's tool. A server that fails is a failed result.

        Raises:
            ToolFailed: the server or its tool failed.
        """
        try:
            if name in (definition.name for definition in RESOURCE_TOOLS):
                run = list_resources if name == RESOURCE_TOOLS[0].name else read_resource
                found = await run(self.hub, tool_args)
                return await self._shown([found] if isinstance(found, str) else found)
            offered = self._offered().get(name)
            if offered is None:
                raise ToolFailed(f"no MCP server offers {name} any more; nothing was called")
            _used(ctx).setdefault(name, ctx.run_id or "")
            # The definition that the model saw; the server may have changed it since.
            seen = (tool.tool_def.metadata or {}).get("listed")
            result = await self.hub.call(
                offered.server, seen if isinstance(seen, ListedTool) else offered.tool, tool_args
            )
        except ServerFailed as error:
            raise ToolFailed(str(error)) from error
        return await self._shown(result)

    async def _shown(self, parts: Parts) -> Any:
        chars = self._options.result_chars
        return bound_result(await read_files(parts, chars), chars)

    def _offered(self) -> dict[str, _Offered]:
        connections = self.hub.connections
        key = tuple((c.listing, c.changed) for c in connections.values())
        if self._cached[0] != key:
            offered: dict[str, _Offered] = {}
            listings = [(name, c.listing) for name, c in connections.items() if c.listing is not None]
            later = searched(listings, self._options.tool_tokens, self._options.defer_above)
            for name, connection in connections.items():
                for one in self._of_server(connection, deferred=name in later):
                    self._add(offered, one)
            self._cached = (key, offered)
        return self._cached[1]

    def _add(self, offered: dict[str, _Offered], one: _Offered) -> None:
        name = one.definition.name
        if name in offered or name in RESERVED_TOOL_NAMES or name in (tool.name for tool in RESOURCE_TOOLS):
            # Both are offered: `a_b` of the server `x` and `b` of `x_a` are two tools.
            name = hashed_name(name, f"{one.server}/{one.tool.original}")
            one = replace(one, definition=replace(one.definition, name=name))
        offered[name] = one

    def _of_server(self, connection: Connection, *, deferred: bool) -> list[_Offered]:
        if connection.listing is None:
            return []
        config, options = connection.config, self._options
        prefixed = options.prefix if config.prefix is None else config.prefix
        trusted = options.trust_annotations if config.trust_annotations is None else config.trust_annotations
        source = next(found.source for found in self.hub.found if found.config is config)
        out: list[_Offered] = []
        for tool in connection.listing.tools:
            asks = not trusted or tool.name in connection.changed or not is_harmless(tool)
            definition = ToolDefinition(
                name=clean_name(f"{config.name}_{tool.name}") if prefixed else tool.name,
                description=tool.description,
                parameters_json_schema=tool.schema,
                # The kernel gates a tool of this kind, and sends it as a function.
                kind="unapproved" if asks else "function",
                defer_loading=deferred,
                metadata={
                    "tags": tags_of(tool, trusted=trusted),
                    "source": f"MCP server {config.name} ({source})",
                    "listed": tool,
                    "identity": config.digest,
                    "changed": CHANGED.format(config.name) if tool.name in connection.changed else "",
                },
            )
            out.append(_Offered(config.name, tool, definition))
        return out


def _used(ctx: RunContext[Any]) -> dict[str, str]:
    deps: object = ctx.deps
    return deps.state[USED] if isinstance(deps, DeepAgentDeps) else {}


def is_harmless(tool: ListedTool) -> bool:
    """Whether the server says that a tool only reads, or that it destroys nothing."""
    return tool.hints.get("readOnlyHint") is True or tool.hints.get("destructiveHint") is False


def tags_of(tool: ListedTool, *, trusted: bool) -> list[str]:
    """Return the standard tags of a tool. What only makes policy stricter is believed of every server."""
    tags = ["read"] if trusted and tool.hints.get("readOnlyHint") else ["write"]
    if tool.hints.get("openWorldHint"):
        tags.append("network")
    if tool.hints.get("destructiveHint") and "read" not in tags:
        tags.append("destructive")
    return tags
