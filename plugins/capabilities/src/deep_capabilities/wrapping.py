"""The capability of an entry as the agent has it: its tools are named, tagged, limited and contained."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, cast

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, AgentToolset, CombinedToolset, DynamicToolset, WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool

from deep_core import ToolExpression, ToolFacts

from .known import tags_for
from .options import PLUGIN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["EntryRules", "EntryToolset", "has_tools", "with_rules"]

Rule = ToolExpression | bool | None


class EntryRules(NamedTuple):
    """What an entry says of its tools.

    Attributes:
        entry: its name.
        source: what the tools come from, for their metadata.
        harness: whether the class is one of Pydantic AI's harness.
        prefix: of the tools' names.
        offered: the tools that the agent has; None for all. An expression of several layers holds as a whole.
        require_approval: the tools that ask; False: none by itself.
        defer: the tools that the model finds by tool search.
        tags: original name -> tags.
    """

    entry: str
    source: str
    harness: bool = False
    prefix: str = ""
    offered: tuple[ToolExpression, ...] = ()
    require_approval: tuple[Rule, ...] = ()
    defer: tuple[Rule, ...] = ()
    tags: Mapping[str, Sequence[str]] = {}

    def final_name(self, original: str) -> str:
        """Return the name by which the model calls a tool."""
        return f"{self.prefix}_{original}" if self.prefix else original

    def apply(self, definition: ToolDefinition) -> ToolDefinition | None:
        """Return the definition for the kernel, which gates it; None if the entry does not offer the tool."""
        metadata = definition.metadata or {}
        given = metadata.get("tags")
        tags = self.tags.get(definition.name) or given or tags_for(definition.name, metadata, harness=self.harness)
        name = self.final_name(definition.name)
        known = ToolFacts(name, definition.name, PLUGIN, tuple(tags) or ("write",))
        if not all(rule.matches(known) for rule in self.offered):
            return None
        metadata = {**metadata, "source": self.source, **({"tags": [*tags]} if tags else {})}
        kind = definition.kind
        if _holds(self.require_approval, known) and kind == "function":
            kind = "unapproved"  # the kernel gates a tool of this kind, and sends it as a function
        elif False in self.require_approval:
            kind, metadata = "function" if kind == "unapproved" else kind, {**metadata, "asks": False}
        defer = definition.defer_loading or _holds(self.defer, known)
        return replace(definition, name=name, kind=kind, defer_loading=defer, metadata=metadata)


def _holds(rules: tuple[Rule, ...], tool: ToolFacts) -> bool:
    return any(rule.matches(tool) if isinstance(rule, ToolExpression) else rule is True for rule in rules)


@dataclass(eq=False, repr=False)
class EntryToolset(WrapperToolset[Any]):
    """The tools of one entry. If they cannot be listed, the run goes on without them."""

    rules: EntryRules
    failed: Callable[[str, BaseException], None]
    """Called with what the toolset could not do, and the error."""
    _entered: list[bool] = field(default_factory=list[bool], init=False, repr=False, compare=False)

    def apply(self, visitor: Callable[[AbstractToolset[Any]], None]) -> None:
        """Visit this toolset alone: the kernel would take the names inside for final ones."""
        visitor(self)

    async def for_run(self, ctx: RunContext[Any]) -> AbstractToolset[Any]:
        """Return this run's toolset."""
        return await self._or_none(self.wrapped.for_run(ctx))

    async def for_run_step(self, ctx: RunContext[Any]) -> AbstractToolset[Any]:
        """Return this step's toolset."""
        return await self._or_none(self.wrapped.for_run_step(ctx))

    async def _or_none(self, made: Awaitable[AbstractToolset[Any]]) -> AbstractToolset[Any]:
        try:
            wrapped = await made
        except Exception as error:  # noqa: BLE001 - one entry must not end the run
            self.failed("could not be made", error)
            wrapped = CombinedToolset[Any]([])
        return self if wrapped is self.wrapped else replace(self, wrapped=wrapped)

    async def __aenter__(self) -> Self:
        """Connect."""
        try:
            await self.wrapped.__aenter__()
        except Exception as error:  # noqa: BLE001 - one entry must not end the run
            self.failed("could not start", error)
            self._entered.append(False)
        else:
            self._entered.append(True)
        return self

    async def __aexit__(self, *args: Any) -> bool | None:
        """Disconnect what connected."""
        return await self.wrapped.__aexit__(*args) if self._entered.pop() else None

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """List the offered tools by final name."""
        if self._entered and not self._entered[-1]:
            return {}
        try:
            listed = await self.wrapped.get_tools(ctx)
        except Exception as error:  # noqa: BLE001 - the same
            self.failed("could not list its tools", error)
            return {}
        made = ((tool, self.rules.apply(tool.tool_def)) for tool in listed.values())
        return {d.name: replace(tool, toolset=self, tool_def=d) for tool, d in made if d is not None}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Call the tool by the name that its author gave it."""
        if not self.rules.prefix:
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)
        original = name.removeprefix(f"{self.rules.prefix}_")
        inner = replace(tool, tool_def=replace(tool.tool_def, name=original))
        return await self.wrapped.call_tool(original, tool_args, replace(ctx, tool_name=original), inner)


@dataclass(eq=False, repr=False)
class AddingToolset(WrapperToolset[Any]):
    """What a capability puts around all tools. Those that it adds follow the entry's rules, and belong to it."""

    rules: EntryRules
    capability_id: str | None

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """List the tools: those that the kernel knows as they are, the others attributed."""
        out: dict[str, ToolsetTool[Any]] = {}
        for name, tool in (await self.wrapped.get_tools(ctx)).items():
            definition: ToolDefinition | None = tool.tool_def
            if "plugin" not in (tool.tool_def.metadata or {}):
                own = replace(tool.tool_def, capability_id=self.capability_id)
                definition = self.rules.apply(own)
            if definition is not None:
                out[name] = replace(tool, tool_def=definition)
        return out


