"""Approvals: the session's record of questions to a person and of the answers; digests of arguments."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from time import time as now
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from pydantic import BaseModel, SecretBytes, SecretStr
from pydantic_ai.messages import (
    BaseToolReturnPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.tools import DeferredToolResults, ToolApproved
from pydantic_core import from_json, to_json

from ...plugins.contributions import StateSlot
from ...tables import is_collection, is_table
from ..run.session import session

if TYPE_CHECKING:
    from tool_expressions import Reason

    from ..run.session import Ctx


class Question(NamedTuple):
    """A question to a person: may this call run with arguments that have one of these digests, for these reasons?

    `tool` is the identity of the tool (`tool_expressions.identity_of`).
    """

    asked_at: float
    call_id: str
    tool: str
    digests: list[str]
    reasons: list[tuple[str, str, str]]


APPROVALS: StateSlot[list[Question]] = StateSlot("deep_approvals", list[Question], list[Question], version=3)
"""The session's record of open questions. The conversation proves nothing, because a client may hold it.

Each question is answered once. The record keeps the last `REMEMBERED` of them, each for `REMEMBERED_SECONDS`.
"""
REMEMBERED = 200
REMEMBERED_SECONDS = 90 * 24 * 3600


def remember_question(ctx: Ctx, tool: str, digests: Iterable[str], reasons: Iterable[Reason]) -> None:
    """Record that a person is asked whether this call may run with any of these arguments, and why."""
    record = session(ctx).state[APPROVALS]
    # Keep equal questions: two conversations may wait with the same id and arguments.
    record.append(
        Question(
            now(),
            ctx.tool_call_id or "",
            tool,
            sorted(set(digests)),
            [(each.kind, each.text, each.plugin) for each in reasons],
        )
    )
    record[:] = [question for question in record if question.asked_at >= now() - REMEMBERED_SECONDS][-REMEMBERED:]


def take_question(ctx: Ctx, tool: str, digest: str | None) -> Question | None:
    """Remove one question about this call from the record, and return it.

    Call ids are not unique: two conversations of one session may wait with the same id.

    Args:
        ctx: the call's context.
        tool: `plugin:tool`, whatever it was when the question was asked.
        digest: of arguments in the question; None for the last question.
    """
    record, oldest = session(ctx).state[APPROVALS], now() - REMEMBERED_SECONDS
    for index, asked in reversed([*enumerate(record)]):
        same = asked.call_id == (ctx.tool_call_id or "") and asked.tool.startswith(f"{tool}@")
        if same and asked.asked_at >= oldest and (digest is None or digest in asked.digests):
            return record.pop(index)
    return None


def note_decisions(ctx: Ctx, results: DeferredToolResults, answers: dict[str, str | None]) -> None:
    """Record a person's decisions. A denied question is answered: no later approval counts for it.

    Args:
        ctx: the run's context.
        results: the decisions.
        answers: gets each approved call, with the arguments that the person wrote instead, as JSON.
    """
    record = session(ctx).state[APPROVALS]
    for call_id, decision in results.approvals.items():
        if decision is True or isinstance(decision, ToolApproved):
            instead = decision.override_args if isinstance(decision, ToolApproved) else None
            answers[call_id] = None if instead is None else args_as_json(instead)
        else:
            record[:] = [question for question in record if question.call_id != call_id]


def jsonable(args: Mapping[str, object]) -> object:
    """Convert arguments to JSON values, for a person to read."""
    return from_json(to_json(dict(args), fallback=repr, serialize_unknown=True))


def digest_args(args: Mapping[str, object]) -> str:
    """Return a digest of validated arguments, including what serialization would omit."""
    return sha256(to_json(_plain(args), fallback=repr, serialize_unknown=True)).hexdigest()


def _plain(value: object) -> object:
    if isinstance(value, str | int | float | bool | bytes | None):
        return value
    if isinstance(value, SecretStr | SecretBytes):
        return value.get_secret_value()
    if is_table(value):
        return {str(key): _plain(item) for key, item in value.items()}
    if is_collection(value):
        return [_plain(item) for item in value]
    if isinstance(value, BaseModel):
        fields = {**vars(value), **(value.model_extra or {})}
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        slots = {own.name: getattr(value, own.name, None) for own in dataclasses.fields(value)}
        fields = {**slots, **getattr(value, "__dict__", {})}
    else:
        return value
    return {"": type(value).__qualname__, **{key: _plain(item) for key, item in fields.items()}}


def copy_args(args: Mapping[str, object]) -> Mapping[str, object]:
    """Copy arguments, so that listeners cannot change the call."""
    try:
        return MappingProxyType(copy.deepcopy(dict(args)))
    except Exception:  # noqa: BLE001 - an argument may not be copyable, such as a file handle
        return MappingProxyType(dict(args))


def args_as_json(args: str | Mapping[str, object] | None) -> str:
    """Return a call's arguments as JSON text."""
    return args if isinstance(args, str) else to_json(args or {}).decode()


def args_in_history(ctx: Ctx) -> str | None:
    """Return a call's arguments in the conversation; None if it shows none or already has a result."""
    for message in reversed(ctx.messages):
        for part in message.parts:
            if isinstance(part, ToolCallPart | BaseToolReturnPart) and part.tool_call_id == ctx.tool_call_id:
                return args_as_json(part.args) if isinstance(part, ToolCallPart) else None
    return None


def unanswered_calls(messages: Sequence[ModelMessage]) -> dict[str, tuple[str, str]]:
    """Return the unanswered calls at the end of a history: id -> (tool, arguments)."""
    last = next((i for i in reversed(range(len(messages))) if isinstance(messages[i], ModelResponse)), len(messages))
    answered = {p.tool_call_id for m in messages[last:] for p in m.parts if isinstance(p, ToolReturnPart)}
    calls = [part for message in messages[last : last + 1] for part in message.parts if isinstance(part, ToolCallPart)]
    return {c.tool_call_id: (c.tool_name, args_as_json(c.args)) for c in calls if c.tool_call_id not in answered}


def close_open_calls(messages: list[ModelMessage]) -> None:
    """Close approvals left open by a final result: the run is over, and no person will be asked.

    Pydantic AI does so only for tools that it knows to ask. Without a return, the history accepts no further prompt.
    """
    returns = [ToolReturnPart(tool, NOT_EXECUTED, call_id) for call_id, (tool, _) in unanswered_calls(messages).items()]
    if returns and isinstance(last := messages[-1], ModelRequest):
        messages[-1] = dataclasses.replace(last, parts=[*last.parts, *returns])


NOT_EXECUTED = "Tool not executed: it asks for approval, and the final result was given beside it."
