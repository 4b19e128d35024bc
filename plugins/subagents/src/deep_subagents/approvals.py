"""Approvals and questions across levels: report a waiting subagent to its caller, and pass decisions down to it.

A subagent that waits for approvals or for answers makes its caller's `task` call wait, with this metadata:

    {"subagent": type, "calls": [{"id", "path", "tool", "args", …}]}

`id` is the call's id and `path` the id of the `task` call, a slash and the id: two subagents may use one id,
but never one path. A call of the subagent that is itself a waiting `task` also has `subagent` and `calls`. A question
to the user is an external call whose metadata has `question`; its decision is the answer, as text.
Decisions return as metadata of the approved `task` call: {"subagent_decisions": {id: decision}}.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from pydantic_ai import DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ToolCallPart

from deep_core.plugin_api import call_path, suggest

__all__ = ["DECISIONS", "answers", "decide", "questions_of", "waiting_metadata"]

DECISIONS = "subagent_decisions"
Decision: TypeAlias = bool | str | ToolApproved | ToolDenied


# -- up: calls that wait -----------------------------------------------------------------------------------------------


def questions_of(requests: DeferredToolRequests) -> list[ToolCallPart]:
    """Return the external calls that are questions to the user. A subagent's other external calls are impossible."""
    return [call for call in requests.calls if "question" in requests.metadata.get(call.tool_call_id, {})]


def waiting_metadata(subagent_type: str, task_id: str, requests: DeferredToolRequests) -> dict[str, Any]:
    """Build the metadata of the caller's `task` call while a subagent waits."""
    calls: list[dict[str, Any]] = []
    for call in (*requests.approvals, *questions_of(requests)):
        about: dict[str, Any] = {"args": call.args_as_dict(), **requests.metadata.get(call.tool_call_id, {})}
        about.update(id=call.tool_call_id, path=call_path(call.tool_call_id), tool=call.tool_name)
        calls.append(about)
    return {"subagent": subagent_type, "calls": _below(task_id, calls)}


