"""A subagent that waits, as a session keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["PausedChild"]


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
