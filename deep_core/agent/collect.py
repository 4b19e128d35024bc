"""Collect what plugins contribute to one agent, hook by hook. A plugin that fails contributes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import UserError
from tool_expressions import ToolExpression, as_expression

from ..errors import ConfigError, PluginError, reraise_control, suggest
from ..plugins import hookspecs
from ..plugins.contributions import Contribution, InterruptOn, Processor
from ..plugins.dispatch import Incidents
from ..plugins.options import PluginOptions, validate_options
from ..plugins.registry import specs_of
from .config import agent_values, read_agent_config, restricted_layers
from .context import AgentContext
from .plan import Contributed
from .policy.rules import Rules
from .policy.vetting import vet
from .run.observers import Observers

if TYPE_CHECKING:
    from pydantic_ai import Agent
    from pydantic_ai.messages import WorkspaceRef
    from pydantic_ai.models import Model
    from pydantic_ai.workspaces import WorkspaceBackend

    from .context import RunHook
    from .run.session import DeepAgentDeps, Deps
    from .run.workspace import Workspaces
    from .spec import CallerSpec

COLLECT_ORDER = tuple(
    name
    for name, spec in specs_of(hookspecs).items()
    if spec.deep_policy.policy == "collect" and "context" in signature(spec).parameters
)
"""The hooks that contribute to an agent, in the order of `hookspecs.py`."""


class Collection:
    """The contributions to one agent, as they come. What a context asks of its agent is asked here.

    Attributes:
        spec: the caller's parameters.
        kernel: who makes the agent.
        config: the layers of configuration, with the caller's on top.
        agent_config: `[agent]`, validated.
        config_keys: the dotted keys of `[agent]` that a layer sets.
        settings: `[plugins.x]` of each plugin that the caller does not leave out.
        options: the validated options of plugins.
        rules: what the policy will say of tools.
        contexts: what each plugin's hooks receive; `app` for the application.
        workspaces: the backends, once they are known.
        observers: the plugins that listen to runs, once they are known.
        make_subagent: makes a subagent, once the agent is made.
    """

    def __init__(self, spec: CallerSpec) -> None:
        self.kernel = kernel = spec.kernel
        self._dropped: dict[str, tuple[str, str]] = {}
        self._fatal: PluginError | None = None
        self._spec = spec  # `_drop` asks it; the options models that complete it may call `_drop`
        self.strict = spec.given.get("strict", False) or kernel.strict
        self.incidents = Incidents(self.strict, kernel.latest)
        self.caller = kernel.caller.recording(self.incidents)
        self.config = spec.configured()
        self.agent_config = read_agent_config(self.config)
        self.config_keys = frozenset(agent_values(self.config)[1])
        self.depth = spec.depth
        models = kernel.option_models(self._drop)
        self.spec = self._spec = spec = spec.resolve_typed(models)
        self.settings = {name: self.config.plugin(name) for name in kernel.active if name not in spec.without}
        self.plugins = [name for name, own in self.settings.items() if own.enabled and name not in self._dropped]
        self.options: Mapping[str, PluginOptions] = self._options(models)
        self.native_kinds = frozenset({*spec.given.get("native_tools", ()), *self.agent_config.native_tools})
        self._rights = {"approvers": self._named("approvers"), "innermost": self._named("innermost")}
        self.rules = self._rules()
        self.asks = self.rules.asks
        self.contexts = {name: AgentContext(name, self) for name in (*self.kept, "app")}
        self._collected: dict[str, list[Contribution[Any]]] = {}
        self._resting: dict[tuple[str, str], str] = {}
        self.workspaces: Workspaces | None = None
        self.observers = Observers()
        self.make_subagent: Callable[[Model | str | None, Mapping[str, Any]], Agent[Any, Any]] | None = None

    @property
    def kept(self) -> tuple[str, ...]:
        """The agent's plugins, without those that failed."""
        return tuple(name for name in self.plugins if name not in self._dropped)

    # -- collect -------------------------------------------------------------------------------------------------

    def contributed(self) -> Contributed:
        """Collect everything. Nothing of a plugin that fails late is in the result."""
        for hook in COLLECT_ORDER:
            self._call(hook)
        if self._fatal is not None:
            raise self._fatal  # the hook's owner caught it
        return Contributed(
            spec=self.spec,
            config=self.config,
            agent_config=self.agent_config,
            settings=self.settings,
            options=self.options,
            plugins=self.kept,
            contexts=self.contexts,
            caller=self.caller,
            incidents=self.incidents,
            collected=self._collected,
            dropped=self._dropped,
            checks=self._busy("deep_check_call"),
            asking=self._busy("deep_check_call", "asking"),
            listeners=self._busy("deep_run_event"),
        )

    def _busy(self, hook: str, when: str | None = None) -> tuple[str, ...]:
        """Return the plugins that implement a hook, and say nothing else of when they are called."""
        return tuple(name for name in self.caller.plugins(hook, self.kept) if self._resting.get((name, hook)) == when)

    def _call(self, hook: str) -> None:
        def arguments(plugin: str) -> dict[str, object]:
            return {"context": self.contexts[plugin]}

        accept = {"deep_capabilities": self.vet, "deep_history_processors": as_processor}.get(hook)
        self._collected[hook] = self.caller.collect(hook, arguments, among=self.kept, drop=self._drop, accept=accept)

    def _drop(self, plugin: str, where: str, error: BaseException) -> None:
        """Leave a failed plugin out of this agent, with all its contributions. Raise if the plugin must work."""
        if self._fatal is not None:
            raise self._fatal  # a contributor's error passes through the hook that collected it
        if plugin in self._spec.without:
            return
        try:
            must_work = self.strict or plugin in self._spec.options
            self._dropped[plugin] = self.kernel.leave_out(plugin, where, error, must_work=must_work)
        except PluginError as raised:
            self._fatal = raised
            raise

    # -- what contexts ask ---------------------------------------------------------------------------------------

    def contributions(self, plugin: str, hook: str) -> tuple[Contribution[Any], ...]:
        """Return the contributions to a plugin's own hook, or to one that the kernel has collected already."""
        if hook in COLLECT_ORDER:
            why = "" if hook in self._collected else "is collected in a later phase"
        else:
            why = "" if self.kernel.hooks.get(hook, "") == plugin else "is not a hook of this plugin"
        if why:
            raise PluginError(f"plugin {plugin}: context.collect({hook!r}): it {why}", plugin=plugin)
        if hook not in self._collected:
            self._call(hook)
        return tuple(c for c in self._collected[hook] if c.plugin not in self._dropped)

    def rest(self, plugin: str, hooks: tuple[RunHook, ...], unless: str = "") -> None:
        """Note that a plugin has nothing to do at these hooks, or only at some calls."""
        self._resting.update({(plugin, hook): unless for hook in hooks})

    def vet(self, plugin: str, capability: AbstractCapability[Deps]) -> AbstractCapability[Deps]:
        """Check a plugin's capability. Raises PluginError."""
        rights = {right for right, plugins in self._rights.items() if plugin in plugins}
        vet(capability, self.kernel.label(plugin), self.native_kinds, rights)
        return capability

    def backend(self, deps: Deps, ref: WorkspaceRef | None = None) -> WorkspaceBackend:
        """Return a session's backend, under the reference of a stored history if there is one.

        Raises PluginError while the agent is being created.
        """
        if self.workspaces is None:
            raise _too_early("backend")
        deps.state.bind(self.kernel)
        return self.workspaces.for_session(deps, ref)

    def resolve_model(self, model_id: str) -> Model | None:
        """Ask the plugins for a model; None if no plugin knows the id."""
        return self.caller.first("deep_resolve_model", {"model_id": model_id, "config": None}, among=self.kept)

    def explain_unknown(self, model_id: str, error: UserError) -> None:
        """Raise an error for an unknown model with the status of the plugin that the id names, if it names one."""
        from ._pydantic_ai import is_unknown_model

        plugin, colon, _ = model_id.partition(":")
        if not colon or not is_unknown_model(error):
            return
        why = self.kernel.describe(plugin)
        if plugin in self._dropped:
            why = f"plugin {self.kernel.label(plugin)} failed: {self._dropped[plugin][1]}"
        elif plugin in self.kernel.active and plugin not in self.plugins:
            why += ", but left out of this agent"
        raise UserError(f"{error}. No plugin of this agent resolves it: {why}") from error

    def subagent(self, model: Model | str | None, changes: Mapping[str, Any]) -> Agent[DeepAgentDeps[Any], Any]:
        """Create a subagent for a plugin, whose changes can only narrow what this agent may do."""
        if self.make_subagent is None:
            raise _too_early("create_agent")
        return self.make_subagent(model, changes)

    # -- what configuration and code say -------------------------------------------------------------------------

    def _options(self, models: Mapping[str, type[PluginOptions]]) -> dict[str, PluginOptions]:
        """Validate the options of plugins. Raises ConfigError if one is wrong, or its plugin takes none."""
        out: dict[str, PluginOptions] = {}
        for name in self.plugins:
            settings, given = self.settings[name], self.spec.options.get(name)
            if name not in models:
                if given or settings.options:
                    where = settings.sources.get(f"options.{next(iter(settings.options), '')}", "code")
                    raise ConfigError(f"{where}: plugin {self.kernel.label(name)} takes no options", plugin=name)
                continue
            try:
                out[name], _ = validate_options(name, models[name], settings, given)
            except ConfigError:
                raise  # the user's mistake, not the plugin's
            except BaseException as error:  # a validator is the plugin's code
                reraise_control(error)
                self._drop(name, "its options", error)
        return out

    def _named(self, key: Literal["approvers", "innermost"]) -> set[str]:
        """Return the plugins that code or configuration names for a right."""
        named = {*self.spec.given.get(key, ()), *getattr(self.agent_config, key)}
        if unknown := named - set(self.kernel.plugins):
            raise PluginError(f"{key}: no plugin {min(unknown)!r}.{suggest(min(unknown), self.kernel.plugins)}")
        return named

    def _rules(self) -> Rules:
        # What an untrusted project's file says joins what the application says, and can only narrow it.
        untrusted = [layer.validated() for layer in restricted_layers(self.config)]
        configs = [self.agent_config, *untrusted]
        filters: list[str | Sequence[str] | ToolExpression | None] = [self.spec.given.get("tool_filter")]
        filters += [rule for each in configs for rule in (each.tool_filter, each.tools_policy.allow_list)]
        if not all(each.tools_policy.enabled for each in configs):
            filters.append([])
        given: InterruptOn | None = self.spec.given.get("interrupt_on")
        return Rules(
            interrupt_on=self.agent_config.interrupt_on if given is None else given,
            shown=tuple(as_expression(rule) for rule in filters if rule is not None),
            ask_by_default=any(each.tools_policy.require_approval_by_default for each in configs),
            narrowing=(*self.spec.narrowing, *(each.interrupt_on for each in untrusted if each.interrupt_on)),
        )


def as_processor(plugin: str, given: Processor | Callable[..., Any]) -> Processor:
    """Return a history processor; a bare callable gets the defaults."""
    if isinstance(given, Processor):
        return given
    name: str = getattr(given, "__name__", type(given).__name__)
    return Processor(name.lower(), given)


def _too_early(what: str) -> PluginError:
    return PluginError(
        f"context.{what}() works at run time only, and this agent is still being made: call it in a tool, in a "
        "section's function, or in a method of a toolset or capability"
    )
