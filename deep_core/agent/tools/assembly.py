"""Assembly of an agent's toolbox from the toolsets of plugins and the application, checked against the rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pydantic_ai import ToolDefinition
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.toolsets import AbstractToolset, DynamicToolset, FunctionToolset
from tool_expressions import ToolExpression, ToolFacts, as_expression, check_atoms, check_rule, find_slips, tool_facts

from ...errors import ConfigError, suggest, warn
from ..run.session import Deps
from .toolsets import PluginToolset, Toolbox, ToolRules, check_clashes, function_tools

if TYPE_CHECKING:
    from ..plan import Contributed
    from ..policy.decisions import Policy


class Replacement(NamedTuple):
    """A plugin's tool takes the place of the tool of that name of another plugin."""

    plugin: str
    other: str
    tool: str


@dataclass(eq=False, repr=False)
class ToolAssembly:
    """The construction of one agent's toolbox."""

    found: Contributed
    policy: Policy

    def toolbox(self) -> Toolbox:
        """Combine all toolsets.

        Raises:
            PluginError: two tools have one name.
            ConfigError: a plugin's settings name a plugin or tool that does not exist.
        """
        replacements = [*self._replacements()]
        hidden: dict[str, set[str]] = {}
        for plugin, other, tool in replacements:
            hidden.setdefault(other, set()).add(tool)
            self.policy.tools.replacing(plugin, other, tool)
        toolsets: list[PluginToolset] = []
        for item in self.found.to("deep_toolsets"):
            toolsets.append(self._member(item.value, item.plugin, self._rules(item.plugin, hidden)))
        given, app = self.found.spec.given, ToolRules()
        if tools := given.get("tools"):
            # The timeout applies to `tools`, not to `toolsets`.
            own = FunctionToolset[Deps](list(tools), id="app", timeout=given.get("tool_timeout"))
            toolsets.append(self._member(own, "app", app))
        for item in given.get("toolsets", ()):
            toolset = DynamicToolset[Deps](item) if callable(item) else item
            toolsets.append(self._member(toolset, "app", app))
        self._check_replacements(toolsets, replacements)
        return Toolbox(toolsets)

    def _member(self, toolset: AbstractToolset[Deps], plugin: str, rules: ToolRules) -> PluginToolset:
        return PluginToolset(toolset, plugin, rules, self.policy, self.found.kernel, self.found.incidents)

    def _rules(self, plugin: str, hidden: Mapping[str, set[str]]) -> ToolRules:
        settings = self.found.settings[plugin]

        def expression(key: str, value: str) -> ToolExpression:
            try:
                return as_expression(value)
            except ValueError as error:
                where = settings.sources.get(key, "code")
                raise ConfigError(f"{where}: plugins.{plugin}.{key}: {error}", plugin=plugin) from error

        def either(key: str, value: str | bool | None) -> ToolExpression | bool | None:
            return expression(key, value) if isinstance(value, str) else value

        return ToolRules(
            prefix=settings.prefix,
            offered=None if settings.tools is None else expression("tools", settings.tools),
            require_approval=either("require_approval", settings.require_approval),
            defer=either("defer", settings.defer),
            hidden=frozenset(hidden.get(plugin, ())),
            distribution=self.found.kernel.plugins[plugin].distribution or "",
        )

    def _replacements(self) -> Iterator[Replacement]:
        for plugin in self.found.plugins:
            for entry in self.found.settings[plugin].replaces:
                other, _, tool = entry.partition(":")
                if not tool or ":" in tool or other not in self.found.kernel.plugins:
                    hint = suggest(other, self.found.kernel.plugins)
                    raise self._wrong_replacement(plugin, entry, f'is not "plugin:tool" of an installed plugin.{hint}')
                yield Replacement(plugin, other, tool)

    def check_names(self, toolbox: Toolbox, capabilities: Sequence[tuple[str, AbstractCapability[Deps]]]) -> None:
        """Raise a PluginError if two tools have one name. Checks tools known without I/O, those of capabilities too."""
        tools = [tool_facts(definition) for definition in toolbox.offered()]
        for plugin, capability in capabilities:
            tools += [ToolFacts(name, "", plugin) for name in function_tools(capability.get_toolset())]
        check_clashes(tools, self.found.kernel.label)

    def _wrong_replacement(self, plugin: str, entry: str, what: str) -> ConfigError:
        where = self.found.settings[plugin].sources.get("replaces", "code")
        return ConfigError(f"{where}: plugins.{plugin}.replaces: {entry!r} {what}", plugin=plugin)

    def _check_replacements(self, toolsets: Sequence[PluginToolset], replacements: Sequence[Replacement]) -> None:
        """Raise a ConfigError if a replacing tool is itself replaced, or if one of the two is known to be absent."""

        def originals(plugin: str) -> set[str] | None:
            tools = _facts_of([toolset for toolset in toolsets if toolset.plugin == plugin])
            return None if tools is None else {tool.original for tool in tools}

        replaced = {(other, tool) for _, other, tool in replacements}
        for plugin, other, tool in replacements:
            entry, there, own = f"{other}:{tool}", originals(other), originals(plugin)
            if (plugin, tool) in replaced:  # else neither is offered, or the first one's approvals are lost
                raise self._wrong_replacement(plugin, entry, f"needs {plugin}:{tool}, which is replaced itself")
            if other in self.found.plugins and there is not None and tool not in there:
                raise self._wrong_replacement(plugin, entry, f"names no tool of {other}.{suggest(tool, there)}")
            if own is not None and tool not in own:
                has = f"has none: {', '.join(sorted(own)) or 'no tools'}"
                raise self._wrong_replacement(plugin, entry, f"needs a tool {tool!r} of {plugin}, which {has}")

    def check_rules(self, toolbox: Toolbox, *, complete: bool) -> list[ToolDefinition] | None:
        """Check that every rule matches a tool, if all tools are known.

        Args:
            toolbox: the tools.
            complete: whether only toolsets have tools: no capability may bring some in a run.

        Returns:
            The offered tools, or None if some are not known without I/O.
        """
        of_plugin: dict[str, list[PluginToolset]] = {}
        for toolset in toolbox.members:
            of_plugin.setdefault(toolset.plugin, []).append(toolset)
        for plugin, toolsets in of_plugin.items():
            tools = _facts_of(toolsets)
            if tools is None:
                complete = False
                continue
            where, rules = f"plugins.{plugin}", toolsets[0].rules
            check_rule(rules.offered, tools, f"{where}.tools")
            check_rule(rules.require_approval, tools, f"{where}.require_approval")
            check_rule(rules.defer, tools, f"{where}.defer")
            if isinstance(rules.offered, ToolExpression):
                for slip in find_slips(rules.offered, tools, where=f"{where}.tools"):
                    warn(slip)
            if isinstance(rules.require_approval, ToolExpression):
                # Each name must match: a tool behind a misspelt one would run without approval.
                check_atoms(rules.require_approval, tools, where=f"{where}.require_approval")
        definitions = [*toolbox.offered()]
        if self.found.spec.depth:
            self.policy.tools.is_checked = True  # the parent checked its rules; a subagent may have fewer tools
        elif self.policy.rules.name_tools and complete:
            self.policy.tools.check(definitions)
        return definitions if complete else None


def _facts_of(toolsets: Sequence[PluginToolset]) -> list[ToolFacts] | None:
    """Return the tools of one plugin, hidden ones too, or None if they are not known without I/O."""
    listed = [toolset.static_definitions() for toolset in toolsets]
    return None if None in listed else [tool_facts(definition) for found in listed for definition in found or ()]
