"""The questions that wait for the user, in the output of a run.

A question is an external call whose metadata has `question`: {"text": …, "options": […]}. Its answer is text, as the
call's result. Below a waiting `task` call, deep-subagents has the same metadata among the calls of the subagent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_ai import DeferredToolRequests

__all__ = ["NO_ANSWER", "UserQuestion", "open_questions"]

NO_ANSWER = "No person answers now. Do not ask again: decide yourself, and say what you assumed."
"""The result of a question that nobody can answer."""


@dataclass(frozen=True)
class UserQuestion:
    """A question of the model to the user.

    Attributes:
        path: names it: the call's id; in a subagent, the ids of the `task` calls above it and its own, with slashes.
        text: the question, without characters that a person cannot see.
        options: the answers that the model proposes; the user may say something else.
        subagent: the type of the subagent that asks; "" for the agent itself.
    """

    path: str
    text: str
    options: tuple[str, ...]
    subagent: str = ""


def open_questions(requests: DeferredToolRequests) -> list[UserQuestion]:
    """List the questions among the calls that wait, those of subagents included.

    Args:
        requests: the output of a run, also after a round trip through JSON.

    Returns:
        The questions. Answer one of the agent itself with `DeferredToolResults(calls={path: "…"})`, and those of
        subagents with `deep_subagents.decide(requests, {path: "…"})`, which takes both.
    """
    calls = [*requests.approvals, *requests.calls]
    facts = [{**requests.metadata.get(call.tool_call_id, {}), "path": call.tool_call_id} for call in calls]
    return [*_below(facts, "")]


def _below(calls: Iterable[Mapping[str, Any]], subagent: str) -> Iterator[UserQuestion]:
    for call in calls:
        if "question" in call:
            asked = call["question"]
            yield UserQuestion(call["path"], asked["text"], tuple(asked["options"]), subagent)
        elif "subagent" in call:
            yield from _below(call["calls"], call["subagent"])
