"""Toolsets that attribute, rename, filter and gate the tools of plugins, as the configuration says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from operator import is_
from typing import TYPE_CHECKING, Self, TypeAlias, TypeGuard, TypeVar

from pydantic_ai import Tool, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, CombinedToolset, FunctionToolset, PreparedToolset, WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool
from tool_expressions import ToolExpression, ToolFacts, tool_facts

from ...errors import PluginError, clash_message, describe_error, reraise_control
from ...tables import is_list
from .._pydantic_ai import QuietToolset, gather, has_instructions
from ..policy.decisions import Policy, calls_of
from ..run.session import Deps

if TYPE_CHECKING:
    from ...plugins.dispatch import Incidents
    from ...plugins.kernel import PluginKernel
    from ..run.session import Args, Ctx

RESERVED_TOOL_NAMES = ("search_tools", "load_capability", "final_result")
"""Tool names that Pydantic AI takes for itself as soon as a deferred tool, capability or an output model exists."""
T = TypeVar("T")
Tools: TypeAlias = dict[str, ToolsetTool[Deps]]


@dataclass(eq=False, repr=False)
class OfferedWhile:
    """The `prepare` of a tool that is offered while a condition holds, and costs nothing while it does not.

    Attributes:
        holds: asked at each request.
    """

    holds: Callable[[Ctx], bool]

    async def __call__(self, ctx: Ctx, tool: ToolDefinition) -> ToolDefinition | None:
        """Return the tool or None, as Pydantic AI asks of a `prepare`."""
        return tool if self.holds(ctx) else None


@dataclass(eq=False, repr=False)
class ToolRules:
    """The configuration of one plugin's tools.

    Attributes:
        prefix: goes before every name, with an underscore.
        offered: the tools that the model sees; None for all.
        require_approval: the tools that ask; None for those whose author marked them.
        defer: the tools that the model finds with tool search.
        hidden: original names of tools that another plugin replaces.
        distribution: what installs the plugin.
    """

    prefix: str = ""
    offered: ToolExpression | None = None
    require_approval: ToolExpression | bool | None = None
    defer: ToolExpression | bool | None = None
    hidden: frozenset[str] = frozenset()
    distribution: str = ""

    def attribute(self, plugin: str, definition: ToolDefinition, *, searches: bool = False) -> ToolDefinition:
        """Return the definition for the model and the policy, with the facts in its metadata."""
        metadata = definition.metadata or {}
        name = f"{self.prefix}_{definition.name}" if self.prefix else definition.name
        known = ToolFacts.of(plugin, definition, name, searches=searches)
        unapproved = definition.kind == "unapproved"
        # The tag `execute` asks as `requires_approval` does. Only the author can turn that off, with `asks` in the same
        # metadata: deep-filesystem's option for `execute` does so.
        executes = "execute" in known.tags and metadata.get("asks") is not False
        rule = self.require_approval
        asks = rule is not False and (unapproved or executes or _holds(rule, known))
        return replace(
            definition,
            name=name,
            # The policy gates at execution; Pydantic AI would defer an `unapproved` call before any rule sees it.
            kind="function" if unapproved else definition.kind,
            defer_loading=definition.defer_loading or _holds(self.defer, known),
            metadata={**metadata, **known._replace(asks=asks, distribution=self.distribution).as_metadata()},
        )


def _holds(rule: ToolExpression | bool | None, tool: ToolFacts) -> bool:
    return rule.matches(tool) if isinstance(rule, ToolExpression) else bool(rule)


@dataclass(eq=False, repr=False)
class PluginToolset(WrapperToolset[Deps]):
    """One toolset of one plugin (or of the application, `app`), attributed and verified.

    The policy verifies here that a call is the one that it decided on: nothing but the tool itself comes after.
    """

    plugin: str
    rules: ToolRules
    policy: Policy
    kernel: PluginKernel
    incidents: Incidents
    _entered: list[bool] = field(default_factory=list[bool], init=False, repr=False, compare=False)
    """Whether each `__aenter__` worked."""
    _seen: dict[str, tuple[ToolDefinition, ToolDefinition]] = field(
        default_factory=dict[str, tuple[ToolDefinition, ToolDefinition]], repr=False, compare=False
    )
    """Cache: original name -> the definition listed last, as attributed. Safe to share between runs."""
    _fixed: tuple[object, Tools] = field(default=((), {}), init=False, repr=False, compare=False)
    """Cache: the attributes of the functions that no run changes, and those of them that are offered."""

    @property
    def id(self) -> str | None:
        """The wrapped toolset's id, which durable engines need."""
        return self.wrapped.id

    async def for_run(self, ctx: Ctx) -> AbstractToolset[Deps]:
        """Return this run's own toolset if it may connect somewhere: connecting can fail for one run only."""
        wrapped = await self.wrapped.for_run(ctx)
        if wrapped is self.wrapped and static_definitions(wrapped) is not None:
            return self
        return replace(self, wrapped=wrapped)

    async def __aenter__(self) -> Self:
        """Connect. If a plugin's toolset fails, the run continues without it; the application's own raises."""
        try:
            await self.wrapped.__aenter__()
        except BaseException as error:
            reraise_control(error)
            self._failed("could not be entered", error)
            self._entered.append(False)
        else:
            self._entered.append(True)
        return self

    async def __aexit__(self, *args: object) -> bool | None:
        """Disconnect, if connecting worked."""
        return await self.wrapped.__aexit__(*args) if self._entered.pop() else None

    def _failed(self, what: str, error: BaseException) -> None:
        if self.plugin == "app":
            raise error
        error.add_note(f"plugin {self.kernel.label(self.plugin)}, toolset {self.wrapped.label}")
        self.incidents.record(self.plugin, f"toolset {self.wrapped.label}", error, f"it {what} and was left out")

    async def _listed(self, own: AbstractToolset[Deps], ctx: Ctx) -> Tools:
        if self._entered and not self._entered[-1]:
            return {}
        try:
            _leave_out(own, ctx)
            with self.kernel.tracer.step(self.plugin, "toolset", own.id or own.label, ctx):
                return await own.get_tools(ctx)
        except BaseException as error:
            reraise_control(error)
            self._failed("could not list its tools", error)
            return {}

    async def get_tools(self, ctx: Ctx) -> Tools:
        """List the offered tools by final name. Those that a run may change come last."""
        tools, others = self._functions(self.wrapped, ctx)
        if others is not None:
            tools = {**tools, **self._offered(await self._listed(others, ctx))}
        return tools

    def _functions(self, own: AbstractToolset[Deps], ctx: Ctx) -> tuple[Tools, AbstractToolset[Deps] | None]:
        """Return the functions that no run changes, and a toolset of the others, which Pydantic AI prepares.

        It copies the run's context for each tool that it prepares: 4 % of a turn's CPU.
        """
        if type(own) is not FunctionToolset:
            return {}, own
        fixed = {
            name: (vars(tool), vars(tool.function_schema))
            for name, tool in own.tools.items()
            if type(tool) is Tool and not tool.prepare
        }
        made_of, tools = self._fixed
        if made_of != (ctx.max_retries, fixed):
            copies = {n: ({**t, "metadata": _copied(t["metadata"])}, {**schema}) for n, (t, schema) in fixed.items()}
            tools = self._offered({n: own.tool_for_tool_def(own.tools[n].tool_def, ctx=ctx) for n in fixed})
            self._fixed = (ctx.max_retries, copies), tools
        if len(fixed) == len(own.tools):
            return tools, None
        others = copy(own)
        others.tools = {name: tool for name, tool in own.tools.items() if name not in fixed}
        return tools, others

    def _offered(self, listed: Tools) -> Tools:
        own = [(tool, self._attributed(name, tool.tool_def)) for name, tool in listed.items()]
        return {d.name: replace(tool, toolset=self, tool_def=d) for tool, d in own if self.offers(d)}

    def offers(self, definition: ToolDefinition) -> bool:
        """Whether the plugin's settings let the model see this tool."""
        known, offered = tool_facts(definition), self.rules.offered
        return known.original not in self.rules.hidden and (offered is None or offered.matches(known))

    def _attributed(self, name: str, definition: ToolDefinition) -> ToolDefinition:
        seen = self._seen.get(name)
        if seen is None or seen[0] != definition:
            attributed = self.rules.attribute(self.plugin, definition)
            # Otherwise Pydantic AI sets both at each listing, on a copy.
            attributed.toolset_id = attributed.toolset_id or self.wrapped.id
            attributed.capability_id = attributed.capability_id or "deep"
            self._seen[name] = seen = (replace(definition, metadata=_copied(definition.metadata)), attributed)
            self.policy.tools.seen(attributed)
        return seen[1]

    async def call_tool(self, name: str, tool_args: Args, ctx: Ctx, tool: ToolsetTool[Deps]) -> object:
        """Verify the call with the arguments that are about to be used, then make it under the author's name."""
        # The definition that this toolset listed: a capability may have changed the one that comes back.
        calls = calls_of(ctx)
        definition = calls.own.get(name) or next(d for _, d in self._seen.values() if d.name == name)
        decision = await self.policy.verify(ctx, calls, definition, tool_args)
        original = tool_facts(definition).original
        named = tool.tool_def.name == ctx.tool_name == original  # true for most tools
        inner = tool if named else replace(tool, tool_def=replace(tool.tool_def, name=original))
        own = ctx if named else replace(ctx, tool_name=original)
        if ctx.tool_call_approved and not (decision and decision.answered):
            own = replace(own, tool_call_approved=False, tool_call_metadata=None)  # forged: no person approved it
        try:
            with self.kernel.tracer.step(self.plugin, "tool", name, ctx):
                return await self.wrapped.call_tool(original, tool_args, own, inner)
        except BaseException as error:
            if isinstance(error, Exception) or self.plugin == "app":
                raise
            reraise_control(error)
            # `DeepCapability` turns it into a failed result. A SystemExit would end the event loop before that.
            raise PluginError(describe_error(error), plugin=self.plugin) from error

    def static_definitions(self) -> list[ToolDefinition] | None:
        """Return the attributed tools, hidden ones too, or None if they are not known without I/O."""
        definitions = static_definitions(self.wrapped)
        return None if definitions is None else [self._attributed(d.name, d) for d in definitions]


