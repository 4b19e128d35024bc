"""Pydantic AI's client of one server. Only this module imports the MCP libraries, when a server is first used."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .listing import RawPrompt, RawTool
from .servers import ServerConfig

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.mcp import MCPToolset, Resource, ResourceTemplate

__all__ = ["Client", "is_alive_after"]

CHANGES = ("ToolListChangedNotification", "PromptListChangedNotification")
ANSWERS = (-32601, -32602, -32603)
"""Errors that a server answers with: the request was wrong. After any other, the connection is made anew."""


@contextmanager
def _quiet_import() -> Generator[None]:
    # fastmcp reads `.env` of the current folder, which may be a stranger's, and gives its logger handlers.
    quiet = {"FASTMCP_ENV_FILE": os.devnull, "FASTMCP_LOG_ENABLED": "false"}
    before = {key: os.environ.get(key) for key in quiet}
    if "fastmcp" not in sys.modules:
        os.environ.update({key: value for key, value in quiet.items() if before[key] is None})
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)


class Client:
    """An open connection to one server. Use it in one event loop.

    Args:
        config: how to reach the server, with the values of its variables.
        log: where a program's stderr goes.
        call_timeout: seconds of one request.
        on_change: called when the server says that its tools or prompts are others now.
        auth: logs requests in, for a server at an address.
    """

    def __init__(
        self,
        config: ServerConfig,
        log: Path,
        call_timeout: float,
        on_change: Callable[[], object],
        auth: httpx2.Auth | None = None,
    ) -> None:
        with _quiet_import():
            # First and alone, because it takes long: once `pydantic_ai.mcp` is in sys.modules, each request of Pydantic
            # AI imports it, too, which stops the event loop of that run until this thread has finished the import.
            import fastmcp.client  # noqa: F401  # pyright: ignore[reportUnusedImport]
            from pydantic_ai.mcp import MCPToolset

        self._on_change = on_change
        self._toolset: MCPToolset[Any] = MCPToolset(
            _transport(config, log, auth),
            id=config.name,
            tool_error_behavior="failed",
            cache_tools=False,
            cache_resources=False,
            cache_prompts=False,
            init_timeout=None,  # the connection has a limit of its own, for start and handshake together
            read_timeout=call_timeout,
            message_handler=self._note,
        )

    async def _note(self, message: Any) -> None:
        if type(getattr(message, "root", message)).__name__ in CHANGES:
            self._on_change()

    async def open(self) -> None:
        """Start or reach the server."""
        await self._toolset.__aenter__()

    async def close(self) -> None:
        """End the connection, and the program."""
        await self._toolset.__aexit__(None, None, None)

    @property
    def has_resources(self) -> bool:
        """Whether the server says that it has resources."""
        return self._toolset.capabilities.resources

    async def tools(self) -> list[RawTool]:
        """List the tools that are for models."""
        listed = await self._toolset.list_tools()
        out: list[RawTool] = []
        for tool in listed:
            hints = tool.annotations.model_dump(by_alias=True) if tool.annotations else {}
            data = tool.model_dump(by_alias=True)
            out.append(RawTool(tool.name, tool.description or "", data.get("inputSchema") or {}, hints))
        return out

    async def prompts(self) -> list[RawPrompt]:
        """List the prompts that are for people; none if the server has none."""
        return [
            RawPrompt(
                prompt.name,
                prompt.description or prompt.title or "",
                tuple((argument.name, bool(argument.required)) for argument in prompt.arguments or ()),
            )
            for prompt in await self._toolset.list_prompts()
        ]

    async def prompt(self, name: str, arguments: dict[str, str]) -> list[tuple[str, Any]]:
        """Return the role and the content of each message of a prompt."""
        result = await self._toolset.get_prompt(name, arguments)
        return [(message.role, message.content) for message in result.messages]

    async def call(self, tool: str, args: dict[str, Any]) -> Any:
        """Call a tool by the server's name of it.

        Raises:
            ToolFailed: the tool failed; its message is the server's.
            Exception: the request failed.
        """
        return await self._toolset.direct_call_tool(tool, args)

    async def resources(self) -> tuple[list[Resource], list[ResourceTemplate]]:
        """List resources, and templates of addresses."""
        found = await self._toolset.list_resources()
        try:
            return found, await self._toolset.list_resource_templates()
        except Exception as error:
            if is_alive_after(error):  # many servers have no templates
                return found, []
            raise

    async def read_resource(self, uri: str) -> Any:
        """Read a resource."""
        return await self._toolset.read_resource(uri)


def _transport(config: ServerConfig, log: Path, auth: httpx2.Auth | None) -> Any:
    from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport

    if config.transport == "stdio":
        return StdioTransport(
            config.command, [*config.args], env={**config.env}, cwd=config.cwd, keep_alive=False, log_file=log
        )
    kind = SSETransport if config.transport == "sse" else StreamableHttpTransport
    return kind(config.url, headers={**config.headers}, auth=auth)


def is_alive_after(error: BaseException) -> bool:
    """Whether an error of a request is the server's answer, so that the connection still works."""
    codes = {getattr(link, "code", None) for link in _chain(error)}
    return bool(codes & set(ANSWERS))


def _chain(error: BaseException | None) -> Generator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
