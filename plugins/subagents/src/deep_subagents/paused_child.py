"""A waiting subagent, as stored in a session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_ai import RunContext

__all__ = ["PausedChild", "calling_run", "paused_key"]


@dataclass
class PausedChild:
    """A subagent that waits for an approval, or for an answer of the user.

    Attributes:
        subagent_type: its type.
        description: its task.
        conversation: its conversation, as JSON that `pydantic_ai.ConversationTypeAdapter` wrote.
        state: the slots of its session, as `SessionState.dump` wrote them.
        owner: the id of the conversation whose `task` call waits.
        call_id: the id of that call.
        calling_run: the id of the run whose model made that call.
    """

    subagent_type: str
    description: str
    conversation: str
    state: dict[str, Any]
    owner: str | None
    call_id: str
    calling_run: str | None


def calling_run(ctx: RunContext[Any]) -> str | None:
    """The run whose model made this call; None if the history does not have it, as when rebuilt from a UI's."""
    for message in reversed(ctx.messages):
        if any(part.part_kind == "tool-call" and part.tool_call_id == ctx.tool_call_id for part in message.parts):
            return message.run_id
    return None


def paused_key(ctx: RunContext[Any], paused: Mapping[str, PausedChild]) -> str:
    """The session's key of the subagent of this call; empty if it has none, or if that is ambiguous.

    The call's id is not enough: models number their calls, so two conversations or forks of one session
    may wait with the same id. An approval of one must not resume the other.
    """
    run = calling_run(ctx)
    keys = [
        key
        for key, child in paused.items()
        if child.call_id == ctx.tool_call_id and (run is None or child.calling_run == run)
    ]
    return keys[0] if len(keys) == 1 else ""
