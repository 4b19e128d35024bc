"""A subagent that waits, as a session keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_ai import RunContext

__all__ = ["PausedChild", "asked_in", "paused_key"]


@dataclass
class PausedChild:
    """A subagent that waits for a person.

    Attributes:
        subagent_type: its type.
        description: the task it was given.
        conversation: its conversation, as JSON that `pydantic_ai.ConversationTypeAdapter` wrote.
        state: the slots of its session, as `SessionState.dump` wrote them.
        owner: id of the conversation whose `task` call waits.
        call_id: of that call.
        asked_in: id of the run whose model made it.
    """

    subagent_type: str
    description: str
    conversation: str
    state: dict[str, Any]
    owner: str | None
    call_id: str
    asked_in: str | None


def asked_in(ctx: RunContext[Any]) -> str | None:
    """The run whose model made this call; None where the history does not say, as one that was rebuilt from a UI's."""
    for message in reversed(ctx.messages):
        if any(part.part_kind == "tool-call" and part.tool_call_id == ctx.tool_call_id for part in message.parts):
            return message.run_id
    return None


def paused_key(ctx: RunContext[Any], paused: Mapping[str, PausedChild]) -> str:
    """Where the session keeps the subagent of this call; empty where it has none, or where it cannot be told which.

    The call's id is not enough: models number their calls, so two conversations of one session, or two forks of one,
    may wait with the same id. What a person was shown of one must not let the other go on.
    """
    run = asked_in(ctx)
    found = [
        key
        for key, child in paused.items()
        if child.call_id == ctx.tool_call_id and (run is None or child.asked_in == run)
    ]
    return found[0] if len(found) == 1 else ""
