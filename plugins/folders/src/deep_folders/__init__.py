"""A project's own instructions for deep agents: AGENTS.md, and others' names for it, as a live section.

Importing this module loads neither pydantic nor Pydantic AI: names load on first use, hooks import inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from deep_core import AgentContext, PromptSection, StateSlot

    from .options import FoldersOptions
    from .slot import FOLDERS

__all__ = ["FOLDERS", "FoldersOptions"]

__getattr__, __dir__ = lazy_exports(__name__, {"options": ["FoldersOptions"], "slot": ["FOLDERS"]})


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

    from .options import FoldersOptions
    from .section import InstructionsSection

    options = context.options(FoldersOptions)
    # Before the other live sections: it changes least.
    return [PromptSection.live("instructions", InstructionsSection(options), order=50)] if options.names else []
