"""File tools for deep agents: ls, read_file, write_file, edit_file, glob, grep, execute and background commands.

Importing this module loads neither pydantic nor Pydantic AI: names load on first use, hooks import inside.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic_ai import RunContext
    from pydantic_ai.toolsets import AbstractToolset

    from deep_core import AgentContext, Ask, Deny, StateSlot, ToolCall

    from .codec import decode_text
    from .documents import Document, DocumentError, DocumentLimits, document_kind, read_document
    from .listing import FileList, ListedFile, list_files
    from .options import FilesystemOptions
    from .seen import Seen
    from .slot import COMMANDS, FILES
    from .toolset import create_filesystem_toolset

__all__ = [
    "COMMANDS",
    "FILES",
    "Document",
    "DocumentError",
    "DocumentLimits",
    "FileList",
    "FilesystemOptions",
    "ListedFile",
    "Seen",
    "create_filesystem_toolset",
    "decode_text",
    "document_kind",
    "list_files",
    "read_document",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "codec": ["decode_text"],
        "documents": ["Document", "DocumentError", "DocumentLimits", "document_kind", "read_document"],
        "listing": ["FileList", "ListedFile", "list_files"],
        "options": ["FilesystemOptions"],
        "seen": ["Seen"],
        "slot": ["COMMANDS", "FILES"],
        "toolset": ["create_filesystem_toolset"],
    },
)


@cache
def _sweep() -> None:
    """End what a process that was killed left of its background commands. Once in a process."""
    from platformdirs import user_data_path

    if (user_data_path("deep") / "commands").is_dir():
        from deep_backends import sweep_commands

        sweep_commands()


@hookimpl
def deep_options() -> type[FilesystemOptions]:
    """Return the options of this plugin."""
    from .options import FilesystemOptions

    return FilesystemOptions


@hookimpl
def deep_state() -> list[StateSlot[Any]]:
    """Add the slots that record what the agent saw of each file, and of each background command."""
    from .slot import COMMANDS, FILES

    return [FILES, COMMANDS]


@hookimpl
def deep_session_methods() -> dict[str, Callable[..., Any]]:
    """Add what interfaces do with background commands: list, stop, keep and end them."""

    def late(name: str) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            from . import background

            return getattr(background, name)(*args, **more)

        return call

    names = ("background_commands", "stop_command", "keep_command", "end_session_commands")
    return {name: late(name) for name in names}


@hookimpl(of="sessions")
async def deep_session_deleted(session_id: str) -> None:
    """End the commands of a session that was deleted, and remove their logs."""
    from .background import forget_session_commands

    await forget_session_commands(session_id)


@hookimpl
def deep_toolsets(context: AgentContext) -> list[AbstractToolset[Any]]:
    """Add the file tools, with the options of this agent."""
    from .options import FilesystemOptions
    from .toolset import build_toolset

    _sweep()
    context.idle("deep_check_call", unless="asking")
    return [build_toolset(context.options(FilesystemOptions))]


@hookimpl
async def deep_check_call(call: ToolCall, context: AgentContext, ctx: RunContext[Any]) -> Ask | Deny | None:
    """Add to what a call asks for that it writes a file which runs by itself later. Ask about no change that fails."""
    from .options import FilesystemOptions
    from .run_later import check_call

    return await check_call(ctx, call, context.options(FilesystemOptions))
