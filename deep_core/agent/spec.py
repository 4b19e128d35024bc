"""Assemble, what was asked: the caller's parameters sorted, plugins chosen, configuration and options validated."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai import Agent

from ..errors import ConfigError, PluginError, suggest
from ..plugins.config import Config, ConfigLayer, load_config
from ..plugins.contributions import Without
from ..plugins.options import PluginOptions, validate_options
from ..plugins.status import entry_source
from .config import AgentConfig, read_agent_config

if TYPE_CHECKING:
    from ..plugins.kernel import PluginKernel

__all__ = ["Request"]

OWN = {
    *("output_type", "instructions", "tools", "toolsets", "history_processors", "capabilities", "backend"),
    *("interrupt_on", "tool_filter", "plugins", "approvers", "native_tools", "config", "strict", "name"),
    *("model_settings", "depth", "narrowing"),
}
"""Parameters of `create_deep_agent` that are handled by the kernel."""
INTERNAL = {"depth", "narrowing"}
"""Those of a subagent, which nobody is told to write."""
LISTS = ("tools", "toolsets", "history_processors", "capabilities", "plugins", "approvers", "native_tools")
"""Those that are lists. A text would be taken letter by letter, and what can be read only once is empty for a child."""
SESSION = ("deps_type", "deps", "app")
"""What belongs to the session, and is looked for at the agent."""
PASSED_ON = frozenset(inspect.signature(Agent.__init__).parameters) - {"self", "model", "deps_type", *OWN}
"""Parameters of `pydantic_ai.Agent` that are handed through as they are."""


class Request:
    """What one caller of `create_deep_agent` asked for.

    Attributes:
        kernel: whose plugins.
        own: our own parameters, as given.
        passed_on: Pydantic AI's, as given.
        named: plugins that the caller named: they must work.
        config: the kernel's configuration and what the caller added.
        agent_config: `[agent]` of it.
        plugins: the plugins that take part, by name.
        options: the validated options of each.
    """

    def __init__(
        self,
        kernel: PluginKernel,
        keywords: Mapping[str, Any],
        drop: Callable[[Request, str, str, BaseException], None],
    ) -> None:
        """Sort and validate. `drop` is called with (request, plugin, where, error) for a plugin whose options fail."""
        self.kernel = kernel
        self.own: dict[str, Any] = {}
        self.passed_on: dict[str, Any] = {}
        self.named: set[str] = set()
        self._drop = drop
        self._given: dict[str, PluginOptions | Mapping[str, Any]] = {}
        self._without: set[str] = set()
        self._failed: set[str] = set()
        self._sort(keywords)
        self.config, self.agent_config = self._configure(self.get("config"))
        chosen = [name for name in kernel.active if name not in self._without and self.config.plugin(name).enabled]
        self.options = self._options(chosen)
        self.plugins = tuple(name for name in chosen if name not in self._failed)

    def get(self, key: str, default: Any = None) -> Any:
        """One of our own parameters."""
        return self.own.get(key, default)

    def _sort(self, keywords: Mapping[str, Any]) -> None:
        names = set(self.kernel.plugins)
        for key, value in keywords.items():
            plugin = key.removeprefix("include_")
            if key in OWN:
                self.own[key] = _listed(key, value) if key in LISTS else value
            elif key in PASSED_ON:
                self.passed_on[key] = value
            elif plugin in names and (plugin == key or isinstance(value, bool)):
                self._short(plugin, value)
            elif key in SESSION:
                raise TypeError(
                    f"create_deep_agent() takes no {key}: its runs have sessions as deps, DeepAgentDeps. Your own "
                    "object goes into each: agent.run(…, deps=deep_core.create_default_deps(app=…))"
                )
            elif plugin in names:
                raise TypeError(f"{key}= takes True or False, not {value!r:.80}; for options: {plugin}={{…}}")
            else:
                flags = {f"include_{name}" for name in names}
                raise unknown_keyword(key, names | flags | (OWN - INTERNAL) | PASSED_ON | {"kernel", "model"})
        for item in self.get("plugins", ()):
            if isinstance(item, Without):
                if item.plugin not in names:
                    raise PluginError(f"Without({item.plugin!r}): no such plugin.{suggest(item.plugin, names)}")
                self._without.add(item.plugin)
            elif isinstance(item, PluginOptions):
                self._typed(item)
            else:
                raise TypeError(
                    f"plugins= takes options instances and Without(…), not {item!r}. Modules and objects are given to "
                    "a kernel: create_deep_agent(kernel=Kernel(plugins=[…]))."
                )
        for name in self.named:
            self._must_be_active(name)
        for name, record in self.kernel.plugins.items():
            source = entry_source(record, self.kernel.required)
            if source is not None and name in self._without:
                raise PluginError(f"plugin {record.label} is required in {source}; it cannot be left out", plugin=name)

    def _short(self, plugin: str, value: object) -> None:
        if value is False:
            self._without.add(plugin)
            return
        self.named.add(plugin)
        if isinstance(value, PluginOptions | Mapping):
            self._given[plugin] = cast("PluginOptions | Mapping[str, Any]", value)
        elif value is not True:
            raise TypeError(f"{plugin}= takes a mapping of options, an options instance, True or False, not {value!r}")

    def _typed(self, options: PluginOptions) -> None:
        for plugin, model in self._models.items():
            if type(options) is model:
                self._given[plugin] = options
                self.named.add(plugin)
                return
        raise PluginError(
            f"plugins=[{type(options).__name__}(…)]: no active plugin has these options; is the plugin installed and "
            f"active? `deep plugins list` tells. Active: {', '.join(self.kernel.active) or 'none'}"
        )

    @cached_property
    def _models(self) -> Mapping[str, type[PluginOptions]]:
        return self.kernel.option_models(self._fail)

    def _fail(self, plugin: str, where: str, error: BaseException) -> None:
        self._failed.add(plugin)
        if plugin not in self._without:
            self._drop(self, plugin, where, error)

    def _must_be_active(self, name: str) -> None:
        record = self.kernel.plugins[name]
        if record.status != "active":
            raise PluginError(self.kernel.describe(name), plugin=name) from record.error

    def _configure(self, given: object) -> tuple[Config, AgentConfig]:
        config = self.kernel.config
        if isinstance(given, AgentConfig):
            layer = ConfigLayer("code", {"agent": given.model_dump(exclude_unset=True)})
            config = config._replace(layers=(layer, *config.layers))
        elif given is not None:
            explicit = load_config(cast("Any", given), files=False)
            for name in ("allow", "disable", "require"):
                if explicit.plugin_list(name) is not None:
                    where = explicit.layers[0].source
                    raise ConfigError(f"{where}: plugins.{name} acts before import; give the file to Kernel(config=…)")
            config = config._replace(layers=(*explicit.layers, *config.layers))
        return config, read_agent_config(config)

    def _options(self, plugins: list[str]) -> dict[str, PluginOptions]:
        models = self._models
        out: dict[str, PluginOptions] = {}
        for name in plugins:
            settings = self.config.plugin(name)
            given = self._given.get(name)
            if name in self._failed:
                continue
            if name not in models:
                if given or settings.options:
                    where = settings.sources.get(f"options.{next(iter(settings.options), '')}", "code")
                    raise ConfigError(f"{where}: plugin {self.kernel.label(name)} takes no options", plugin=name)
                continue
            try:
                out[name] = validate_options(name, models[name], settings, given)
            except ConfigError:
                raise  # what the user wrote is wrong, not the plugin
            except Exception as error:  # noqa: BLE001 - a validator is the plugin's code
                self._fail(name, "its options", error)
        return out


def _listed(key: str, value: object) -> object:
    if value is None:
        return ()
    if isinstance(value, str) or not isinstance(value, Collection):
        raise TypeError(f"{key}= takes a list, not {value!r:.80}: {key}=[…]")
    return cast("Collection[object]", value)


def unknown_keyword(keyword: str, known: Iterable[str]) -> TypeError:
    """The error for a keyword that is neither a parameter nor a plugin."""
    return TypeError(
        f"create_deep_agent() got an unexpected keyword {keyword!r}: no parameter and no installed plugin has that "
        f"name.{suggest(keyword, known)}"
    )
