"""The seven tools, as the model sees them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import WithJsonSchema
from pydantic_ai import FunctionToolset, RunContext, Tool
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.workspaces import SupportsCommands

from .options import FilesystemOptions
from .schemas import RESULT, SCHEMAS, validator

if TYPE_CHECKING:
    from .operations import Operations

__all__ = ["FileTools", "build_toolset", "create_filesystem_toolset"]


class FileTools:
    """The tools' signatures; `operations.py` does the work.

    Holds options only: what a session saw is in its state. A changed signature is changed in `schemas.py` too.
    """

    def __init__(self, options: FilesystemOptions) -> None:
        self.options = options

    @cached_property
    def _operations(self) -> Operations:
        from .operations import Operations

        return Operations(self.options)

    async def ls(self, ctx: RunContext[Any], path: str = ".") -> str:
        """List a directory: directories first, then files with their size."""
        return await self._operations.ls(ctx, path)

    async def read_file(
        self, ctx: RunContext[Any], path: str, offset: int = 0, limit: int = 2000, byte: int = 0
    ) -> str:
        """Read a page of a file."""
        return await self._operations.read_file(ctx, path, offset, limit, byte)

    async def write_file(self, ctx: RunContext[Any], path: str, content: str) -> str:
        """Create or replace a file."""
        return await self._operations.write_file(ctx, path, content)

    async def edit_file(
        self, ctx: RunContext[Any], path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> str:
        """Replace a text in a file."""
        return await self._operations.edit_file(ctx, path, old_string, new_string, replace_all)

    async def glob(self, ctx: RunContext[Any], pattern: str, path: str = ".") -> str:
        """Find files by name."""
        return await self._operations.glob(ctx, pattern, path)

    async def grep(
        self,
        ctx: RunContext[Any],
        pattern: str,
        path: str = ".",
        glob: Annotated[str | None, WithJsonSchema({"type": "string"})] = None,
        output_mode: Literal["files_with_matches", "content", "count"] = "files_with_matches",
    ) -> str:
        """Search in files."""
        return await self._operations.grep(ctx, pattern, path, glob, output_mode)

    async def execute(self, ctx: RunContext[Any], command: str, timeout: int = 120) -> str:  # noqa: ASYNC109
        """Run a shell command."""
        return await self._operations.execute(ctx, command, timeout)


def build_toolset(options: FilesystemOptions, *, id: str = "filesystem") -> FunctionToolset[Any]:
    """The toolset for these options.

    Every tool carries its tags in `metadata["tags"]`. `execute` has all that a command can do, so that no expression
    that leaves out `write` or `network` lets it in.
    """
    tools = FileTools(options)
    ask = options.require_write_approval
    read, write = ["read"], ["write"]
    offered = [
        _tool(tools.ls, "List a directory.", read),
        _tool(
            tools.read_file,
            "Read numbered lines, after `offset` skipped ones; `byte` reads on inside a long line.",
            read,
        ),
        _tool(tools.write_file, "Create a file, or replace one you have read in full.", write, ask=ask),
        _tool(
            tools.edit_file,
            "Replace old_string (exact, unique, no line numbers) in a file you have read.",
            write,
            ask=ask,
        ),
        _tool(tools.glob, "Find files. *.py: in path itself; **/*.py: at any depth.", read),
        _tool(tools.grep, "Search lines by regex. glob: only such files, e.g. *.py", read),
    ]
    if options.include_execute:
        execute = _tool(
            tools.execute,
            "Run a shell command (timeout: seconds).",
            ["execute", "write", "network", "destructive"],
            ask=options.require_execute_approval,
        )
        execute.prepare = _where_commands_run
        offered.append(execute)
    return FunctionToolset(offered, id=id)


def _tool(
    function: Callable[..., Awaitable[str]], description: str, tags: list[str], *, ask: bool = False
) -> Tool[Any]:
    name = function.__name__
    tool = Tool[Any].from_schema(function, name, description, SCHEMAS[name], takes_ctx=True)
    tool.function_schema.validator = validator(name)
    tool.function_schema.return_schema = RESULT
    # The tag `execute` asks by itself, unless its tool says that it does not.
    tool.metadata = {"tags": tags, "asks": ask} if "execute" in tags else {"tags": tags}
    tool.requires_approval = ask
    return tool


def create_filesystem_toolset(
    id: str | None = None,
    include_execute: bool = True,
    require_write_approval: bool = False,
    require_execute_approval: bool = True,
) -> FunctionToolset[Any]:
    """The file tools for any `pydantic_ai.Agent` whose deps are `DeepAgentDeps` and that has a workspace.

    Args:
        id: of the toolset; `filesystem` by default.
        include_execute: offer `execute` where the workspace runs commands.
        require_write_approval: `write_file` and `edit_file` ask first.
        require_execute_approval: `execute` asks first.
    """
    options = FilesystemOptions(
        include_execute=include_execute,
        require_write_approval=require_write_approval,
        require_execute_approval=require_execute_approval,
    )
    return build_toolset(options, id=id or "filesystem")


async def _where_commands_run(ctx: RunContext[Any], tool: ToolDefinition) -> ToolDefinition | None:
    workspace = ctx.workspace
    if not workspace.attached:
        return tool  # nothing is known yet, as when the agent is only looked at
    return tool if isinstance(workspace.backend, SupportsCommands) and not workspace.read_only else None
