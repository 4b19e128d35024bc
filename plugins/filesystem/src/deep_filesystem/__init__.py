"""File tools for deep agents: ls, read_file, write_file, edit_file, glob, grep, execute.

Importing this module loads neither pydantic nor Pydantic AI: names load on first use, hooks import inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.toolsets import AbstractToolset

    from deep_core import AgentContext, Ask, StateSlot, ToolCall

    from .documents import Document, DocumentError, DocumentLimits, document_kind, read_document
    from .listing import FileList, ListedFile, list_files
    from .options import FilesystemOptions
    from .seen import Seen
    from .slot import FILES
    from .toolset import create_filesystem_toolset

__all__ = [
    "FILES",
    "Document",
    "DocumentError",
    "DocumentLimits",
    "FileList",
    "FilesystemOptions",
    "ListedFile",
    "Seen",
    "create_filesystem_toolset",
    "document_kind",
    "list_files",
    "read_document",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "documents": ["Document", "DocumentError", "DocumentLimits", "document_kind", "read_document"],
        "listing": ["FileList", "ListedFile", "list_files"],
        "options": ["FilesystemOptions"],
        "seen": ["Seen"],
        "slot": ["FILES"],
        "toolset": ["create_filesystem_toolset"],
    },
)


@hookimpl
def deep_options() -> type[FilesystemOptions]:
    """Return the options of this plugin."""
    from .options import FilesystemOptions

    return FilesystemOptions


@hookimpl
def deep_state() -> list[StateSlot[Any]]:
    """Add the slot that records what the agent saw of each file."""
    from .slot import FILES

    return [FILES]


@hookimpl
def deep_toolsets(context: AgentContext) -> list[AbstractToolset[Any]]:
    """Add the file tools, with the options of this agent."""
    from .options import FilesystemOptions
    from .toolset import build_toolset

    context.idle("deep_check_call", unless="asking")
    return [build_toolset(context.options(FilesystemOptions))]


@hookimpl
async def deep_check_call(call: ToolCall, ctx: RunContext[Any]) -> Ask | None:
    """Add to what a call asks for that it writes a file which runs by itself later."""
    from .run_later import check_call

    return await check_call(ctx, call)
