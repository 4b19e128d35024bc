"""Conversations that a run left unfinished: which calls have no result, and what they are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolReturnPart

from .capability import key_of
from .fold import Fold, kept_prompts
from .ledger_rows import UNKNOWN

__all__ = ["closed", "open_calls"]

NOT_RUN = "Not executed: the run was stopped before this call."


def open_calls(history: Sequence[ModelMessage]) -> set[str]:
    """Return the ids of the last response's calls without a result."""
    calls: set[str] = set()
    for message in history:
        if isinstance(message, ModelResponse):
            calls = {call.tool_call_id for call in message.tool_calls}
        else:
            # By kind, not by class: older versions of Pydantic AI answer a call with a class that is deprecated now.
            ended = [part for part in message.parts if part.part_kind in ("tool-return", "retry-prompt")]
            calls -= {str(getattr(part, "tool_call_id", "")) for part in ended}
    return calls


def closed(state: Fold) -> list[ModelMessage]:
    """Return the conversation with a result for every call, so that a message can follow.

    A run that was stopped or failed leaves calls open. The ledger knows which of them ran.
    """
    history = state.messages()
    waiting = open_calls(history)
    if not waiting:
        return history
    last = next(message for message in reversed(history) if isinstance(message, ModelResponse))
    parts: list[ToolReturnPart] = []
    for index, call in enumerate(last.tool_calls):
        if call.tool_call_id not in waiting:
            continue
        row = state.effects.get(key_of("", last, index))
        if row is None:
            parts.append(ToolReturnPart(call.tool_name, NOT_RUN, call.tool_call_id, outcome="interrupted"))
        elif row.result is not None:
            parts.append(replace(row.result, tool_call_id=call.tool_call_id))
        else:
            outcome = "failed" if row.state == "failed" else "retried" if row.state == "retry" else "interrupted"
            parts.append(ToolReturnPart(call.tool_name, row.message or UNKNOWN, call.tool_call_id, outcome=outcome))
    at = len(history) - len(kept_prompts(history))
    return [*history[:at], ModelRequest(parts), *history[at:]]
