"""Run, approvals: what a person was shown, what they decided, and what is about to run; kept per run."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import Any, cast

from pydantic import BaseModel, SecretBytes, SecretStr
from pydantic_ai import ToolDefinition
from pydantic_ai.messages import (
    BaseToolReturnPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.tools import DeferredToolResults, RunContext, ToolApproved
from pydantic_core import to_json

from ...plugins.contributions import StateSlot
from ..run.session import session

__all__ = [
    "APPROVALS",
    "RUNS",
    "RunCalls",
    "args_as_json",
    "args_in_history",
    "calls_of",
    "close_open_calls",
    "copy_args",
    "digest_args",
    "is_approved",
    "tool_key",
    "unanswered_calls",
]

APPROVALS: StateSlot[dict[str, str]] = StateSlot("deep_approvals", dict[str, str], dict[str, str])
"""`call id plugin:tool` -> digest of the arguments that a person was asked about. The last `REMEMBERED` of them."""
REMEMBERED = 200


@dataclass(eq=False, repr=False)
class RunCalls:
    """What one run needs to tell an approved call from a forged or changed one.

    Attributes:
        own: final name -> the definition as the kernel attributed it for this run.
        shown: call id -> (tool, arguments) as a person saw them: pending when the run began, or asked about since.
        raw: call id -> arguments of an approved call as the person saw or wrote them, before any hook changed them.
        approved: calls that a person approved for this run, or that were handed to a named approver; each runs once.
    """

    own: dict[str, ToolDefinition] = field(default_factory=dict[str, ToolDefinition])
    shown: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    raw: dict[str, str] = field(default_factory=dict[str, str])
    approved: set[str] = field(default_factory=set[str])

    def decided(self, results: DeferredToolResults) -> None:
        """Take over what a person decided."""
        for call_id, said in results.approvals.items():
            instead = said.override_args if isinstance(said, ToolApproved) else None
            if said is True or isinstance(said, ToolApproved):
                self.approved.add(call_id)
                if instead is not None:
                    self.raw[call_id] = args_as_json(instead)
                elif call_id in self.shown:
                    self.raw[call_id] = self.shown[call_id][1]

    def overridden(self, call_id: str) -> bool:
        """Whether the person wrote other arguments than those that were shown: then only theirs are approved."""
        seen = self.shown.get(call_id)
        return seen is not None and self.raw.get(call_id, seen[1]) != seen[1]


RUNS: StateSlot[dict[str, RunCalls]] = StateSlot("deep_runs", dict[str, RunCalls], dict[str, RunCalls], persist=False)
"""Run id -> its calls, while it runs."""


def calls_of(ctx: RunContext[Any]) -> RunCalls:
    """The run's record. Outside a run (somebody lists tools by hand) an empty one: nothing is approved there."""
    runs = session(ctx).state[RUNS]
    return runs.get(ctx.run_id or "") or RunCalls()


def remember(ctx: RunContext[Any], key: str, digest_of_args: str) -> None:
    """Note that a person is asked about exactly these arguments."""
    asked = session(ctx).state[APPROVALS]
    asked.pop(key, None)
    asked[key] = digest_of_args
    for old in list(asked)[:-REMEMBERED]:
        del asked[old]


def tool_key(definition: ToolDefinition) -> str:
    """`plugin:tool`, by the name that its author gave it."""
    metadata = definition.metadata or {}
    return f"{metadata.get('plugin', 'app')}:{metadata.get('original', definition.name)}"


def digest_args(args: Mapping[str, Any]) -> str:
    """A digest of validated arguments, of what serialisation would leave out too."""
    return sha256(to_json(_plain(args), fallback=repr, serialize_unknown=True)).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, str | int | float | bool | bytes | None):
        return cast("Any", value)
    if isinstance(value, SecretStr | SecretBytes):
        return value.get_secret_value()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in cast("Iterable[Any]", value)]
    if isinstance(value, BaseModel):
        fields = {**vars(value), **(value.model_extra or {})}
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        slots = {own.name: getattr(value, own.name, None) for own in dataclasses.fields(value)}
        fields = {**slots, **getattr(value, "__dict__", {})}
    else:
        return value
    return {"": type(value).__qualname__, **{key: _plain(item) for key, item in fields.items()}}


def copy_args(args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Arguments for others to look at: what they change does not change the call."""
    try:
        return MappingProxyType(copy.deepcopy(dict(args)))
    except Exception:  # noqa: BLE001 - an argument may not be copyable, a handle for example
        return MappingProxyType(dict(args))


def args_as_json(args: str | Mapping[str, Any] | None) -> str:
    """A call's arguments as JSON text."""
    return args if isinstance(args, str) else to_json(args or {}).decode()


def args_in_history(ctx: RunContext[Any], call_id: str) -> str | None:
    """The arguments of a call as the conversation has them now."""
    for message in reversed(ctx.messages):
        for part in message.parts:
            if isinstance(part, ToolCallPart) and part.tool_call_id == call_id:
                return args_as_json(part.args)
    return None


def is_approved(ctx: RunContext[Any]) -> bool:
    """Whether somebody approved this call, and it has no result yet: one that an approver was given may be denied."""
    call_id = ctx.tool_call_id or ""
    if call_id not in calls_of(ctx).approved:
        return False
    for message in reversed(ctx.messages):
        for part in message.parts:
            if isinstance(part, ToolCallPart | BaseToolReturnPart) and part.tool_call_id == call_id:
                return isinstance(part, ToolCallPart)
    return True


def unanswered_calls(messages: Sequence[ModelMessage]) -> dict[str, tuple[str, str]]:
    """Calls without a return, at the end of a history: id -> (tool, arguments)."""
    last = next((i for i in range(len(messages) - 1, -1, -1) if isinstance(messages[i], ModelResponse)), None)
    if last is None:
        return {}
    answered = {p.tool_call_id for m in messages[last:] for p in m.parts if isinstance(p, ToolReturnPart)}
    calls = [part for part in messages[last].parts if isinstance(part, ToolCallPart)]
    return {c.tool_call_id: (c.tool_name, args_as_json(c.args)) for c in calls if c.tool_call_id not in answered}


def close_open_calls(messages: list[ModelMessage]) -> None:
    """Give the calls that asked beside a final result their returns: the run is over, and nobody is asked any more.

    Pydantic AI does so for tools that it knows to ask, and not where a call asks when it is made. Without a return the
    history takes no further prompt.
    """
    returns = [ToolReturnPart(tool, NOT_EXECUTED, call_id) for call_id, (tool, _) in unanswered_calls(messages).items()]
    if returns and isinstance(last := messages[-1], ModelRequest):
        messages[-1] = dataclasses.replace(last, parts=[*last.parts, *returns])


NOT_EXECUTED = "Tool not executed: it asks for approval, and the final result was given beside it."
