"""The slots of subagents in a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_core import StateSlot

if TYPE_CHECKING:
    import asyncio

    from pydantic_ai.agent import AbstractAgent

    from .background_task import BackgroundTask
    from .paused_child import PausedChild

__all__ = ["BACKGROUND", "PAUSED", "REQUESTS", "SUBAGENTS", "WORKING"]


def _agents() -> dict[str, AbstractAgent[Any, Any]]:
    from .prepared import PreparedAgents

    return PreparedAgents()


def _slot_type() -> type[dict[str, PausedChild]]:
    from .paused_child import PausedChild

    return dict[str, PausedChild]


def _background_type() -> type[dict[str, BackgroundTask]]:
    from .background_task import BackgroundTask

    return dict[str, BackgroundTask]


def _no_tasks() -> dict[str, Any]:
    return {}


def _no_children() -> dict[str, PausedChild]:
    return {}


SUBAGENTS: StateSlot[dict[str, AbstractAgent[Any, Any]]] = StateSlot(
    "subagents", type=dict[str, Any], default=_agents, persist=False
)
"""Agents that the application prepared for this session, by the name the model uses. Agents are code and not
stored: add them again after you load a session."""

PAUSED: StateSlot[dict[str, PausedChild]] = StateSlot("subagents_paused", _slot_type, _no_children)
"""Subagents that wait for an approval, by the run and the id of the `task` call; see `paused_child.paused_key`."""

REQUESTS: StateSlot[int] = StateSlot("subagents_requests", int, int)
"""Requests of the subagent that owns this session, so that a pause does not reset its budget."""

BACKGROUND: StateSlot[dict[str, BackgroundTask]] = StateSlot("subagents_background", _background_type, _no_tasks)
"""Background tasks by name, until their report is given."""

WORKING: StateSlot[dict[str, asyncio.Task[None]]] = StateSlot(
    "subagents_working", type=dict[str, Any], default=_no_tasks, persist=False
)
"""Background tasks that work now, by name."""
