"""The rules of one agent: which tools the model sees, and which calls ask. `decisions.py` applies them to calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic_ai.exceptions import UserError
from tool_expressions import (
    Reason,
    ToolExpression,
    ToolFacts,
    as_rule,
    check_atoms,
    check_matches,
    find_slips,
    why_asks,
)

from ...errors import suggest, warn
from ...plugins.contributions import InterruptOn, Predicate


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
        try:
            self._asking = [as_rule(rule, "interrupt_on") for rule in (self.interrupt_on, *self.narrowing)]
        except TypeError as error:
            raise UserError(str(error)) from None

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

    def asking(self, tools: Sequence[ToolFacts]) -> tuple[tuple[Reason, ...], list[Predicate]]:
        """Return why every call of a tool asks, and what decides on single calls. The tools that it replaces count."""
        never = self.interrupt_on is False and not self.narrowing
        return why_asks(self._asking, tools, by_default=self.ask_by_default, never=never)
