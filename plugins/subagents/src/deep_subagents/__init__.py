"""Subagents for deep agents: the tool `task`, its types, and approvals that reach the caller.

Importing this module loads neither pydantic nor Pydantic AI: names load on first use, hooks import inside.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.toolsets import AbstractToolset

    from deep_core import AgentContext, PromptSection, StateSlot

    from .approvals import decide
    from .options import SubAgentConfig, SubagentsOptions
    from .slots import SUBAGENTS
    from .toolset import create_subagent_toolset

__all__ = ["SUBAGENTS", "SubAgentConfig", "SubagentsOptions", "create_subagent_toolset", "decide"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "approvals": ["decide"],
        "options": ["SubAgentConfig", "SubagentsOptions"],
        "slots": ["SUBAGENTS"],
        "toolset": ["create_subagent_toolset"],
    },
)


@hookimpl
def deep_hookspecs() -> list[ModuleType]:
    """Add the hook `deep_subagents`, through which other plugins add types."""
    from . import hookspecs

    return [hookspecs]


@hookimpl
def deep_options() -> type[SubagentsOptions]:
    """Return the options of this plugin."""
    from .options import SubagentsOptions

    return SubagentsOptions


@hookimpl
def deep_state() -> list[StateSlot[Any]]:
    """Add slots for prepared, waiting and background subagents, and for requests spent by a subagent."""
    from .slots import BACKGROUND, PAUSED, REQUESTS, SUBAGENTS, WORKING

    return [SUBAGENTS, PAUSED, REQUESTS, BACKGROUND, WORKING]


@hookimpl
def deep_toolsets(context: AgentContext) -> list[AbstractToolset[Any]]:
    """Add the tool `task`, and those for background tasks if they are on."""
    from .catalog import types_of
    from .options import SubagentsOptions
    from .toolset import build_toolset, factory_of

    options = context.options(SubagentsOptions)
    types, model = types_of(context), context.config.models.subagent
    if model is not None:
        types = {name: kind if kind.model else kind.model_copy(update={"model": model}) for name, kind in types.items()}
    return [build_toolset(options, types, factory_of(context), context.logger)]


@hookimpl
def deep_prompt_sections(context: AgentContext) -> list[PromptSection]:
    """List the types besides general-purpose, and the agents that the application prepared for the session."""
    from .catalog import sections_of

    return sections_of(context)


@hookimpl
def deep_capabilities(context: AgentContext) -> list[AbstractCapability[Any]]:
    """Forget subagents whose calls no longer wait, and limit a subagent's requests."""
    from .options import SubagentsOptions

    options = context.options(SubagentsOptions)
    out: list[AbstractCapability[Any]] = []
    if context.depth < options.max_depth:
        from .forget_paused import ForgetPaused

        out.append(ForgetPaused())
        if options.background:
            from .background import BackgroundTasks

            out.append(BackgroundTasks())
    if context.depth > 0 and options.request_limit is not None:
        from .budget import RequestBudget

        out.append(RequestBudget(limit=options.request_limit))
    return out
