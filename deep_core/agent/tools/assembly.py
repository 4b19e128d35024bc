"""Assembly of an agent's toolbox from the toolsets of plugins and the application, checked against the rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic_ai import ToolDefinition
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.toolsets import AbstractToolset, DynamicToolset, FunctionToolset

from ...errors import ConfigError, suggest
from ...plugins.config import Config
from ...plugins.contributions import Contribution
from ...plugins.dispatch import Incidents
from ..policy.rules import Policy
from ..spec import CallerSpec
from .expressions import ToolExpression, as_expression
from .facts import ToolFacts, tool_facts
from .rule_errors import check_atoms, warn_of_slips
from .toolsets import PluginToolset, Toolbox, ToolRules, check_clashes, check_rule, function_tools


@dataclass(eq=False, repr=False)
class ToolAssembly:
    """The construction of one agent's toolbox.

    Attributes:
        spec: the parameters of the call.
        config: the configuration of this agent.
        policy: the agent's rules. They learn which tools replace others, and are checked against the tools.
        kept: the agent's plugins, without those that failed.
        incidents: the record of failures.
    """

    spec: CallerSpec
    config: Config
    policy: Policy
    kept: Sequence[str]
    incidents: Incidents

    def toolbox(self, contributed: Sequence[Contribution[Any]]) -> Toolbox:
        """Combine all toolsets.

        Raises:
            PluginError: two tools have one name.
            ConfigError: a plugin's settings name a plugin or tool that does not exist.
        """
        hidden = self._replacements()
        toolsets: list[PluginToolset] = []
        for item in contributed:
            toolsets.append(self._attributed(item.value, item.plugin, self._rules(item.plugin, hidden)))
        app = ToolRules("the application")
        if tools := self.spec.given.get("tools"):
            timeout = self.spec.given.get("tool_timeout")  # applies to `tools`, not to `toolsets`
            toolsets.append(self._attributed(FunctionToolset(list(tools), id="app", timeout=timeout), "app", app))
        for given in self.spec.given.get("toolsets", ()):
            toolset: Any = cast("Any", given) if isinstance(given, AbstractToolset) else DynamicToolset[Any](given)
            toolsets.append(self._attributed(toolset, "app", app))
        for member in toolsets:
            for definition in member.static_definitions() or ():
                if tool_facts(definition).original in member.rules.hidden:
                    self.policy.replaced(member.plugin, definition)
        self._check_replacements(toolsets, hidden)
        return Toolbox(toolsets)

    def _attributed(self, toolset: AbstractToolset[Any], plugin: str, rules: ToolRules) -> PluginToolset:
        return PluginToolset(toolset, plugin, rules, self.policy, self.incidents, self.spec.kernel.tracer)

    def _rules(self, plugin: str, hidden: Mapping[str, set[str]]) -> ToolRules:
        settings = self.config.plugin(plugin)

        def expression(key: str, value: str | bool | None) -> Any:
            if not isinstance(value, str):
                return value
            try:
                return as_expression(value)
            except ValueError as error:
                where = settings.sources.get(key, "code")
                raise ConfigError(f"{where}: plugins.{plugin}.{key}: {error}", plugin=plugin) from error

        return ToolRules(
            label=self.spec.kernel.label(plugin),
            prefix=settings.prefix,
            offered=expression("tools", settings.tools),
            require_approval=expression("require_approval", settings.require_approval),
            defer=expression("defer", settings.defer),
            hidden=frozenset(hidden.get(plugin, ())),
        )

    def _replacements(self) -> dict[str, set[str]]:
        hidden: dict[str, set[str]] = {}
        for plugin in self.kept:
            settings = self.config.plugin(plugin)
            pairs: list[tuple[str, str]] = []
            for entry in settings.replaces:
                other, _, tool = entry.partition(":")
                if not tool or ":" in tool or other not in self.spec.kernel.plugins:
                    hint = suggest(other, self.spec.kernel.plugins)
                    raise self._wrong_replacement(plugin, entry, f'is not "plugin:tool" of an installed plugin.{hint}')
                hidden.setdefault(other, set()).add(tool)
                pairs.append((other, tool))
            self.policy.replacing(plugin, pairs)
        return hidden

    def check_claims(
        self,
        toolbox: Toolbox,
        plugins: Sequence[tuple[str, AbstractCapability[Any]]],
        own: Sequence[AbstractCapability[Any]],
    ) -> None:
        """Raise a PluginError if two tools have one name. Checks tools known without I/O, those of capabilities too."""
        claims = [claim for _, claim in toolbox.offered()]
        for plugin, capability in (*plugins, *(("app", capability) for capability in own)):
            names = function_tools(capability.get_toolset())
            claims += [(ToolFacts(name, "", plugin), self.spec.kernel.label(plugin)) for name in names]
        check_clashes(claims)

    def _wrong_replacement(self, plugin: str, entry: str, what: str) -> ConfigError:
        where = self.config.plugin(plugin).sources.get("replaces", "code")
        return ConfigError(f"{where}: plugins.{plugin}.replaces: {entry!r} {what}", plugin=plugin)

    def _check_replacements(self, toolsets: Sequence[PluginToolset], hidden: Mapping[str, set[str]]) -> None:
        """Raise a ConfigError if a replacing tool is itself replaced, or if one of the two is known to be absent."""

        def originals(plugin: str) -> set[str] | None:
            tools = _facts_of([toolset for toolset in toolsets if toolset.plugin == plugin])
            return None if tools is None else {tool.original for tool in tools}

        for plugin in self.kept:
            for entry in self.config.plugin(plugin).replaces:
                other, _, tool = entry.partition(":")
                if tool in hidden.get(plugin, ()):  # else neither is offered, or the first one's approvals are lost
                    raise self._wrong_replacement(plugin, entry, f"needs {plugin}:{tool}, which is replaced itself")
                there, own = originals(other), originals(plugin)
                if other in self.kept and there is not None and tool not in there:
                    raise self._wrong_replacement(plugin, entry, f"names no tool of {other}.{suggest(tool, there)}")
                if own is not None and tool not in own:
                    has = f"has none: {', '.join(sorted(own)) or 'no tools'}"
                    raise self._wrong_replacement(plugin, entry, f"needs a tool {tool!r} of {plugin}, which {has}")

    def check_rules(
        self, toolbox: Toolbox, capabilities: Sequence[AbstractCapability[Any]], *, dynamic: bool
    ) -> list[ToolDefinition] | None:
        """Check that every rule matches a tool, if all tools are known.

        Returns:
            The offered tools, or None if some are not known without I/O.
        """
        of_plugin: dict[str, list[PluginToolset]] = {}
        for toolset in toolbox.members:
            of_plugin.setdefault(toolset.plugin, []).append(toolset)
        complete = not dynamic and all(capability.get_toolset() is None for capability in capabilities)
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
                warn_of_slips(rules.offered, tools, where=f"{where}.tools")
            if isinstance(rules.require_approval, ToolExpression):
                # Each name must match: a tool behind a misspelt one would run without approval.
                check_atoms(rules.require_approval, tools, where=f"{where}.require_approval")
        definitions = [definition for definition, _ in toolbox.offered()]
        if self.spec.depth:
            self.policy.trust_names()  # the parent checked its rules; a subagent may have fewer tools
        elif self.policy.has_rules and complete:
            self.policy.check_names(definitions)
        return definitions if complete else None


def _facts_of(toolsets: Sequence[PluginToolset]) -> list[ToolFacts] | None:
    """Return the tools of one plugin, hidden ones too, or None if they are not known without I/O."""
    listed = [toolset.static_definitions() for toolset in toolsets]
    return None if None in listed else [tool_facts(definition) for found in listed for definition in found or ()]
