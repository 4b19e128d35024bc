"""Tickets of a REST service for deep agents.

Importing this module loads neither pydantic nor Pydantic AI: hooks import what they need inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from deep_core import AgentContext, PromptSection, StateSlot
    from pydantic_ai.toolsets import AbstractToolset

    from .options import TicketsOptions

__all__ = ["TicketsOptions"]

__getattr__, __dir__ = lazy_exports(__name__, {"options": ["TicketsOptions"]})


@hookimpl
def deep_options() -> type[TicketsOptions]:
    """What `[plugins.tickets.options]` accepts."""
    from .options import TicketsOptions

    return TicketsOptions


@hookimpl
def deep_state() -> list[StateSlot[Any]]:
    """What each session knows of the tickets."""
    from .state import OPEN

    return [OPEN]


@hookimpl
def deep_toolsets(context: AgentContext) -> list[AbstractToolset[Any]]:
    """The tools; none before the configuration names a service."""
    from .options import TicketsOptions

    options = context.options(TicketsOptions)
    if not options.url:
        return []
    from .service import Service
    from .toolset import build_toolset

    service = Service(options)
    context.on_close(service.close)
    return [build_toolset(service)]


@hookimpl
def deep_prompt_sections(context: AgentContext) -> list[PromptSection]:
    """The open tickets, as the last call saw them."""
    from deep_core import PromptSection

    from .state import open_tickets

    return [PromptSection.live("open", open_tickets, needs=["tickets_list"])]
