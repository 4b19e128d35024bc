"""The rules of one agent: which tools the model sees, and which calls ask. `decisions.py` applies them to calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, TypeAlias, TypeGuard

from pydantic_ai.exceptions import UserError
from tool_expressions import ToolExpression, ToolFacts, as_expression, check_atoms, check_matches, find_slips

from ...errors import suggest, warn
from ...plugins.contributions import InterruptOn, Predicate
from ...tables import is_table

Rule: TypeAlias = "Mapping[str, bool | Predicate] | ToolExpression | bool"
Asks = Literal["never", "always", "depends", "denied"]
"""How a tool asks: `depends` on the arguments; `denied` would ask, and no call can wait."""


@dataclass(eq=False, repr=False)
class Rules:
    """What the application and the configuration say about tools.

    Attributes:
        interrupt_on: see `InterruptOn`.
        shown: the model sees, and may call, only tools that all of these match.
        ask_by_default: every tool asks.
        narrowing: `interrupt_on` rules of untrusted layers and of subagents, which can only add.

    Raises:
        UserError: a rule of `interrupt_on` has a wrong form.
    """

    interrupt_on: InterruptOn = field(default_factory=dict[str, "bool | Predicate"])
    shown: tuple[ToolExpression, ...] = ()
    ask_by_default: bool = False
    narrowing: tuple[InterruptOn, ...] = ()

    def __post_init__(self) -> None:
        self._asking = [_rule(rule) for rule in (self.interrupt_on, *self.narrowing)]

    @property
    def asks(self) -> bool:
        """Whether a call can wait for approval. With `interrupt_on=False` none can: a call that would ask is denied."""
        return self.interrupt_on is not False

    @property
    def name_tools(self) -> bool:
        """Whether a rule names tools, so that it must be checked against the existing ones."""
        expressions = bool(self.shown) or any(isinstance(rule, ToolExpression) for rule in self._asking)
        return expressions or any(rule for rule in self._asking if isinstance(rule, Mapping))

    def check(self, tools: Sequence[ToolFacts]) -> None:
        """Check that every rule, and each part of an `interrupt_on` rule, matches a tool: a misspelt one does nothing.

        Raises:
            UserError: a rule matches no tool; with a suggestion.
        """
        for expression in self.shown:
            check_matches(expression, tools, where="tool_filter")
            for slip in find_slips(expression, tools, where="tool_filter"):
                warn(slip)
        for rule in self._asking:
            if isinstance(rule, ToolExpression):
                check_matches(rule, tools, where="interrupt_on")
                check_atoms(rule, tools, where="interrupt_on")
            elif isinstance(rule, Mapping):
                known = {name for tool in tools for name in tool.names}
                for name in (name for name in rule if name not in known):
                    have = f" Tools: {', '.join(sorted(known))}." if known else " There are no tools."
                    raise UserError(f"interrupt_on: there is no tool {name!r}.{suggest(name, known) or have}")

    def show(self, tool: ToolFacts) -> bool:
        """Whether the model sees the tool and may call it."""
        # The search only finds what is shown, and what it finds is gated itself.
        return tool.searches or all(expression.matches(tool) for expression in self.shown)

    def how(self, tools: Sequence[ToolFacts]) -> Asks:
        """Return how a tool asks: the first one, with the rules for those that it replaces."""
        if tools[0].searches or (self.interrupt_on is False and not self.narrowing):
            return "never"
        first, *further = self._answers(tools)
        if first and not any(first) and not any(map(any, further)):
            return "never"
        said = [*chain(first, *further)]
        if self.ask_by_default or True in said or any(tool.asks for tool in tools):
            return "always" if self.asks else "denied"
        return "depends" if any(map(callable, said)) else "never"

    def predicates(self, tools: Sequence[ToolFacts]) -> list[Predicate]:
        """Return the predicates on a call of the tool, or of one that it replaces."""
        return [said for said in chain(*self._answers(tools)) if not isinstance(said, bool)]

    def _answers(self, tools: Sequence[ToolFacts]) -> list[list[bool | Predicate]]:
        """Return each rule's answers for the tools, by any of their names: True, a predicate, or an explicit False."""
        names = [name for tool in tools for name in tool.names]
        out: list[list[bool | Predicate]] = []
        for rule in self._asking:
            if isinstance(rule, bool):
                out.append([rule])
            elif isinstance(rule, ToolExpression):
                out.append([True] if any(map(rule.matches, tools)) else [])
            else:
                out.append([rule[name] for name in names if name in rule])
        return out


def _rule(rule: InterruptOn) -> Rule:
    if isinstance(rule, str | ToolExpression):
        return as_expression(rule)
    if isinstance(rule, bool) or _is_table(rule):
        return rule
    # Any other true value would look like a rule and ask about nothing.
    raise UserError(
        "interrupt_on is {tool name: True, False or a predicate}, one expression, or False; this is of type "
        f"{type(rule).__name__}"
    )


def _is_table(rule: object) -> TypeGuard[Mapping[str, bool | Predicate]]:
    if not is_table(rule):
        return False
    for name, answer in rule.items():
        if not isinstance(name, str) or not (isinstance(answer, bool) or callable(answer)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"interrupt_on: {name!r}: {answer!r} is not True, False or a predicate on the call")
    return True
