"""Decisions on the calls that wait: as a person gives them, as the journal has them, as Pydantic AI takes them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pydantic_ai import DeferredToolRequests
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import DeferredToolResults, ToolApproved, ToolDenied
from pydantic_core import from_json

from .entries import Decision
from .errors import DecisionsPending
from .fold import Fold, Run
from .store import Mail

__all__ = [
    "WaitingCalls",
    "all_decided",
    "check_decided",
    "decisions_of",
    "is_decided",
    "mailed",
    "pending_calls",
    "results_of",
    "take_decisions",
    "waiting_calls",
]


@dataclass(kw_only=True)
class WaitingCalls(DeferredToolRequests):
    """The calls of a session that wait for a person.

    Attributes:
        approval: names this question. The ids of its calls do not: a model may use them again, for other arguments.
    """

    approval: str


def waiting_calls(run: Run | None) -> WaitingCalls | None:
    """Return the calls that a run waits for; None if it waits for none."""
    if run is None or run.requests is None:
        return None
    asked = hashlib.sha256(f"{run.id} {run.began} {run.asked}".encode()).hexdigest()[:16]
    return WaitingCalls(**vars(run.requests), approval=asked)


def check_decided(state: Fold) -> None:
    """Raise DecisionsPending if the session's run waits."""
    if state.run is not None and state.run.status == "paused":
        waiting = ", ".join(call.tool_name for call in pending_calls(state))
        raise DecisionsPending(
            f"session {state.info.id} waits for decisions on {waiting}: decide them, then resume the session"
        )


def pending_calls(state: Fold) -> list[ToolCallPart]:
    """Return the calls that wait for a decision or a result."""
    requests = state.run.requests if state.run is not None else None
    return [] if requests is None else [*requests.approvals, *requests.calls]


def is_decided(state: Fold) -> bool:
    """Whether the calls that wait are all decided, by what is in the mail too."""
    run = state.run
    return run is not None and run.status == "paused" and all_decided(run, mailed(state.mail))


def decisions_of(results: DeferredToolResults) -> dict[str, Decision]:
    """Return decisions as the journal has them."""
    out: dict[str, Decision] = {}
    for call_id, said in results.approvals.items():
        if isinstance(said, ToolDenied):
            out[call_id] = {"approve": False, "message": said.message}
        elif isinstance(said, ToolApproved) and said.override_args is not None:
            out[call_id] = {"approve": True, "args": said.override_args}
        else:
            out[call_id] = {"approve": said is not False}
    for call_id, result in results.calls.items():
        out[call_id] = {"result": result}
    for call_id, metadata in results.metadata.items():
        if call_id in out:
            out[call_id]["metadata"] = metadata
    return out


def results_of(requests: DeferredToolRequests, decisions: Mapping[str, Decision]) -> DeferredToolResults:
    """Return decisions as Pydantic AI takes them: for every call that waits."""
    results = DeferredToolResults()
    for call in requests.approvals:
        said = decisions[call.tool_call_id]
        if not said.get("approve"):
            message = said.get("message")
            results.approvals[call.tool_call_id] = ToolDenied() if message is None else ToolDenied(message)
        else:
            results.approvals[call.tool_call_id] = ToolApproved(override_args=said.get("args"))
    for call in requests.calls:
        results.calls[call.tool_call_id] = decisions[call.tool_call_id].get("result")
    for call_id, said in decisions.items():
        if "metadata" in said:
            results.metadata[call_id] = said["metadata"]
    return results


def mailed(mails: Sequence[Mail]) -> dict[str, Decision]:
    """Return the decisions in the mail. The first one on a call counts."""
    decisions: dict[str, Decision] = {}
    for mail in mails:
        if mail.kind == "decision":
            decisions = {**from_json(mail.data), **decisions}
    return decisions


def all_decided(run: Run, more: Mapping[str, Decision] = MappingProxyType({})) -> bool:
    """Whether every call that waits has a decision."""
    requests, decided = run.requests or DeferredToolRequests(), {**run.decisions, **more}
    return all(call.tool_call_id in decided for call in (*requests.approvals, *requests.calls))


def take_decisions(state: Fold) -> None:
    """Give a run that waits the decisions in the mail."""
    if state.run is not None and state.run.requests is not None:
        state.run.decisions = {**mailed(state.mail), **state.run.decisions}