def _leave_out(others: AbstractToolset[Deps], ctx: Ctx) -> None:
    """Remove what is not offered now from the copy that `_functions` made of a toolset."""
    if type(others) is FunctionToolset:
        for name, tool in [*others.tools.items()]:
            if isinstance(tool.prepare, OfferedWhile) and not tool.prepare.holds(ctx):
                del others.tools[name]


def is_toolset(given: object) -> TypeGuard[AbstractToolset[Deps]]:
    """Whether an object is a toolset."""
    return isinstance(given, AbstractToolset)


def function_tools(toolset: object) -> list[str]:
    """Return the names of the tools in all function toolsets inside a toolset."""
    names: list[str] = []

    def visit(leaf: AbstractToolset[Deps]) -> None:
        names.extend(definition.name for definition in static_definitions(leaf) or ())

    if is_toolset(toolset):
        toolset.apply(visit)
    return names


def static_definitions(toolset: AbstractToolset[Deps]) -> list[ToolDefinition] | None:
    """Return a toolset's tools, or None if they are not known without I/O."""
    return [tool.tool_def for tool in toolset.tools.values()] if type(toolset) is FunctionToolset else None


def _copied(metadata: dict[str, object] | None) -> dict[str, object] | None:
    """Copy the lists too: an application may append to a tool's list of tags, which the definitions share."""
    return metadata and {key: [*item] if is_list(item) else item for key, item in metadata.items()}


