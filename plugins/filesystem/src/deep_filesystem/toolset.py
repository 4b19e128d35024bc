"""The seven tools for the model, and three for background commands."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic_ai import FunctionToolset, RunContext, Tool
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.workspaces import SupportsCommands

from deep_core import SessionStates
from deep_core.plugin_api import OfferedWhile

from .options import FilesystemOptions
from .schemas import RESULTS, SCHEMAS, validator
from .slot import COMMANDS

if TYPE_CHECKING:
    from .operations import Operations

__all__ = ["build_toolset", "create_filesystem_toolset"]

COMMAND = ["execute", "write", "network", "destructive"]
"""The tags of everything that a command can do."""


def build_toolset(options: FilesystemOptions, *, id: str = "filesystem") -> FunctionToolset[Any]:
    """Build the toolset for these options.

    Every tool has its tags in `metadata["tags"]`. `execute` and `send_input` have the tags of everything a command can
    do, so that no expression that excludes `write` or `network` includes them.
    """

    sessions = SessionStates()

    @cache
    def operations() -> Operations:
        from .operations import Operations  # at the first call of a tool

        return Operations(options, sessions)

    ask = options.require_write_approval
    read, write = ["read"], ["write"]
    offered = [
        _tool(operations, "ls", "List a directory.", read),
        _tool(
            operations,
            "read_file",
            "Read numbered lines (PDF: pages) after `offset`, or a picture; `byte`: on inside a line.",
            read,
        ),
        _tool(operations, "write_file", "Create a file, or replace one read whole.", write, ask=ask),
        _tool(
            operations,
            "edit_file",
            "Replace old_string (exact, unique, no line numbers) in a file you have read.",
            write,
            ask=ask,
        ),
        _tool(operations, "glob", "Find files (x/: directories). *.py: in path; **/*.py: any depth.", read),
        _tool(operations, "grep", "Search lines by regex. glob: only such files, as *.py", read),
    ]
    if options.include_execute:
        execute = _tool(
            operations,
            "execute",
            "Run a shell command (timeout: seconds; background: it stays).",
            COMMAND,
            ask=options.require_execute_approval,
        )
        execute.prepare = _where_commands_run
        offered += [execute, *_background(operations, options, sessions)]
    return FunctionToolset(offered, id=id)


def _background(
    operations: Callable[[], Operations], options: FilesystemOptions, sessions: SessionStates
) -> list[Tool[Any]]:
    """Build the tools for commands that stay, which sessions are offered that have, or had, such a command."""

    def there_are_any(ctx: RunContext[Any]) -> bool:
        state = sessions.state(ctx)
        while state.parent is not None:  # a subagent has those of its caller
            state = state.parent
        # Most sessions have none, and need not store an empty slot.
        return COMMANDS.name in state.names() and bool(state[COMMANDS])

    tools = [
        _tool(
            operations,
            "read_output",
            "Read what a background command wrote since last time, or its last lines (tail). "
            "wait: seconds at most, for a line with the regex `until`, or its end.",
            ["read"],
        ),
        _tool(
            operations,
            "send_input",
            "Type a line into a background command, or a control character alone (\\u0003: Ctrl-C); read the answer.",
            COMMAND,
            ask=options.require_execute_approval,
        ),
        _tool(operations, "stop_command", "Stop a background command, and all that it started.", ["write"]),
    ]
    for tool in tools:
        tool.prepare = OfferedWhile(there_are_any)
    return tools


def _tool(
    operations: Callable[[], Operations], name: str, description: str, tags: list[str], *, ask: bool = False
) -> Tool[Any]:
    async def call(ctx: RunContext[Any], **arguments: Any) -> Any:
        return await getattr(operations(), name)(ctx, **arguments)

    tool = Tool[Any].from_schema(call, name, description, SCHEMAS[name], takes_ctx=True)
    tool.function_schema.validator = validator(name)
    tool.function_schema.return_schema = RESULTS[name]
    # The tag `execute` needs approval by default; the tool's metadata can turn that off.
    tool.metadata = {"tags": tags, "asks": ask} if "execute" in tags else {"tags": tags}
    tool.requires_approval = ask
    return tool


def create_filesystem_toolset(
    id: str | None = None,
    include_execute: bool = True,
    require_write_approval: bool = False,
    require_execute_approval: bool = True,
) -> FunctionToolset[Any]:
    """Create the file tools for any `pydantic_ai.Agent` with a workspace.

    What the agent saw is recorded in the deps, if these are `DeepAgentDeps`; with others, in memory, by conversation.

    Args:
        id: the toolset's id; `filesystem` by default.
        include_execute: add `execute` if the workspace runs commands.
        require_write_approval: `write_file` and `edit_file` need approval.
        require_execute_approval: `execute` needs approval.
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
        return tool  # no workspace yet, as when the agent is only explained
    return tool if isinstance(workspace.backend, SupportsCommands) and not workspace.read_only else None
