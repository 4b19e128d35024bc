"""Why a call asks a person: each reason with its class, and what rules say of a tool.

Rules are tables by name, expressions, and True or False for every tool. The first comes from who may take an approval
back; the others can only add.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, cast

from .expressions import ToolExpression, as_expression
from .facts import ToolFacts

T = TypeVar("T")
Rule: TypeAlias = "Mapping[str, bool | T] | ToolExpression | bool"
"""Tool name -> True, False, or what decides on a call; or which tools ask; or True or False for all."""

ReasonKind: TypeAlias = Literal["rule", "write", "runs_later", "command", "network", "guard", "changed", "tool"]
"""The class of a reason. A mode or a kept answer covers classes, never a call as a whole."""
ACCEPT_EDITS: frozenset[ReasonKind] = frozenset({"write"})
"""What a mode answers that accepts edits."""
EVERY_CALL: frozenset[ReasonKind] = frozenset({"rule", "tool", "command", "write"})
"""What the answer "every call of this tool" covers: the reasons that are true of every call of it."""
RULE = "a rule of interrupt_on asks"
SAYS = {"command": "it runs a command", "write": "it changes files", "tool": "the tool asks by itself"}
"""Why a tool asks by itself, by the effect of its calls."""


class Reason(NamedTuple):
    """One reason why a call asks.

    Attributes:
        kind: its class. `rule`: a rule of the configuration asks. `write`: the call changes files. `runs_later`: it
            changes what a program runs by itself later. `command`: it runs a command. `network`: it reaches other
            machines. `guard`: a plugin or a folder's hook asks about this call. `changed`: the tool is not the one that
            was trusted. `tool`: the tool asks by itself.
        text: for the person.
        plugin: who asks; "" for the configuration.
    """

    kind: ReasonKind
    text: str = ""
    plugin: str = ""


def reasons_of(about: Mapping[str, Any]) -> tuple[Reason, ...]:
    """Read the reasons of an approval request from its metadata. A text without a class is a guard's."""
    plugin, text = str(about.get("plugin", "")), about.get("reason")
    given: Sequence[Mapping[str, Any]] = about.get("reasons") or ([{"kind": "guard", "text": text}] if text else ())
    return tuple(Reason(r["kind"], str(r.get("text", "")), str(r.get("plugin", plugin))) for r in given)


def words_of(reasons: Sequence[Reason]) -> str:
    """Return all reasons in words, for a person."""
    return "; ".join(reason.text or reason.kind for reason in reasons)


def are_answered(reasons: Sequence[Reason], kinds: Collection[ReasonKind]) -> bool:
    """Whether an answer to these classes answers every reason. Where no reason is known, nothing is answered."""
    return bool(reasons) and all(reason.kind in kinds for reason in reasons)


def as_rule(given: Mapping[str, bool | T] | ToolExpression | str | bool, where: str) -> Rule[T]:
    """Return a rule as it is applied. Any other true value would look like a rule, and ask about nothing.

    Raises:
        TypeError: it has another form; the message begins with `where` it was given.
        ExpressionParseError: it is a text that is not an expression.
    """
    rule: object = given
    if isinstance(rule, str | ToolExpression):
        return as_expression(rule)
    if isinstance(rule, bool):
        return rule
    if not isinstance(rule, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - whatever the caller gave
        expected = "{tool name: True, False or a predicate}, one expression, or False"
        raise TypeError(f"{where} is {expected}; this is of type {type(rule).__name__}")
    for name, answer in cast("Mapping[object, object]", rule).items():
        if not isinstance(name, str) or not (isinstance(answer, bool) or callable(answer)):
            raise TypeError(f"{where}: {name!r}: {answer!r} is not True, False or a predicate on the call")
    return cast("Mapping[str, bool | T]", given)


def why_asks(
    rules: Sequence[Rule[T]],
    tools: Sequence[ToolFacts],
    *,
    by_default: bool = False,
    never: bool = False,
) -> tuple[tuple[Reason, ...], list[T]]:
    """Return why every call of a tool asks, and what the rules say of its single calls.

    An explicit False of the first rule answers every reason but `changed`.

    Args:
        rules: the first may take an approval back.
        tools: the tool, and those that it replaces: the rules for them apply too.
        by_default: whether every tool asks.
        never: whether none does.
    """
    tool = tools[0]
    reasons = [Reason("changed", tool.changed, tool.plugin)] if tool.changed else []
    first, *further = [_answers(rule, tools) for rule in rules]
    taken_back = bool(first) and not any(first) and not any(map(any, further))
    if tool.searches or taken_back or never:
        return tuple(reasons), []
    said = [*chain(first, *further)]
    reasons += [Reason(known.effect, SAYS[known.effect], known.plugin) for known in tools if known.asks]
    if by_default or True in said:
        reasons.append(Reason("rule" if tool.effect == "tool" else tool.effect, RULE))
    return tuple(reasons), [answer for answer in said if not isinstance(answer, bool)]


def _answers(rule: Rule[T], tools: Sequence[ToolFacts]) -> list[bool | T]:
    """Return a rule's answers for the tools, by any of their names: True, what decides on a call, or a False."""
    if isinstance(rule, bool):
        return [rule]
    if isinstance(rule, ToolExpression):
        return [True] if any(map(rule.matches, tools)) else []
    return [rule[name] for tool in tools for name in tool.names if name in rule]
