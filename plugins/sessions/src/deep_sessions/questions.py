"""What a person must decide when a run waits: each call, also those of subagents, and each question of the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_ai import DeferredToolResults

from deep_core.plugin_api import (
    Reason,
    call_ids,
    call_path,
    reasons_of,
    words_of,
)

from .rules import is_edit

if TYPE_CHECKING:
    from pydantic_ai import DeferredToolRequests, ToolApproved, ToolDenied

__all__ = ["NOT_EXECUTED", "Question", "answer_questions", "questions_of"]

NOT_EXECUTED = "Not executed: no client executes this tool. Continue without it."


@dataclass(frozen=True)
class Question:
    """One call that waits for a person.

    Attributes:
        path: names it: the call's id; for a subagent's call the ids of the calls above it and its own, as `call_path`
            writes them.
        tool: the tool.
        plugin: the tool's plugin.
        args: the arguments that the call would use.
        reasons: why it asks, each with its class.
        agent: the types of the subagents that make the call, outermost first (`reviewer > explorer`); "" for the agent.
        text: what the model asks the user, if the call is such a question: its answer is text.
        options: the answers that the model proposes; any other words are an answer too.
        identity: the tool as it is now: its source, description and schema; "" if nothing says it.
    """

    path: str
    tool: str
    plugin: str
    args: Mapping[str, Any]
    reasons: tuple[Reason, ...] = ()
    agent: str = ""
    text: str = ""
    options: tuple[str, ...] = ()
    identity: str = ""

    @property
    def reason(self) -> str:
        """All reasons, in words."""
        return words_of(self.reasons)

    @property
    def call_id(self) -> str:
        """The call's own id."""
        return call_ids(self.path)[-1]

    @property
    def is_edit(self) -> bool:
        """Whether the call changes one file, and asks for no other reason."""
        return is_edit(self)

    @property
    def is_choice(self) -> bool:
        """Whether the model asks the user: its answer is text."""
        return bool(self.text)


def questions_of(requests: DeferredToolRequests) -> list[Question]:
    """Return what a person must answer. A `task` call that waits for its subagent is not a question: its calls are."""
    found: list[Mapping[str, Any]] = []
    for call in (*requests.approvals, *requests.calls):
        about = requests.metadata.get(call.tool_call_id, {})
        if call in requests.approvals or "question" in about:
            # If a hook changed the arguments, the kernel puts those that would run under `args`.
            found.append(
                {"args": call.args_as_dict(), **about, "path": call_path(call.tool_call_id), "tool": call.tool_name}
            )
    return [*_questions(found, "")]


def _questions(calls: Iterable[Mapping[str, Any]], agent: str) -> Iterator[Question]:
    for call in calls:
        if "subagent" in call:
            below = f"{agent} > {call['subagent']}" if agent else str(call["subagent"])
            yield from _questions(call["calls"], below)
            continue
        asked: Mapping[str, Any] = call.get("question") or {}
        yield Question(
            path=call["path"],
            tool=call["tool"],
            plugin=str(call.get("plugin", "app")),
            args=call["args"],
            reasons=reasons_of(call),
            agent=agent,
            text=str(asked.get("text", "")),
            options=tuple(map(str, asked.get("options") or ())),
            identity=str(call.get("identity", "")),
        )


def answer_questions(
    requests: DeferredToolRequests, answers: Mapping[str, bool | str | ToolApproved | ToolDenied]
) -> DeferredToolResults:
    """Return the decisions on all calls that wait: for `Sessions.decide`, and for `deferred_tool_results=`.

    Args:
        requests: the calls.
        answers: for each question, by its path: True, False, `ToolApproved` or `ToolDenied`; text for a question of
            the model.

    Raises:
        ValueError: a question has no answer, or an answer no question.
    """
    asked = {question.path: question for question in questions_of(requests)}
    if wrong := asked.keys() ^ answers.keys():
        raise ValueError(f"answer each call that waits, and only those: {', '.join(sorted(wrong))}")
    own = {path: answer for path, answer in answers.items() if not asked[path].agent}
    below = {path: answer for path, answer in answers.items() if asked[path].agent}
    results = DeferredToolResults()
    if below:
        from deep_subagents import decide  # installed: its calls alone are below another

        results = decide(requests, below)
    for path, answer in own.items():
        if isinstance(answer, str):
            results.calls[asked[path].call_id] = answer
        else:
            results.approvals[asked[path].call_id] = answer
    for call in requests.calls:
        results.calls.setdefault(call.tool_call_id, NOT_EXECUTED)
    return results
