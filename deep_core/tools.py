"""Assemble, tools: every plugin's toolset attributed, renamed, filtered and gated as the configuration says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self, cast

from pydantic_ai import ToolDefinition
from pydantic_ai.exceptions import UserError
from pydantic_ai.tools import RunContext
from pydantic_ai.toolsets import AbstractToolset, CombinedToolset, FunctionToolset, WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool

from .approvals import calls_of
from .calls import Incidents
from .errors import PluginError, clash_message
from .expressions import Not, ToolExpression, ToolSubject, check_matches

if TYPE_CHECKING:
    from .policy import Policy

__all__ = ["RESERVED", "PluginToolset", "ToolRules", "Toolbox", "static_definitions", "subject_of"]

RESERVED = ("search_tools", "load_capability", "final_result")
"""Tool names that Pydantic AI takes for itself as soon as a deferred tool, capability or an output model exists."""
DEFAULT_TAGS = ("write",)
"""What a tool without tags counts as: nobody has said that it only reads."""


def subject_of(definition: ToolDefinition) -> ToolSubject:
    """What expressions match of an attributed tool."""
    return ToolSubject.of(definition)


def tags_of(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """A tool's tags: its own, else those that its MCP annotations mean, else `write`."""
    if metadata.get("tags"):
        return tuple(dict.fromkeys(metadata["tags"]))
    hints = cast("Mapping[str, Any]", metadata.get("annotations") or {})
    tags: list[str] = []
    if hints.get("readOnlyHint"):
        tags.append("read")
    elif hints:
        tags.append("write")
    if hints.get("destructiveHint"):
        tags.append("destructive")
    if hints.get("openWorldHint"):
        tags.append("network")
    return tuple(tags) or DEFAULT_TAGS


@dataclass(frozen=True)
class ToolRules:
    """What the configuration says of one plugin's tools.

    Attributes:
        label: the plugin as errors name it: `weather 0.1.0 (acme-weather)`.
        prefix: put before every name, with an underscore.
        offered: which are offered; None means all.
        approve: which need approval; None means those that say so themselves.
        defer: which are offered on demand, through tool search.
        hidden: original names whose place another plugin's tool takes.
    """

    label: str
    prefix: str = ""
    offered: ToolExpression | None = None
    approve: ToolExpression | bool | None = None
    defer: ToolExpression | bool | None = None
    hidden: frozenset[str] = frozenset()

    def attribute(self, plugin: str, definition: ToolDefinition) -> ToolDefinition:
        """The definition as the model and the policy see it. `approval` in its metadata: whether it asks of itself."""
        metadata = definition.metadata or {}
        name = f"{self.prefix}_{definition.name}" if self.prefix else definition.name
        tags = tags_of(metadata)
        subject = ToolSubject(names=(name, definition.name), plugin=plugin, tags=frozenset(tags))
        unapproved = definition.kind == "unapproved"
        approve = unapproved if self.approve is None else unapproved or _holds(self.approve, subject)
        if self.approve is False:
            approve = False
        return replace(
            definition,
            name=name,
            # The policy gates at execution; `unapproved` would hand the call over before any rule is asked.
            kind="function" if unapproved else definition.kind,
            defer_loading=definition.defer_loading or _holds(self.defer, subject),
            metadata={**metadata, "plugin": plugin, "original": definition.name, "tags": tags, "approval": approve},
        )


def _holds(rule: ToolExpression | bool | None, subject: ToolSubject) -> bool:
    return rule.matches(subject) if isinstance(rule, ToolExpression) else bool(rule)


