"""What a session remembers of its subagents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deep_core import StateSlot

if TYPE_CHECKING:
    from pydantic_ai.agent import AbstractAgent

__all__ = ["PAUSED", "REQUESTS", "SUBAGENTS", "PausedChild"]


@dataclass
class PausedChild:
    """A subagent that waits for a person.

    Attributes:
        subagent_type: its type.
        description: the task it was given.
        conversation: its conversation, as JSON that `pydantic_ai.ConversationTypeAdapter` wrote.
        state: the slots of its session, as `SessionState.dump` wrote them.
        owner: id of the conversation whose `task` call waits.
    """

    subagent_type: str
    description: str
    conversation: str
    state: dict[str, Any]
    owner: str | None


def _agents() -> dict[str, AbstractAgent[Any, Any]]:
    return {}


def _paused() -> dict[str, PausedChild]:
    return {}


SUBAGENTS: StateSlot[dict[str, AbstractAgent[Any, Any]]] = StateSlot(
    "subagents", type=dict[str, Any], default=_agents, persist=False
)
"""Agents that the application prepared for this session, by the name the model uses. An agent is code, so it is not
stored: put it there again after a session was loaded."""

PAUSED: StateSlot[dict[str, PausedChild]] = StateSlot("subagents_paused", dict[str, PausedChild], _paused)
"""Subagents that wait for a person, by the id of the `task` call."""

REQUESTS: StateSlot[int] = StateSlot("subagents_requests", int, int)
"""Requests that the subagent whose session this is has made, so that a pause does not refill its budget."""
