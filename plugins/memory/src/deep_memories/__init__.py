"""Memory for deep agents: remember, forget and recall over Markdown files of a project, and an index of them.

Importing this module loads neither pydantic nor Pydantic AI: names load on first use, hooks import inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from pydantic_ai.toolsets import AbstractToolset

    from deep_core import AgentContext, PromptSection, StateSlot

    from .options import MemoryOptions

__all__ = ["MemoryOptions"]

__getattr__, __dir__ = lazy_exports(__name__, {"options": ["MemoryOptions"]})


@hookimpl
def deep_options() -> type[MemoryOptions]:
    """Return the options of this plugin."""
    from .options import MemoryOptions

    return MemoryOptions


@hookimpl
def deep_state() -> list[StateSlot[Any]]:
    """Add the slot for the index as this run shows it."""
    from .slot import INDEX

    return [INDEX]


@hookimpl
def deep_toolsets(context: AgentContext) -> list[AbstractToolset[Any]]:
    """Add recall, remember and forget, if the memory is on."""
    from .options import MemoryOptions

    options = context.options(MemoryOptions)
    if not options.enabled:
        return []
    from .toolset import build_toolset

    return [build_toolset(options, lambda: context.data_dir)]


@hookimpl
def deep_prompt_sections(context: AgentContext) -> list[PromptSection]:
    """Add the index of the topics, if the memory is on; nothing if there are none."""
    from .options import MemoryOptions

    options = context.options(MemoryOptions)
    if not options.enabled:
        return []
    from deep_core import PromptSection

    from .section import IndexSection

    return [PromptSection.live("index", IndexSection(options, lambda: context.data_dir), needs=["recall"])]