def _below(task_id: str, calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for call in calls:
        entry = {**call, "path": f"{call_path(task_id)}/{call['path']}"}
        if "subagent" in call:
            entry["calls"] = _below(task_id, call["calls"])
        out.append(entry)
    return out


# -- down: decisions ---------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Waiting:
    """One call that waits, at any level."""

    id: str
    path: str
    tool: str
    calls: list[_Waiting] = field(default_factory=list["_Waiting"])
    is_question: bool = False
    decision: Decision | None = None

    def all(self) -> Iterator[_Waiting]:
        """This call and all calls below it."""
        yield self
        for call in self.calls:
            yield from call.all()

    def find_undecided(self) -> list[_Waiting]:
        """The calls below without a decision, for them or for a call above them."""
        if self.decision is not None:
            return []
        return [leaf for call in self.calls for leaf in call.find_undecided()] if self.calls else [self]


def decide(requests: DeferredToolRequests, decisions: Mapping[str, Decision]) -> DeferredToolResults:
    """Decide each waiting call of subagents, and answer their questions.

    Args:
        requests: the output of a run, also after a round trip through JSON.
        decisions: the waiting call's `id`, or its `path` if two calls have one id (both are in `requests.metadata` of
            the `task` call) -> True, False, `ToolApproved` or `ToolDenied`; for a question to the user, the answer as
            text. A `task` call may be decided as a whole: True approves all calls below it and leaves its questions
            unanswered, a denial ends the subagent and its caller gets the reason. Calls of the agent itself are
            accepted too.

    Returns:
        The value for `deferred_tool_results=`. It lacks top-level calls without a decision: add them with
        `results.update(…)` or `results.approvals[id] = …`.

    Raises:
        ValueError: a name matches no call or several, a call is decided twice, text decides an approval or a decision
            answers a question, or only some calls of a subagent are decided: a subagent continues only when all of its
            calls are decided.
    """
    top = [
        _read(
            call.tool_call_id,
            call_path(call.tool_call_id),
            call.tool_name,
            requests.metadata.get(call.tool_call_id, {}),
        )
        for call in (*requests.approvals, *questions_of(requests))
    ]
    for name, decision in decisions.items():
        target = _find(top, name)
        if target.is_question and not isinstance(decision, str):
            raise ValueError(f"{name!r} is a question to the user: its answer is text, not {decision!r}")
        if not target.is_question and not isinstance(decision, bool | ToolApproved | ToolDenied):
            raise ValueError(f"{name!r}: a decision is True, False, ToolApproved or ToolDenied, not {decision!r}")
        if target.decision is not None:
            raise ValueError(f"the call {target.path!r} is decided twice, by its id and by its path")
        target.decision = decision
    results = DeferredToolResults()
    for call in top:
        _check(call)
        if call.decision is None and all(below.decision is None for below in call.all()):
            continue
        if missing := call.find_undecided():
            names = ", ".join(f"{waiting.path!r} ({waiting.tool})" for waiting in missing)
            raise ValueError(f"the subagent of {call.id!r} also waits for a decision on {names}")
        if isinstance(call.decision, str):
            results.calls[call.id] = call.decision
            continue
        results.approvals[call.id] = True if call.decision is None else call.decision
        if call.decision is None:
            results.metadata[call.id] = {DECISIONS: _decisions_as_json(call)}
    return results


def _read(id: str, path: str, tool: str, about: Mapping[str, Any]) -> _Waiting:
    waiting = _Waiting(id, path, tool, is_question="question" in about)
    if "subagent" in about:
        waiting.calls = [_read(call["id"], call["path"], call["tool"], call) for call in about["calls"]]
    return waiting


def _find(top: Sequence[_Waiting], name: str) -> _Waiting:
    everything = [call for waiting in top for call in waiting.all()]
    # A provider may choose an id that is the path of another call: no two calls have one path.
    matches = [call for call in everything if name == call.path and "/" in name]
    matches = matches or [call for call in everything if name in (call.id, call.path)]
    if len(matches) > 1:
        # The caller and its subagent may use one id; then it means the call, not the `task` around it.
        matches = [call for call in matches if not call.calls] or matches
    if len(matches) == 1:
        return matches[0]
    if matches:
        below = [call for call in matches if call not in top]
        own = f" (the agent's own: results.approvals[{name!r}] = …)" if len(below) < len(matches) else ""
        raise ValueError(f"{name!r} is the id of several calls; name one by its path: {_paths(below)}{own}")
    hint = suggest(name, {text for call in everything for text in (call.id, call.path)})
    raise ValueError(f"no call {name!r} waits.{hint} Waiting: {_paths(everything) or 'none'}")


def _paths(calls: Sequence[_Waiting]) -> str:
    return ", ".join(repr(call.path) for call in calls)


def _check(call: _Waiting) -> None:
    for below in call.calls:
        if call.decision is not None and any(each.decision is not None for each in below.all()):
            raise ValueError(f"the call {call.path!r} is decided as a whole, and so is {below.path!r} below it")
        _check(below)


def _decisions_as_json(call: _Waiting) -> dict[str, Any]:
    """The decisions on a waiting subagent's calls, as JSON values."""
    out: dict[str, Any] = {}
    for below in call.calls:
        match below.decision:
            case None:
                out[below.id] = {"approve": True, DECISIONS: _decisions_as_json(below)}
            case ToolDenied(message=message):
                out[below.id] = {"approve": False, "message": message}
            case ToolApproved(override_args=args):
                out[below.id] = {"approve": True, "args": args}
            case str(answer):
                out[below.id] = {"answer": answer}
            case decision:
                out[below.id] = {"approve": decision}
    return out


def answers(requests: DeferredToolRequests, metadata: object) -> DeferredToolResults:
    """Build the subagent's answers, once its caller's `task` call is approved.

    Args:
        requests: the calls that the subagent waits for.
        metadata: of the approved `task` call. Without decisions in it, all calls are approved; with decisions, a call
            without one is denied.
    """
    asked = {call.tool_call_id for call in questions_of(requests)}
    results = DeferredToolResults(
        calls={
            call.tool_call_id: NO_ANSWER if call.tool_call_id in asked else ToolFailed(NO_OUTSIDE)
            for call in requests.calls
        },
    )
    if not isinstance(metadata, Mapping) or DECISIONS not in metadata:
        results.approvals.update({call.tool_call_id: True for call in requests.approvals})
        return results
    value: object = cast("Mapping[str, Any]", metadata)[DECISIONS]
    decisions: Mapping[str, Any] = cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
    for call_id in asked:
        said: object = decisions.get(call_id)
        if isinstance(said, Mapping) and isinstance(text := cast("Mapping[str, Any]", said).get("answer"), str):
            results.calls[call_id] = text
    for call in requests.approvals:
        answer: object = decisions.get(call.tool_call_id)
        results.approvals[call.tool_call_id] = _decision(answer)
        if isinstance(answer, Mapping) and DECISIONS in answer:
            results.metadata[call.tool_call_id] = {DECISIONS: answer[DECISIONS]}
    return results


NO_ANSWER = "The user gave no answer. Do not ask again: decide yourself, and say what you assumed."
NO_OUTSIDE = "This tool runs outside of the agent, which a subagent cannot do: leave it to your caller."


def _decision(answer: object) -> ToolApproved | ToolDenied:
    if not isinstance(answer, Mapping):
        return ToolDenied("This call got no decision, so it did not run.")
    fields = cast("Mapping[str, Any]", answer)
    if fields.get("approve") is True:
        return ToolApproved(override_args=fields.get("args"))
    return ToolDenied(fields["message"]) if isinstance(fields.get("message"), str) else ToolDenied()