@dataclass
class PluginToolset(WrapperToolset[Any]):
    """One toolset of one plugin (or of the application, `app`), attributed and gated.

    Calls pass the policy here too, innermost, so that nothing between the policy and the tool can change what was
    approved.
    """

    plugin: str
    rules: ToolRules
    policy: Policy
    incidents: Incidents
    _entered: list[bool] = field(default_factory=list[bool], init=False, repr=False, compare=False)
    """For each time that it was entered, whether that worked."""
    _seen: dict[str, tuple[ToolDefinition, ToolDefinition]] = field(
        default_factory=dict[str, tuple[ToolDefinition, ToolDefinition]], repr=False, compare=False
    )
    """Cache: original name -> the definition as listed last, and what became of it. Safe to share between runs."""
    _final: dict[str, ToolDefinition] = field(default_factory=dict[str, ToolDefinition], repr=False, compare=False)
    """Final name -> the attributed definition."""

    @property
    def id(self) -> str | None:
        """The wrapped toolset's id: durable engines need it."""
        return self.wrapped.id

    async def for_run(self, ctx: RunContext[Any]) -> AbstractToolset[Any]:
        """Itself, or this run's own: one that connects somewhere may fail for one run and not for another."""
        wrapped = await self.wrapped.for_run(ctx)
        if wrapped is self.wrapped and static_definitions(wrapped) is not None:
            return self
        return replace(self, wrapped=wrapped)

    async def __aenter__(self) -> Self:
        """Connect. A plugin's toolset that cannot is left out of the run; the application's own raises."""
        try:
            await self.wrapped.__aenter__()
        except Exception as error:
            self._failed("could not be entered", error)
            self._entered.append(False)
        else:
            self._entered.append(True)
        return self

    async def __aexit__(self, *args: Any) -> bool | None:
        """Disconnect what was connected."""
        return await self.wrapped.__aexit__(*args) if self._entered.pop() else None

    def _failed(self, what: str, error: Exception) -> None:
        if self.plugin == "app":
            raise error
        error.add_note(f"plugin {self.rules.label}, toolset {self.wrapped.label}")
        self.incidents.record(self.plugin, f"toolset {self.wrapped.label}", error, f"it {what} and was left out")

    async def _listed(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        if self._entered and not self._entered[-1]:
            return {}
        try:
            return await self.wrapped.get_tools(ctx)
        except Exception as error:
            self._failed("could not list its tools", error)
            return {}

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """The offered tools, by final name."""
        out: dict[str, ToolsetTool[Any]] = {}
        listed: list[ToolDefinition] = []
        own = calls_of(ctx).own
        for name, tool in (await self._listed(ctx)).items():
            definition = self._attributed(name, tool.tool_def)
            listed.append(definition)
            if name in self.rules.hidden:
                self.policy.replaced(self.plugin, definition)
            elif self._offers(definition):
                own[definition.name] = definition
                out[definition.name] = replace(tool, toolset=self, tool_def=definition)
        self.policy.seen(self.plugin, listed)
        return out

    def _offers(self, definition: ToolDefinition) -> bool:
        return self.rules.offered is None or self.rules.offered.matches(subject_of(definition))

    def _attributed(self, name: str, definition: ToolDefinition) -> ToolDefinition:
        seen = self._seen.get(name)
        if seen is None or seen[0] != definition:
            self._seen[name] = seen = (definition, self.rules.attribute(self.plugin, definition))
            self._final[seen[1].name] = seen[1]
        return seen[1]

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Gate the call with the arguments that are about to be used, then make it under the author's name."""
        # The definition as listed here, not as it comes back: something may have changed it on the way.
        definition = calls_of(ctx).own.get(name, self._final[name])
        await self.policy.admit(ctx, definition, tool_args)
        original: str = (definition.metadata or {})["original"]
        inner = replace(tool, tool_def=replace(tool.tool_def, name=original))
        own = replace(ctx, tool_name=original)
        if ctx.tool_call_approved and ctx.tool_call_id not in calls_of(ctx).approved:
            own = replace(own, tool_call_approved=False, tool_call_metadata=None)  # nobody approved it: it is forged
        return await self.wrapped.call_tool(original, tool_args, own, inner)

    def static_names(self) -> list[ToolDefinition] | None:
        """The attributed tools, where they are known without I/O."""
        definitions = static_definitions(self.wrapped)
        return None if definitions is None else [self._attributed(d.name, d) for d in definitions]


def function_tools(toolset: object) -> list[str]:
    """Names of the tools in the function toolsets that a toolset is made of."""
    names: list[str] = []

    def visit(leaf: AbstractToolset[Any]) -> None:
        names.extend(definition.name for definition in static_definitions(leaf) or ())

    if isinstance(toolset, AbstractToolset):
        cast("AbstractToolset[Any]", toolset).apply(visit)
    return names


def static_definitions(toolset: AbstractToolset[Any]) -> list[ToolDefinition] | None:
    """A toolset's tools where they are known without I/O, else None."""
    if type(toolset) is FunctionToolset:
        return [tool.tool_def for tool in toolset.tools.values()]
    return None


@dataclass
class Toolbox(CombinedToolset[Any]):
    """All plugins' toolsets as one; a clash names both plugins and the ways out."""

    def __post_init__(self) -> None:
        check_clashes(self.claims())

    def claims(self) -> list[Claim]:
        """The names of the offered tools that are known without I/O."""
        found = [(toolset, d) for toolset in self._plugin_toolsets() for d in toolset.static_names() or ()]
        return [(d.name, toolset.plugin, toolset.rules.label) for toolset, d in found if offered(toolset, d)]

    def _plugin_toolsets(self) -> Iterator[PluginToolset]:
        for toolset in self.toolsets:
            if isinstance(toolset, PluginToolset):
                yield toolset

    def static(self) -> tuple[list[ToolDefinition], bool]:
        """The offered tools known without I/O, and whether these are all there can be."""
        out: list[ToolDefinition] = []
        complete = True
        for toolset in self._plugin_toolsets():
            definitions = toolset.static_names()
            complete = complete and definitions is not None
            out.extend(d for d in definitions or () if offered(toolset, d))
        return out, complete

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """All tools, by final name.

        Raises:
            PluginError: two of one name, or a reserved name, that only listing could tell.
        """
        try:
            tools = await super().get_tools(ctx)
        except UserError:
            listed = [(toolset, await toolset.get_tools(ctx)) for toolset in self._plugin_toolsets()]
            check_clashes((name, toolset.plugin, toolset.rules.label) for toolset, names in listed for name in names)
            raise
        for name in RESERVED:
            if name in tools:
                owner = next(t for t in self._plugin_toolsets() if t.plugin == _plugin(tools[name].tool_def))
                raise _reserved(name, owner.plugin, owner.rules.label)
        return tools


def offered(toolset: PluginToolset, definition: ToolDefinition) -> bool:
    """Whether the model is shown this tool of the toolset, as far as its plugin's settings say."""
    original = (definition.metadata or {})["original"]
    return original not in toolset.rules.hidden and (
        toolset.rules.offered is None or toolset.rules.offered.matches(subject_of(definition))
    )


def _plugin(definition: ToolDefinition) -> str:
    return (definition.metadata or {}).get("plugin", "app")


Claim = tuple[str, str, str]
"""A tool's name, the plugin that has it, and the plugin's label."""


def check_clashes(claims: Iterable[Claim]) -> None:
    """Raise a PluginError for two tools of one name, or one of a reserved name."""
    owners: dict[str, tuple[str, str]] = {}
    for name, plugin, label in claims:
        if name in RESERVED:
            raise _reserved(name, plugin, label)
        if name in owners:
            raise PluginError(clash_message("tool", name, [owners[name], (plugin, label)]))
        owners[name] = (plugin, label)


def _reserved(name: str, plugin: str, label: str) -> PluginError:
    return PluginError(
        f"tool name {name!r} is reserved by Pydantic AI, and is used by\n  {label}\nChoose one way out:\n"
        f'  [plugins.{plugin}] prefix = "{plugin}"\n  [plugins.{plugin}] tools = "~name:{name}"\n'
        f"  [plugins.{plugin}] enabled = false",
        plugin=plugin,
    )


def check_rule(rule: object, definitions: Sequence[ToolDefinition], where: str) -> None:
    """Raise UnmatchedExpression where a rule is an expression that matches none of the tools.

    `~x` may leave nothing, but then `x` must be something.
    """
    if isinstance(rule, Not) and not any(rule.matches(subject_of(definition)) for definition in definitions):
        rule = rule.operand
    if isinstance(rule, ToolExpression):
        check_matches(rule, [subject_of(definition) for definition in definitions], where=where)


Listener = Callable[[str, Sequence[ToolDefinition]], None]
