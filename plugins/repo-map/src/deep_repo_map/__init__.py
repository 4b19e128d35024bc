"""A map of a repository for deep agents: its main files and their definitions, within a number of tokens.

Importing this module loads neither pydantic nor Pydantic AI: names load on first use, hooks import inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from pydantic_ai.toolsets import AbstractToolset

    from deep_core import AgentContext, StateSlot

    from .options import RepoMapOptions
    from .toolset import create_repo_map_toolset

__all__ = ["RepoMapOptions", "create_repo_map_toolset"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "options": ["RepoMapOptions"],
        "toolset": ["create_repo_map_toolset"],
    },
)


@hookimpl
def deep_options() -> type[RepoMapOptions]:
    """Return the options of this plugin."""
    from .options import RepoMapOptions

    return RepoMapOptions


@hookimpl
def deep_state() -> list[StateSlot[Any]]:
    """Add the slot for what was parsed."""
    from .slot import MEMORY

    return [MEMORY]


@hookimpl
def deep_toolsets(context: AgentContext) -> list[AbstractToolset[Any]]:
    """Add repo_map, if it is on."""
    from .options import RepoMapOptions

    options = context.options(RepoMapOptions)
    if not options.enabled:
        return []
    from .toolset import build_toolset

    return [build_toolset(options)]
