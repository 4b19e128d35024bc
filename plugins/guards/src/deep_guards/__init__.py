"""Guards for deep agents: end stuck loops, warn before a budget is spent, refuse listed commands.

Importing this module loads neither pydantic nor Pydantic AI: names load on first use, hooks import inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from pydantic_ai.capabilities import AbstractCapability

    from deep_core import AgentContext, Deny, PromptSection, StateSlot, ToolCall

    from .errors import StuckLoop
    from .options import GuardsOptions

__all__ = ["GuardsOptions", "StuckLoop"]

__getattr__, __dir__ = lazy_exports(__name__, {"errors": ["StuckLoop"], "options": ["GuardsOptions"]})


@hookimpl
def deep_options() -> type[GuardsOptions]:
    """Return the options of this plugin."""
    from .options import GuardsOptions

    return GuardsOptions


@hookimpl
def deep_state() -> list[StateSlot[Any]]:
    """Add the slot for what a session's calls returned."""
    from .slot import WATCH

    return [WATCH]


@hookimpl
def deep_prompt_sections(context: AgentContext) -> list[PromptSection]:
    """Add the section that tells the model of a loop, and of a budget that is nearly spent."""
    from deep_core import PromptSection

    from .slot import current_warning

    return [PromptSection.live("warning", current_warning)]


@hookimpl
def deep_capabilities(context: AgentContext) -> list[AbstractCapability[Any]]:
    """Add the capability that watches results and budgets before each request."""
    from .options import GuardsOptions
    from .watcher import Watcher

    options = context.options(GuardsOptions)
    if not options.deny_commands:
        context.idle("deep_check_call")
    return [Watcher(options, context.logger)]


@hookimpl
def deep_check_call(call: ToolCall, context: AgentContext) -> Deny | None:
    """Refuse a command that the user listed."""
    from .options import GuardsOptions

    denied = context.options(GuardsOptions).deny_commands
    if not denied:
        return None
    from deep_core import Deny

    from .commands import find_denied

    found = find_denied(call, denied)
    return None if found is None else Deny(f"{found!r} is in deny_commands of the plugin guards")
