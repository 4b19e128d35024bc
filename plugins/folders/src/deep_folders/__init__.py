"""Folders of others for deep agents: a project's instructions (AGENTS.md), Agent Plugins, plugins of Claude Code.

Importing this module loads neither pydantic nor Pydantic AI: names load on first use, hooks import inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from collections.abc import Iterable

    from deep_mcp import FoundServer
    from deep_sessions import ChatCommand
    from deep_subagents import SubAgentConfig
    from pydantic_ai import RunContext

    from deep_core import (
        AgentContext,
        Ask,
        Deny,
        PluginContext,
        PluginKernel,
        PromptSection,
        RunEvent,
        SkillLoader,
        StateSlot,
        ToolCall,
    )

    from .folder import Folder, Note
    from .options import FoldersOptions
    from .slot import FOLDERS

__all__ = ["FOLDERS", "Folder", "FoldersOptions", "Note", "folders"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "folder": ["Folder", "Note"],
        "options": ["FoldersOptions"],
        "slot": ["FOLDERS"],
    },
)


def folders(kernel: PluginKernel) -> tuple[Folder, ...]:
    """Return every folder of a kernel, those that are not used with the reason in `problem`.

    Raises:
        PluginError: this plugin is not active in the kernel.
    """
    from .found import find_folders
    from .options import FoldersOptions

    context = kernel.context("folders")
    return find_folders(context, context.options(FoldersOptions))


@hookimpl
def deep_options() -> type[FoldersOptions]:
    """Return the options of this plugin."""
    from .options import FoldersOptions

    return FoldersOptions


@hookimpl
def deep_state() -> list[StateSlot[Any]]:
    """Add the slots for the folders whose files apply, and for what this run read."""
    from .slot import FOLDERS, READING

    return [FOLDERS, READING]


@hookimpl
def deep_prompt_sections(context: AgentContext) -> list[PromptSection]:
    """Add the project's instructions; nothing if there are none."""
    from deep_core import PromptSection

    from .found import hook_programs
    from .options import FoldersOptions
    from .section import InstructionsSection

    if hook_programs(context) is None:
        context.idle("deep_check_call", "deep_run_event")
    options = context.options(FoldersOptions)
    # Before the other live sections: it changes least.
    return [PromptSection.live("instructions", InstructionsSection(options), order=50)] if options.names else []


@hookimpl
def deep_skill_loaders(context: AgentContext) -> Iterable[SkillLoader]:
    """Add the skills of folders, if deep-skills is there to read them."""
    from .found import used_folders

    folders = [folder for folder in used_folders(context) if folder.skills] if _is_active(context, "skills") else []
    if not folders:
        return []
    from .skills import FolderLoader

    return [FolderLoader(folder) for folder in folders]


@hookimpl(of="subagents")
def deep_subagents(context: AgentContext) -> Iterable[SubAgentConfig]:
    """Add a type of subagents for each agent of a folder."""
    from .found import used_folders

    folders = [folder for folder in used_folders(context) if folder.agents]
    if not folders:
        return []
    from .contributions import types_of

    return list(types_of(folders))


@hookimpl(of="mcp")
def deep_mcp_servers(context: PluginContext) -> Iterable[FoundServer]:
    """Add the MCP servers of folders."""
    from .found import used_folders

    folders = [folder for folder in used_folders(context) if folder.servers]
    if not folders:
        return []
    from .contributions import servers_of

    return list(servers_of(folders))


@hookimpl(of="sessions")
def deep_chat_commands(context: PluginContext) -> Iterable[ChatCommand]:
    """Add the commands of folders: `/folder:command`."""
    from .found import used_folders

    folders = [folder for folder in used_folders(context) if folder.commands]
    if not folders:
        return []
    from .slash import commands_of

    return list(commands_of(folders))


@hookimpl
async def deep_check_call(call: ToolCall, context: AgentContext, ctx: RunContext[Any]) -> Ask | Deny | None:
    """Ask the hooks of folders before a call: they can deny it, or make it ask."""
    from .found import hook_programs

    programs = hook_programs(context)
    return await programs.check(call, ctx) if programs is not None else None


@hookimpl
async def deep_run_event(event: RunEvent, context: AgentContext) -> None:
    """Tell the hooks of folders that a call has ended."""
    from .found import hook_programs

    programs = hook_programs(context)
    if programs is None:
        return
    from deep_core import ToolEvent

    if isinstance(event, ToolEvent) and event.outcome != "started":
        await programs.tell(event)


def _is_active(context: PluginContext, plugin: str) -> bool:
    return plugin in context.kernel.active