class _WithRules(AbstractCapability[Any]):
    """Stands before a capability's own class: its tools are those that the entry offers."""

    entry_rules: ClassVar[EntryRules]
    entry_adds: ClassVar[bool]
    entry_failed: ClassVar[Callable[[str, BaseException], None]]

    def get_toolset(self) -> AgentToolset[Any] | None:
        toolset: Any = super().get_toolset()
        if toolset is None:
            # Rules may name tools that it adds in a run: a toolset says that not all tools are known before.
            return CombinedToolset[Any]([]) if self.entry_adds else None
        if not isinstance(toolset, AbstractToolset):
            toolset = DynamicToolset[Any](toolset, id=self.id)
        return EntryToolset(cast("AbstractToolset[Any]", toolset), self.entry_rules, type(self).entry_failed)

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any] | None:
        made = super().get_wrapper_toolset(toolset)
        rules = self.entry_rules._replace(prefix="")  # calls come back by the name that is listed here
        return made and AddingToolset(made, rules, self.id)


def with_rules(
    capability: AbstractCapability[Any], own_id: str, rules: EntryRules, failed: Callable[[str, BaseException], None]
) -> AbstractCapability[Any]:
    """Return a copy of a capability whose tools follow the entry's rules.

    Its class becomes a subclass of its class. A wrapper would stand in its place: capabilities look for each other by
    class, and for themselves by identity, and copies for one run keep the class.
    """
    own = type(capability)
    adds = own.get_wrapper_toolset is not AbstractCapability.get_wrapper_toolset
    body = {
        "entry_rules": rules,
        "entry_adds": adds,
        "entry_failed": staticmethod(failed),
        "__module__": own.__module__,
    }
    made = copy.copy(capability)
    made.__class__ = type(own.__name__, (_WithRules, own), body)
    made.id = own_id
    return made


def has_tools(capability: AbstractCapability[Any]) -> bool:
    """Whether a capability may add tools, or put something around all of them."""
    own = type(capability)
    return (
        own.get_toolset is not AbstractCapability.get_toolset
        or own.get_wrapper_toolset is not AbstractCapability.get_wrapper_toolset
    )
