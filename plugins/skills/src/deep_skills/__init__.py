"""Agent skills for deep agents: the tools list_skills, load_skill, read_skill_resource, and loaders of skills.

Importing this module loads neither pydantic nor Pydantic AI: names load on first use, hooks import inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.toolsets import AbstractToolset

    from deep_core import AgentContext, Ask, PromptSection, SkillLoader, StateSlot, ToolCall

    from .active import ActiveSkill
    from .backend import BackendLoader, backend_loader
    from .by_hand import (
        Skill,
        SkillDirectory,
        check_skills,
        create_skills_toolset,
        discover_skills,
        get_skills_system_prompt,
        load_skill_instructions,
        parse_skill_md,
    )
    from .directories import DirectoryLoader, directory_loader, package_loader
    from .frontmatter import read_frontmatter
    from .options import SkillsOptions
    from .problem import BadSkill, Problem
    from .slot import SKILLS

__all__ = [
    "SKILLS",
    "ActiveSkill",
    "BackendLoader",
    "BadSkill",
    "DirectoryLoader",
    "Problem",
    "Skill",
    "SkillDirectory",
    "SkillsOptions",
    "backend_loader",
    "check_skills",
    "create_skills_toolset",
    "directory_loader",
    "discover_skills",
    "get_skills_system_prompt",
    "load_skill_instructions",
    "package_loader",
    "parse_skill_md",
    "read_frontmatter",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "active": ["ActiveSkill"],
        "backend": ["BackendLoader", "backend_loader"],
        "by_hand": [
            "Skill",
            "SkillDirectory",
            "check_skills",
            "create_skills_toolset",
            "discover_skills",
            "get_skills_system_prompt",
            "load_skill_instructions",
            "parse_skill_md",
        ],
        "directories": ["DirectoryLoader", "directory_loader", "package_loader"],
        "frontmatter": ["read_frontmatter"],
        "options": ["SkillsOptions"],
        "problem": ["BadSkill", "Problem"],
        "slot": ["SKILLS"],
    },
)


@hookimpl
def deep_options() -> type[SkillsOptions]:
    """Return the options of this plugin."""
    from .options import SkillsOptions

    return SkillsOptions


@hookimpl
def deep_state() -> list[StateSlot[Any]]:
    """Add the slots for the skills in use and for the run's catalog."""
    from .slot import CATALOG, SKILLS

    return [SKILLS, CATALOG]


@hookimpl
def deep_toolsets(context: AgentContext) -> list[AbstractToolset[Any]]:
    """Add list_skills, load_skill and read_skill_resource."""
    from .options import SkillsOptions
    from .toolset import build_toolset

    return [build_toolset(_loaders(context), context.options(SkillsOptions))]


@hookimpl
def deep_skill_loaders(context: AgentContext) -> list[SkillLoader]:
    """Add loaders for the directories of the options, the project and the user."""
    from functools import cache

    from .directories import DirectoryLoader, directory_loader
    from .index import SkillIndex
    from .options import SkillsOptions
    from .roots import project_roots, user_roots

    options = context.options(SkillsOptions)
    index = SkillIndex(lambda: context.cache_dir)
    loaders: list[SkillLoader] = []
    if options.directories:
        loaders.append(directory_loader(*options.directories, strict=options.strict, index=index))
    if options.project:
        loaders.append(DirectoryLoader("project", project_roots, strict=options.strict, index=index))
    if options.user:
        loaders.append(DirectoryLoader("user", cache(user_roots), strict=options.strict, index=index))
    return loaders


@hookimpl
def deep_prompt_sections(context: AgentContext) -> list[PromptSection]:
    """Add the catalog, and instructions in use that a compaction removed."""
    from deep_core import PromptSection

    from .options import SkillsOptions
    from .section import catalog_section, restate

    catalog = catalog_section(_loaders(context), context.logger, context.options(SkillsOptions).catalog_chars)
    return [
        PromptSection.live("catalog", catalog, needs=["load_skill"]),
        PromptSection.live("active", restate, needs=["load_skill"]),
    ]


@hookimpl
def deep_capabilities(context: AgentContext) -> list[AbstractCapability[Any]]:
    """Apply the `allowed-tools` of the skills in use: at most, a call needs approval."""
    from .options import SkillsOptions

    if context.options(SkillsOptions).allowed_tools != "ask":
        context.idle("deep_check_call")
        return []
    from .gate import AllowedTools

    context.idle("deep_check_call", unless="asking")

    return [AllowedTools(asks=context.asks)]


@hookimpl
def deep_check_call(call: ToolCall, ctx: RunContext[Any]) -> Ask | None:
    """Add to what a call asks for that the skills in use do not list it."""
    from .allowed import narrow
    from .slot import SKILLS

    return narrow(call, ctx.deps.state[SKILLS].values())


def _loaders(context: AgentContext) -> Callable[[], list[SkillLoader]]:
    """The loaders of every plugin, on demand: they are collected after the toolsets."""
    return lambda: [item.value for item in context.collect("deep_skill_loaders")]
