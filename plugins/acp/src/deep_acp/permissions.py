"""Ask the person in the editor about calls that wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from acp.helpers import text_block, tool_content
from acp.schema import PermissionOption, ToolCallUpdate
from deep_sessions import Question, Rule, rules_for
from pydantic_ai import ToolDenied

from deep_core.plugin_api import visible

from .tools import content_of_change, kind_of, locations_of, raw_of, title_of_call

if TYPE_CHECKING:
    from .updates import CallView

__all__ = ["ACCEPT_EDITS", "CARRY_ON", "LATER", "choices_of", "permission", "plan_permission", "rule_of", "verdict"]

ONCE, REJECT = "allow", "reject"
CARRY_ON, ACCEPT_EDITS, LATER = "carry_out", "carry_out_accept_edits", "not_now"
DENIED = "The user refused this call. Do not repeat it; continue without it, or say what you need."
ANSWER_LATER = "The user answers in the next message. End your turn now."


def permission(
    question: Question, view: CallView, folder: str, tags: tuple[str, ...]
) -> tuple[ToolCallUpdate, list[PermissionOption]]:
    """Return what the editor shows of a question, and the answers that it offers.

    Args:
        question: the question.
        view: its call.
        folder: the session's folder.
        tags: of the tool.
    """
    args, content = question.args, list[Any]()
    for text in (question.text, *(reason.text or reason.kind for reason in question.reasons)):
        if text:
            content.append(tool_content(text_block(visible(text))))
    if view.change is not None:
        content.append(content_of_change(view.change))
    call = ToolCallUpdate(
        tool_call_id=view.id,
        title=title_of_call(question.tool, args, question.agent),
        kind=kind_of(question.tool, question.plugin, tags, args),
        status="pending",
        content=content or None,
        locations=locations_of(args, folder),
        raw_input=raw_of(args),
    )
    return call, choices_of(question, folder)


def choices_of(question: Question, folder: str) -> list[PermissionOption]:
    """Return the answers to a question: one of the model has its options."""
    if question.text:
        return [
            *(
                PermissionOption(option_id=f"answer_{number}", name=visible(option), kind="allow_once")
                for number, option in enumerate(question.options)
            ),
            PermissionOption(option_id=REJECT, name="Answer in the next message", kind="reject_once"),
        ]
    always = [
        PermissionOption(option_id=option, name=f"Allow in this session {rule.about}", kind="allow_always")
        for option, rule in _always(question, folder).items()
    ]
    return [
        PermissionOption(option_id=ONCE, name="Allow", kind="allow_once"),
        *always,
        PermissionOption(option_id=REJECT, name="Reject", kind="reject_once"),
    ]


def _always(question: Question, folder: str) -> Mapping[str, Rule]:
    """Return what *always* offers, by option: of all rules the narrowest and the widest, because a person reads them.

    There is none where a guard asks, which asks about this call.
    """
    rules: Sequence[Rule] = rules_for(question, folder)
    return {f"always_{rule.kind}": rule for rule in (*rules[:1], *rules[1:][-1:])}


def rule_of(question: Question, option_id: str, folder: str) -> Rule | None:
    """Return the rule that an option stands for; None for one that decides this call alone."""
    return None if question.text else _always(question, folder).get(option_id)


def verdict(question: Question, option_id: str, folder: str) -> bool | str | ToolDenied:
    """Return the decision that an option stands for. An option that was not offered denies."""
    offered = {option.option_id for option in choices_of(question, folder)}
    if question.text:
        number = option_id.removeprefix("answer_")
        return question.options[int(number)] if option_id in offered - {REJECT} else ANSWER_LATER
    return True if option_id in offered - {REJECT} else ToolDenied(DENIED)


def plan_permission(call_id: str, slots: Mapping[str, Any]) -> tuple[ToolCallUpdate, list[PermissionOption]]:
    """Return the question whether to carry out a plan, with its todos."""
    stored: Mapping[str, Any] = slots.get("todos", {})
    todos = "\n".join(f"- {todo.get('content', '')}" for todo in stored.get("data") or ())
    call = ToolCallUpdate(
        tool_call_id=call_id,
        title="Carry out this plan?",
        kind="switch_mode",
        status="pending",
        content=[tool_content(text_block(todos))] if todos else None,
    )
    return call, [
        PermissionOption(option_id=CARRY_ON, name="Carry it out, and ask before each change", kind="allow_once"),
        PermissionOption(option_id=ACCEPT_EDITS, name="Carry it out, and accept edits", kind="allow_always"),
        PermissionOption(option_id=LATER, name="Not now", kind="reject_once"),
    ]
