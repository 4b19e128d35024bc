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
    _replaced: dict[tuple[str, str], ToolFacts] = field(default_factory=dict[tuple[str, str], ToolFacts])
    """(plugin, original name) -> the tool whose place another one takes."""
    _replacers: dict[str, list[tuple[str, str]]] = field(default_factory=dict[str, list[tuple[str, str]]])
    """Plugin -> the tools that its own ones replace."""
    _pending: dict[tuple[str, str], list[ToolFacts]] | None = field(
        default_factory=dict[tuple[str, str], list[ToolFacts]]
    )
    """(plugin, toolset) -> its tools, until the rules have been checked; then None."""
    _said: dict[str, _Said] = field(default_factory=dict[str, _Said])
    """Cache: the last definition of each name, and what the rules say of it."""

    def replacing(self, plugin: str, other: str, tool: str) -> None:
        """Record that `plugin`'s tool replaces `other`'s of that original name, whose approval rules still apply."""
        self._replacers.setdefault(plugin, []).append((other, tool))

    def replaced(self, definition: ToolDefinition) -> None:
        """Record a replaced tool."""
        known = tool_facts(definition)
        self._replaced[known.plugin, known.original] = known

    def seen(self, toolset: tuple[str, str], definitions: Sequence[ToolDefinition]) -> None:
        """Collect the tools of a toolset (plugin, label) until the rules have been checked once."""
        pending = self._pending  # read once: a run in another thread may finish the check meanwhile
        if pending is not None:
            pending[toolset] = [*map(tool_facts, definitions)]

    @property
    def is_checked(self) -> bool:
        """Whether the rules have been checked against the tools."""
        return self._pending is None

    def trust_names(self) -> None:
        """Skip the check: the parent agent has checked these rules."""
        self._pending = None

    def check(self, definitions: Sequence[ToolDefinition]) -> None:
        """Check the rules until they pass once, against these tools and all that were seen: some appear only in a run.

        Raises:
            UserError: a rule matches no tool; with a suggestion.
        """
        pending = self._pending
        if pending is not None:
            seen = [tool for tools in [*pending.values()] for tool in tools]
            # Rules may name a replaced tool: its approvals still apply.
            self.rules.check([*map(tool_facts, definitions), *seen, *self._replaced.values()])
            self._pending = None  # only now: a rule that matches nothing must also stop the next run

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
        return [known, *(self._replaced[p] for p in pairs if p[1] in known.names and p in self._replaced)]
