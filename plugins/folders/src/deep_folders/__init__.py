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
    from pydantic_ai.capabilities import AbstractCapability

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

    from .around_runs import PromptBlocked
    from .folder import Folder, Note
    from .options import FoldersOptions
    from .slot import FOLDERS

__all__ = ["FOLDERS", "Folder", "FoldersOptions", "Note", "PromptBlocked", "folders"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "folder": ["Folder", "Note"],
        "around_runs": ["PromptBlocked"],
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
    """Add the slots for the folders whose files apply, for what this run read, and for what hooks said."""
    from .slot import BEFORE_COMPACTION, FAILED_COMMANDS, FOLDERS, HEARD, READING, VARIABLES

    return [BEFORE_COMPACTION, FAILED_COMMANDS, FOLDERS, HEARD, READING, VARIABLES]


@hookimpl
def deep_prompt_sections(context: AgentContext) -> list[PromptSection]:
    """Add the project's instructions; nothing if there are none."""
    from deep_core import PromptSection

    from .found import chosen_style, hook_programs
    from .options import FoldersOptions
    from .section import InstructionsSection

    programs = hook_programs(context)
    if programs is None or not programs.about_calls:
        context.idle("deep_check_call")
    if programs is None or not (programs.about_calls or programs.around_runs("Notification")):
        context.idle("deep_run_event")
    options = context.options(FoldersOptions)
    # Before the other live sections: it changes least.
    sections = [PromptSection.live("instructions", InstructionsSection(options), order=50)] if options.names else []
    if programs is not None and programs.around_runs("SubagentStart" if context.depth else "SessionStart"):
        sections.append(PromptSection.live("session_start", _said_at_start, order=51))
    if programs is not None and not context.depth and (programs.around_runs("UserPromptSubmit") or programs.beside):
        sections.append(PromptSection.live("user_prompt", _said_to_prompt, order=51))
    if style := chosen_style(context, options):
        sections.append(PromptSection.static("output_style", style.text))
    return sections


def _said_at_start(ctx: RunContext[Any]) -> str:
    from .slot import HEARD

    return ctx.deps.state[HEARD].session


def _said_to_prompt(ctx: RunContext[Any]) -> str:
    from .slot import HEARD

    return ctx.deps.state[HEARD].prompt


@hookimpl
def deep_capabilities(context: AgentContext) -> list[AbstractCapability[Any]]:
    """Add what runs the hooks of folders around runs; nothing if there are none."""
    from .found import hook_programs

    programs = hook_programs(context)
    own = ("SessionStart", "SessionEnd", "UserPromptSubmit", "Stop", "PreCompact")
    events = ("SubagentStart", "SubagentStop") if context.depth else own
    if programs is None or not (programs.around_runs(*events) or programs.hear):
        return []
    from .around_runs import HooksAroundRuns

    return [HooksAroundRuns(programs, context)]


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
    """Add the commands and the skills of folders: `/folder:command`."""
    from .found import hook_programs, used_folders

    skills = _is_active(context, "skills")
    folders = [folder for folder in used_folders(context) if folder.commands or (skills and folder.skills)]
    if not folders:
        return []
    from .slash import commands_of

    return list(commands_of(folders, skills=skills, programs=hook_programs(context)))


@hookimpl
async def deep_check_call(call: ToolCall, context: AgentContext, ctx: RunContext[Any]) -> Ask | Deny | None:
    """Ask the hooks of folders before a call: they can deny it, or make it ask."""
    from .found import hook_programs

    programs = hook_programs(context)
    return await programs.check(call, ctx, context) if programs is not None else None


@hookimpl
async def deep_run_event(event: RunEvent, context: AgentContext) -> None:
    """Tell the hooks of folders that a call has ended, or that a person is needed."""
    from .found import hook_programs

    programs = hook_programs(context)
    if programs is None:
        return
    from deep_core import ApprovalEvent, ToolEvent

    if isinstance(event, ToolEvent) and event.outcome != "started":
        await programs.tell(event)
    elif isinstance(event, ApprovalEvent) and event.decision == "asked":
        await programs.notify(
            event.session_id, "permission_prompt", f"The agent needs your permission to use {event.tool}"
        )


def _is_active(context: PluginContext, plugin: str) -> bool:
    return plugin in context.kernel.active
