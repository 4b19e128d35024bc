"""The tools of one agent as its rules see them: what was listed, what replaces what, and how each tool asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from tool_expressions import Reason, ToolFacts, asking_facts, tool_facts

if TYPE_CHECKING:
    from pydantic_ai import ToolDefinition

    from ...plugins.contributions import Predicate
    from .rules import Rules

Asks = Literal["never", "always", "depends", "denied"]
"""How a tool asks: `depends` on the arguments; `denied` would ask, and no call can wait."""


class _Said(NamedTuple):
    """What the rules say of a tool with this definition.

    Attributes:
        definition: the tool.
        shown: whether the model sees it.
        how: how it asks.
        reasons: why every call of it asks.
        predicates: what decides on its single calls.
    """

    definition: ToolDefinition
    shown: bool
    how: Asks
    reasons: tuple[Reason, ...]
    predicates: list[Predicate]


@dataclass(eq=False, repr=False)
class Catalog:
    """What an agent's policy knows of tools. Every run of the agent adds what it lists."""

    rules: Rules
    is_checked: bool = False
    """Whether the rules match the tools; or the parent agent has checked them."""
    _facts: dict[tuple[str, str], ToolFacts] = field(default_factory=dict[tuple[str, str], ToolFacts])
    """(plugin, original name) -> the tool, also one whose place another takes."""
    _replacers: dict[str, list[tuple[str, str]]] = field(default_factory=dict[str, list[tuple[str, str]]])
    """Plugin -> the tools that its own ones replace."""
    _said: dict[str, _Said] = field(default_factory=dict[str, _Said])
    """Cache: the last definition of each name, and what the rules say of it."""

    def replacing(self, plugin: str, other: str, tool: str) -> None:
        """Record that `plugin`'s tool replaces `other`'s of that original name, whose approval rules still apply."""
        self._replacers.setdefault(plugin, []).append((other, tool))

    def seen(self, definition: ToolDefinition) -> None:
        """Record a tool. Rules may name it though it is not offered."""
        known = tool_facts(definition)
        self._facts[known.plugin, known.original] = known

    def check(self, definitions: Sequence[ToolDefinition]) -> None:
        """Check the rules until they pass once, against these tools and all that were seen: some appear only in a run.

        Raises:
            UserError: a rule matches no tool; with a suggestion.
        """
        if not self.is_checked:
            self.rules.check([*map(tool_facts, definitions), *self._facts.values()])
            self.is_checked = True  # only now: a rule that matches nothing must also stop the next run

    @property
    def names(self) -> set[str]:
        """The names of all tools that the rules were asked about, withheld ones too."""
        return {*self._said}

    def shows(self, definition: ToolDefinition) -> bool:
        """Whether the model sees the tool and may call it."""
        return self.of(definition).shown

    def of(self, definition: ToolDefinition) -> _Said:
        """Return what the rules say of a tool."""
        said = self._said.get(definition.name)
        if said is None or (said.definition is not definition and said.definition != definition):
            reasons, predicates = self.rules.asking(self._stands_for(definition))
            how = ("always" if self.rules.asks else "denied") if reasons else "depends" if predicates else "never"
            shown = self.rules.show(tool_facts(definition))
            self._said[definition.name] = said = _Said(definition, shown, how, reasons, predicates)
        return said

    def _stands_for(self, definition: ToolDefinition) -> list[ToolFacts]:
        """Return the tool and the tools that it replaces: rules for either apply."""
        known = asking_facts(definition)
        pairs = self._replacers.get(known.plugin, ())
        return [known, *(self._facts[p] for p in pairs if p[1] in known.names and p in self._facts)]