class SequentialToolset(QuietToolset):
    """Toolsets as one. Asks those that answer without waiting one after another.

    `CombinedToolset` starts a task for each: with five plugins these tasks took as long as everything else that the
    kernel does in a turn (docs/decisions/0010).
    """

    async def for_run(self, ctx: Ctx) -> Self:
        """Return this run's own toolset."""
        return replace(self, toolsets=await self._asked(lambda toolset: toolset.for_run(ctx)))

    async def for_run_step(self, ctx: Ctx) -> Self:
        """Return this step's toolset: itself if none of its toolsets changes."""
        toolsets = await self._asked(lambda toolset: toolset.for_run_step(ctx))
        return self if all(map(is_, toolsets, self.toolsets)) else replace(self, toolsets=toolsets)

    async def _asked(self, ask: Callable[[AbstractToolset[Deps]], Awaitable[T]]) -> list[T]:
        """Ask each toolset once; run those that may wait concurrently."""
        waiting = [toolset for toolset in self.toolsets if not _settled(toolset)]
        late = dict(zip(map(id, waiting), await gather(*map(ask, waiting)) if waiting else (), strict=True))
        return [late[id(each)] if id(each) in late else await ask(each) for each in self.toolsets]

    async def call_tool(self, name: str, tool_args: Args, ctx: Ctx, tool: ToolsetTool[Deps]) -> object:
        """Call the tool through the toolset that listed it."""
        if hasattr(tool, "source_toolset"):  # listed among others
            return await super().call_tool(name, tool_args, ctx, tool)
        return await tool.toolset.call_tool(name, tool_args, ctx, tool)

    def speaks(self, toolset: AbstractToolset[Deps]) -> bool:
        """Return whether a toolset may have instructions."""
        own = toolset.wrapped if isinstance(toolset, PluginToolset) else toolset
        if isinstance(own, SequentialToolset):
            return any(map(own.speaks, own.toolsets))
        return not _settled(own) or has_instructions(own)


