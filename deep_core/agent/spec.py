"""The checked parameters of one agent, and those of a subagent, which derive from its parent's."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai import Agent
from tool_expressions import as_expression

from ..errors import ConfigError, PluginError, suggest
from ..parameters import LISTS, NOT_INHERITED, PARAMETERS, SESSION, AllParameters, Fixed
from ..plugins.config import Config, ConfigLayer, load_config
from ..plugins.contributions import Processor, Without
from ..plugins.kernel import PluginKernel
from ..plugins.options import PluginOptions
from ..plugins.status import entry_source
from .config import AgentConfig

if TYPE_CHECKING:
    from ..plugins.contributions import InterruptOn

PASSED_ON = frozenset(inspect.signature(Agent.__init__).parameters) - {"self", "model", *SESSION}
"""The parameters of the installed `pydantic_ai.Agent`: a newer version may have more than our list."""
KEYWORDS = PARAMETERS | PASSED_ON


@dataclass(frozen=True, eq=False, repr=False)
class CallerSpec:
    """The parameters of one call of `create_deep_agent`.

    Attributes:
        kernel: the kernel whose plugins the agent uses.
        model: as given; None for the configured model.
        given: the parameters, without `plugins`, which becomes the next three.
        options: the options that code gave to a plugin, by its name. These plugins must work.
        typed: options instances whose plugin is not known yet: see `resolve_typed`.
        without: the plugins to leave out.
        narrowing: the `interrupt_on` of subagents, in addition to the application's.
        depth: 0 for the agent, 1 for a subagent, and so on.
    """

    kernel: PluginKernel
    model: Any
    given: AllParameters
    options: Mapping[str, PluginOptions | Mapping[str, Any] | list[Any]]
    typed: tuple[PluginOptions, ...] = ()
    without: frozenset[str] = frozenset()
    narrowing: tuple[InterruptOn, ...] = ()
    depth: int = 0

    @classmethod
    def of(cls, kernel: PluginKernel, model: Any, keywords: Mapping[str, Any]) -> CallerSpec:
        """Sort and check the keywords of one call.

        Raises:
            TypeError: an unknown keyword, with a suggestion, or a value of the wrong type.
            PluginError: a named plugin is not active.
        """
        given: dict[str, Any] = {}
        options: dict[str, PluginOptions | Mapping[str, Any] | list[Any]] = {}
        without: set[str] = set()
        for key, value in keywords.items():
            plugin = key.removeprefix("include_")
            if key in KEYWORDS:
                given[key] = _listed(key, value) if key in LISTS else value
            elif plugin not in kernel.plugins or (plugin != key and not isinstance(value, bool)):
                raise _unknown(key, value, kernel.plugins)
            elif value is False:
                without.add(plugin)
            else:
                options[plugin] = _options(plugin, value)
        items = [*given.pop("plugins", ())]
        without |= {item.plugin for item in items if isinstance(item, Without)}
        typed = [_typed(item) for item in items if not isinstance(item, Without)]
        _check_named(kernel, options, without)
        depth = given.pop("depth", 0)
        parameters = cast("AllParameters", given)
        return cls(kernel, model, parameters, options, tuple(typed), frozenset(without), depth=depth)

    def child(self, model: Any, changes: Mapping[str, Any]) -> CallerSpec:
        """Return the parameters of a subagent: its parent's, and a plugin's changes, which can only narrow them.

        Raises:
            TypeError: as `of`, or a plugin may not change the parameter.
            PluginError: as `of`.
        """
        for key in Fixed.__annotations__:
            if key in changes:
                raise TypeError(f"context.create_agent({key}=…): a subagent has its parent's")
        asked = CallerSpec.of(self.kernel, model, changes)
        mine, theirs = self.given, asked.given
        wider, narrower = mine.get("tool_filter"), theirs.get("tool_filter")
        given: dict[str, Any] = {key: value for key, value in mine.items() if key not in NOT_INHERITED} | {**theirs}
        given["tool_filter"] = narrower if wider is None else wider
        if wider is not None and narrower is not None:
            given["tool_filter"] = as_expression(wider) & as_expression(narrower)
        given["capabilities"] = [*mine.get("capabilities", ()), *theirs.get("capabilities", ())]
        if "history_processors" in theirs:
            kept_redactors = filter(_redacts, mine.get("history_processors", ()))
            given["history_processors"] = [*kept_redactors, *theirs["history_processors"]]
        given["interrupt_on"] = mine.get("interrupt_on")
        rule = theirs.get("interrupt_on")
        kept = {plugin: options for plugin, options in self.options.items() if plugin not in asked.without}
        return replace(
            self,
            model=self.model if model is None else model,
            given=cast("AllParameters", given),
            options={**kept, **asked.options},
            typed=asked.typed,
            without=self.without | asked.without,
            narrowing=self.narrowing if rule is None or rule is False else (*self.narrowing, rule),
            depth=self.depth + 1,
        )

    def resolve_typed(self, models: Mapping[str, type[PluginOptions]]) -> CallerSpec:
        """Find the plugins of `typed` by their options models.

        Raises:
            PluginError: no active plugin has such options, or the agent (or its parent) leaves the plugin out.
        """
        found = dict(self.options)
        for options in self.typed:
            plugin = next((name for name, model in models.items() if type(options) is model), None)
            if plugin is None:
                raise PluginError(
                    f"plugins=[{type(options).__name__}(…)]: no active plugin has these options; is the plugin "
                    "installed and active? `deep plugins list` shows it. "
                    f"Active: {', '.join(self.kernel.active) or 'none'}"
                )
            found[plugin] = options
        if gone := self.without & found.keys():
            raise PluginError(f"plugin {min(gone)} is given options, but is left out of this agent or its parent")
        return replace(self, options=found, typed=())

    def configured(self) -> Config:
        """Return the kernel's configuration with the caller's on top.

        Raises:
            ConfigError: the caller's file is wrong, or sets a list that acts before import.
        """
        config, given = self.kernel.config, self.given.get("config")
        if given is None:
            return config
        if isinstance(given, AgentConfig):
            layers = (ConfigLayer("code", {"agent": given.model_dump(exclude_defaults=True)}),)
        else:
            explicit = load_config(given, files=False)
            layers = explicit.layers
            for name in ("allow", "disable", "require"):
                if explicit.plugin_list(name) is not None:
                    where = layers[0].source
                    raise ConfigError(f"{where}: plugins.{name} acts before import; give the file to Kernel(config=…)")
        return config._replace(layers=(*layers, *config.layers))


def _check_named(kernel: PluginKernel, given: Collection[str], without: Collection[str]) -> None:
    for record in (kernel.plugins[name] for name in given):
        if record.status != "active":
            raise PluginError(record.summary, plugin=record.name) from record.error
    for name in without:
        if name not in kernel.plugins:
            raise PluginError(f"Without({name!r}): no such plugin.{suggest(name, kernel.plugins)}")
        if (source := entry_source(record := kernel.plugins[name], kernel.required)) is not None:
            message = f"plugin {record.label} is required in {source}; it cannot be left out"
            raise PluginError(message, plugin=record.name)


def _redacts(processor: object) -> bool:
    return isinstance(processor, Processor) and processor.phase == "redact"


def _typed(item: object) -> PluginOptions:
    if isinstance(item, PluginOptions):
        return item
    raise TypeError(
        f"plugins= takes options instances and Without(…), not {item!r}. Modules and objects are given to "
        "a kernel: create_deep_agent(kernel=Kernel(plugins=[…]))."
    )


def _options(plugin: str, given: object) -> PluginOptions | Mapping[str, Any] | list[Any]:
    if given is True:
        return {}
    if isinstance(given, PluginOptions | Mapping | list):
        return cast("PluginOptions | Mapping[str, Any] | list[Any]", given)
    raise TypeError(f"{plugin}= takes a mapping of options, an options instance, True or False, not {given!r}")


def _listed(key: str, given: object) -> Collection[object]:
    if given is None:
        return ()
    if isinstance(given, str) or not isinstance(given, Collection):
        raise TypeError(f"{key}= takes a list, not {given!r:.80}: {key}=[…]")
    return cast("Collection[object]", given)


def _unknown(keyword: str, given: object, plugins: Collection[str]) -> TypeError:
    plugin = keyword.removeprefix("include_")
    if keyword in SESSION:
        return TypeError(
            f"create_deep_agent() takes no {keyword}: its runs have sessions as deps, DeepAgentDeps. Your own "
            "object goes into each: agent.run(…, deps=deep_core.create_default_deps(app=…))"
        )
    if plugin in plugins:
        return TypeError(f"{keyword}= takes True or False, not {given!r:.80}; for options: {plugin}={{…}}")
    known = {*plugins, *(f"include_{name}" for name in plugins), *KEYWORDS, "kernel", "model"}
    return TypeError(
        f"create_deep_agent() got an unexpected keyword {keyword!r}: no parameter and no installed plugin has that "
        f"name.{suggest(keyword, known)}"
    )