class RunToolsets(SequentialToolset):
    """All function toolsets of a run. Lists and calls the only toolset with tools directly."""

    @classmethod
    def of(cls, prepared: AbstractToolset[Deps], toolbox: Toolbox) -> AbstractToolset[Deps]:
        """Replace Pydantic AI's own combination of a run's toolsets.

        Args:
            prepared: Pydantic AI's combination; returned unchanged if it has another form.
            toolbox: the plugins' toolsets. Their tools name their capability, so the wrapper that would is dropped.
        """
        if type(prepared) is not PreparedToolset or type(prepared.wrapped) is not CombinedToolset:
            return prepared
        flat: list[AbstractToolset[Deps]] = []
        for toolset in prepared.wrapped.toolsets:
            flat += toolset.toolsets if type(toolset) is CombinedToolset else [toolset]
        own = [toolbox if isinstance(t, WrapperToolset) and t.wrapped is toolbox else t for t in flat]
        return replace(prepared, wrapped=cls(own))

    async def get_tools(self, ctx: Ctx) -> dict[str, ToolsetTool[Deps]]:
        """List all tools."""
        some = [toolset for toolset in self.toolsets if not _is_empty(toolset)]
        return await (some[0].get_tools(ctx) if len(some) == 1 else super().get_tools(ctx))


class Toolbox(SequentialToolset):
    """All plugins' toolsets as one."""

    @property
    def members(self) -> Sequence[PluginToolset]:
        """The plugins' toolsets: a toolbox has no others."""
        return [toolset for toolset in self.toolsets if isinstance(toolset, PluginToolset)]

    def offered(self) -> Iterator[ToolDefinition]:
        """Yield the offered tools known without I/O."""
        for toolset in self.members:
            for definition in toolset.static_definitions() or ():
                if toolset.offers(definition):
                    yield definition

    async def get_tools(self, ctx: Ctx) -> dict[str, ToolsetTool[Deps]]:
        """List all tools by final name.

        Raises:
            PluginError: two tools have one name, or one has a reserved name.
        """
        listed = await self._asked(lambda toolset: toolset.get_tools(ctx))
        tools = {name: tool for own in listed for name, tool in own.items()}
        if len(tools) < sum(map(len, listed)) or not tools.keys().isdisjoint(RESERVED_TOOL_NAMES):
            # A tool that another program lists gives way, with a log line: its server must not stop the run.
            every = [tool for own in listed for tool in own.values()]
            mine = [tool for tool in every if not tool_facts(tool.tool_def).source]
            check_clashes([tool_facts(tool.tool_def) for tool in mine], self.members[0].kernel.label)
            tools = {
                t.tool_def.name: t for t in (*reversed(every), *mine) if t.tool_def.name not in RESERVED_TOOL_NAMES
            }
            for tool in every:
                if tools.get(tool.tool_def.name) is not tool:
                    self._leave_out(tool.tool_def)
        calls_of(ctx).own.update({name: tool.tool_def for name, tool in tools.items()})
        return tools

    def _leave_out(self, definition: ToolDefinition) -> None:
        known, incidents = tool_facts(definition), self.members[0].incidents
        where = f"tool {known.name} of {(definition.metadata or {}).get('source', known.plugin)}"
        if not any(incident.where == where for incident in incidents.latest):
            error = PluginError("its name is reserved, or another tool's", plugin=known.plugin)
            incidents.record(known.plugin, where, error, "it was left out")


def _settled(toolset: AbstractToolset[Deps]) -> bool:
    """Return whether a toolset answers without waiting: it has only functions, all known."""
    own = toolset.wrapped if isinstance(toolset, PluginToolset) else toolset
    return isinstance(own, FunctionToolset) and type(own).get_tools is FunctionToolset.get_tools


def _is_empty(toolset: AbstractToolset[Deps]) -> bool:
    return _settled(toolset) and isinstance(toolset, FunctionToolset) and not toolset.tools


def check_clashes(tools: Iterable[ToolFacts], label: Callable[[str], str]) -> None:
    """Raise a PluginError for a reserved name, or for two tools of one name.

    The tool of a capability has no original name: no other can replace it.
    """
    owners: dict[str, ToolFacts] = {}
    for tool in tools:
        if tool.name in RESERVED_TOOL_NAMES:
            raise PluginError(
                f"tool name {tool.name!r} is reserved by Pydantic AI, and is used by\n  {label(tool.plugin)}\n"
                f'Choose one way out:\n  [plugins.{tool.plugin}] prefix = "{tool.plugin}"\n'
                f'  [plugins.{tool.plugin}] tools = "~name:{tool.name}"\n  [plugins.{tool.plugin}] enabled = false',
                plugin=tool.plugin,
            )
        other = owners.setdefault(tool.name, tool)
        if other is not tool:
            same = tool.original if tool.original == other.original else None
            both = [(each.plugin, label(each.plugin)) for each in (other, tool)]
            raise PluginError(clash_message("tool", tool.name, both, same))
