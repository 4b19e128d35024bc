"""Assembly of one `pydantic_ai.Agent` from what plugins contribute."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from itertools import takewhile
from typing import Any, Literal, cast

from pydantic_ai import Agent, AgentModelSettings, AgentRetries, DeferredToolRequests, RunContext, ToolDefinition
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import WorkspaceRef
from pydantic_ai.settings import ModelSettings, merge_model_settings
from pydantic_ai.workspaces import WorkspaceBackend
from tool_expressions import as_expression, tool_facts

from ..errors import ConfigError, PluginError, reraise_control, suggest
from ..plugins import hookspecs
from ..plugins.contributions import PROCESSOR_PHASES, Contribution, Processor, PromptSection, ToolCall, Verdict
from ..plugins.dispatch import Incidents
from ..plugins.kernel import PluginKernel
from ..plugins.options import PluginOptions, check_narrower, validate_options
from ..plugins.registry import specs_of
from .config import check_honored, read_agent_config, restricted_layers
from .context import AgentContext
from .policy.gates import NativeTools, PolicyCapability, approves, is_innermost, kinds_in, leaves_of
from .policy.rules import InterruptOn, Policy
from .policy.vetting import vet
from .run.capability import AttemptCapability, DeepCapability
from .run.hosting import hostable
from .run.session import DeepAgentDeps, session
from .run.workspace import Workspaces
from .spec import PASSED_ON, CallerSpec
from .tools.assembly import ToolAssembly
from .tools.toolsets import Toolbox, check_rule

COLLECT_ORDER = tuple(
    name
    for name, spec in specs_of(hookspecs).items()
    if spec.deep_policy.policy == "collect" and "context" in signature(spec).parameters
)
"""The hooks that contribute to an agent, in the order of `hookspecs.py`."""


def assemble(kernel: PluginKernel, model: Any, parameters: Mapping[str, Any]) -> Agent[Any, Any]:
    """Create the agent. See `create_deep_agent`."""
    spec = CallerSpec.of(kernel, model, parameters)
    kernel.check_open()
    return Assembly(spec).agent()


class Assembly:
    """One agent: what plugins contribute to it, collected, and what is built of that. It lives as long as the agent.

    Attributes:
        kernel: who makes the agent.
        policy: the agent's rules.
        settings: `[plugins.x]` of each plugin that the caller does not leave out.
        contexts: what each plugin's hooks receive; `app` for the application.
        collected: the contributions to each hook, hooks of plugins included.
        dropped: plugins that failed for this agent: their status and the reason.
        incidents: where failures are recorded; strict ones let a tool's exception through.
        toolbox: all tools.
        owners: capability id -> the plugin that contributed it.
        static: the static sections, in order.
        live: the live sections, in order.
        processors: the history processors, by phase, then in plugin order.
        native_tools: which of the provider's own tools are sent.
        has_innermost: whether a capability that the user named stands behind the kernel's last check.
        idle: plugins and the hooks at which they have nothing to do.
        listeners: the plugins that listen to the events of runs.
    """

    toolbox: Toolbox
    owners: Mapping[str, str]
    static: Sequence[Contribution[PromptSection]]
    live: Sequence[Contribution[PromptSection]]
    processors: Sequence[Contribution[Processor]]
    native_tools: NativeTools
    has_innermost: bool
    listeners: tuple[str, ...] = ()

    def __init__(self, spec: CallerSpec) -> None:
        self.spec = spec
        self.kernel = kernel = spec.kernel
        self.dropped: dict[str, tuple[str, str]] = {}
        self.fatal: PluginError | None = None
        self.strict = spec.given.get("strict", False) or kernel.strict
        self.incidents = Incidents(self.strict, kernel.latest)
        self.caller = kernel.caller.recording(self.incidents)
        self.config = spec.configured()
        self.agent_config = read_agent_config(self.config)
        models = kernel.option_models(self._drop)
        self.spec = spec = spec.resolve_typed(models)
        self.settings = {name: self.config.plugin(name) for name in kernel.active if name not in spec.without}
        self.plugins = [name for name, own in self.settings.items() if own.enabled and name not in self.dropped]
        self.options = self._options(models)
        self.native_kinds = frozenset({*spec.given.get("native_tools", ()), *self.agent_config.native_tools})
        self.rights = {"approvers": self._named("approvers"), "innermost": self._named("innermost")}
        self.policy = self._policy()
        self.contexts = {name: AgentContext(name, self) for name in (*self.kept, "app")}
        self.collected: dict[str, list[Contribution[Any]]] = {}
        self.workspaces: Workspaces | None = None
        self.is_made = False
        self.known: list[ToolDefinition] | None = None
        self.idle: set[tuple[str, str]] = set()
        self.guards: tuple[str, ...] = ()

    # -- collect -------------------------------------------------------------------------------------------------

    def backend(self, deps: DeepAgentDeps[Any], ref: WorkspaceRef | None = None) -> WorkspaceBackend:
        """Return a session's backend, under the reference of a stored history if there is one.

        Raises PluginError while the agent is being created.
        """
        if self.workspaces is None:
            raise _too_early("backend")
        deps.state.bind(self.kernel)
        return self.workspaces.for_session(deps, ref)

    def child(self, model: Any, changes: Mapping[str, Any]) -> Agent[Any, Any]:
        """Create a subagent for a plugin, whose changes can only narrow what this agent may do."""
        if not self.is_made:
            raise _too_early("create_agent")
        spec = self.spec.child(model, changes)
        for capability in changes.get("capabilities") or ():
            if not isinstance(capability, AbstractCapability):
                raise TypeError("context.create_agent(capabilities=[…]): instances only")
            given = cast("AbstractCapability[Any]", capability)
            vet(given, "a subagent", self.native_kinds)
        child = Assembly(spec)
        child.policy.parent = self.policy
        for plugin, options in child.options.items():
            check_narrower(plugin, options, self.options.get(plugin, options))
        agent = child.agent()
        if missing := self._guards() - child._guards():  # left out, or failed since
            what = "which checks its parent's calls or redacts its texts"
            raise PluginError(f"a subagent cannot be made without {min(missing)!r}, {what}")
        narrower = changes.get("tool_filter")
        if narrower is not None and child.known is not None:
            check_rule(as_expression(narrower), [*map(tool_facts, child.known)], "tool_filter")
        return agent

    def _guards(self) -> set[str]:
        redactors = (c.plugin for c in self._all("deep_history_processors") if c.value.phase == "redact")
        return {*self.guards, *redactors}

    def contributions(self, plugin: str, hook: str) -> tuple[Contribution[Any], ...]:
        """Return the contributions to a plugin's own hook, or to one that the kernel has collected already."""
        if hook in COLLECT_ORDER:
            why = "" if hook in self.collected else "is collected in a later phase"
        else:
            why = "" if self.kernel.hooks.get(hook, "") == plugin else "is not a hook of this plugin"
        if why:
            raise PluginError(f"plugin {plugin}: context.collect({hook!r}): it {why}", plugin=plugin)
        if hook not in self.collected:
            self._call(hook)
        return tuple(self._all(hook))

    def _call(self, hook: str) -> None:
        def arguments(plugin: str) -> dict[str, Any]:
            return {"context": self.contexts[plugin]}

        accept = {"deep_capabilities": self.vet, "deep_history_processors": _processor}.get(hook)
        self.collected[hook] = self.caller.collect(hook, arguments, among=self.kept, drop=self._drop, accept=accept)

    def _drop(self, plugin: str, where: str, error: BaseException) -> None:
        """Leave a failed plugin out of this agent, with all its contributions. Raise if the plugin must work."""
        if self.fatal is not None:
            raise self.fatal  # a contributor's error passes through the hook that collected it
        if plugin in self.spec.without:
            return
        try:
            must_work = self.strict or plugin in self.spec.options
            self.dropped[plugin] = self.kernel.leave_out(plugin, where, error, must_work=must_work)
        except PluginError as raised:
            self.fatal = raised
            raise

    def _all(self, hook: str) -> list[Contribution[Any]]:
        return [c for c in self.collected[hook] if c.plugin not in self.dropped]

    def _collect(self) -> None:
        for hook in COLLECT_ORDER:
            self._call(hook)
        if self.fatal is not None:
            raise self.fatal  # the hook's owner caught it

    def vet(self, plugin: str, capability: AbstractCapability[Any]) -> AbstractCapability[Any]:
        """Check a plugin's capability. Raises PluginError."""
        rights = {right for right, plugins in self.rights.items() if plugin in plugins}
        vet(capability, self.kernel.label(plugin), self.native_kinds, rights)
        return capability

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

    def _native_kinds(self, capabilities: Sequence[AbstractCapability[Any]]) -> frozenset[str]:
        """Return the kinds of native tools that the application's capabilities and settings add: code names these."""
        leaves = [leaf for capability in capabilities for leaf in leaves_of(capability)]
        kinds = {getattr(tool, "kind", "") for leaf in leaves for tool in leaf.get_native_tools()}
        return kinds_in(self.spec.given.get("model_settings")) | kinds

    # -- build ---------------------------------------------------------------------------------------------------

    def agent(self) -> Agent[Any, Any]:
        """Collect, then build."""
        self._collect()
        check_honored(self.config, self.kept)
        self.guards, self.listeners = self._busy("deep_check_call"), self._busy("deep_run_event")
        # Collect everything before building: nothing of a plugin that fails late gets into the agent.
        policy, tools = self.policy, ToolAssembly(self)
        policy.check_call = self._check_call if self.guards else None
        self.toolbox = tools.toolbox(self._all("deep_toolsets"))
        self.workspaces = self._workspaces()
        self.static, self.live = self._sections(live=False), self._sections(live=True)
        self.processors = self._all_processors()
        plugin_capabilities = self._capabilities()
        self.owners = {capability.id or "": plugin for plugin, capability in plugin_capabilities}
        own = self._own_capabilities()
        named = [cast("AbstractCapability[Any]", cap) for cap in own if isinstance(cap, AbstractCapability)]
        self.native_tools = NativeTools(self.native_kinds | self._native_kinds(named), self._refused_native)
        contributed = [capability for _, capability in plugin_capabilities]
        known = [*plugin_capabilities, *(("app", capability) for capability in named)]
        leaves = [leaf for _, capability in known for leaf in (capability, *leaves_of(capability))]
        self.has_innermost = any(map(is_innermost, leaves))
        # Only the leading ones, so that the order stays the same.
        hosted = tuple(takewhile(hostable, [*contributed, *own]))
        redacts = any(processor.value.phase == "redact" for processor in self.processors)
        alone = len(hosted) == len(contributed) + len(own) and not redacts
        deep = (DeepCapability if alone else AttemptCapability)(self)
        approvers = tuple(filter(approves, leaves))
        gate = PolicyCapability(id="deep.policy", policy=policy, approvers=approvers, hosted=hosted, owners=self.owners)
        tools.check_names(known)
        has_tools = any(capability.get_toolset() is not None for _, capability in known)
        self.known = tools.check_rules(complete=len(named) == len(own) and not has_tools)
        given, model = self.spec.given, self._model()
        parameters: dict[str, Any] = {
            "description": self.agent_config.identity.description,
            "instructions": self.agent_config.instructions,
            **{key: value for key, value in given.items() if key in PASSED_ON},
            "deps_type": DeepAgentDeps,
            "output_type": self._output_type(policy),
            "name": given.get("name") or self.agent_config.identity.name,
            "model_settings": self._model_settings(),
            "retries": _retries(given.get("retries")),
            # The toolbox has these.
            "tools": (),
            "toolsets": (),
            # `deep` last: it redacts what others appended, and its gate is inside what they wrap around tools.
            "capabilities": [gate, *[*contributed, *own][len(hosted) :], deep],
        }
        try:
            agent: Agent[Any, Any] = Agent(model, **parameters)
        except UserError as error:
            self.explain_unknown(error, model)
            raise
        self.caller.notify_now(
            "deep_agent_created", lambda p: {"agent": agent, "context": self.contexts[p]}, among=self.kept
        )
        self.is_made = True
        return agent

    @property
    def kept(self) -> tuple[str, ...]:
        """The agent's plugins, without those that failed."""
        return tuple(name for name in self.plugins if name not in self.dropped)

    def _model(self) -> Any:
        model = self.spec.model if self.spec.model is not None else self.agent_config.model.id
        if isinstance(model, str):
            return self.resolve_model(model) or self.agent_config.model.served(model) or model
        return model

    def _model_settings(self) -> AgentModelSettings[Any] | None:
        """Merge the caller's settings into the configuration's. A function is called for each request."""
        section = self.agent_config.model
        configured = cast("ModelSettings", section.settings())
        given: AgentModelSettings[Any] | None = self.spec.given.get("model_settings")
        if not callable(given) and not section.forced:
            return merge_model_settings(configured, given) or None

        def settings(ctx: RunContext[Any]) -> ModelSettings:
            mine = cast("ModelSettings", {**configured, **(section.forced if ctx.run_step == 1 else {})})
            return merge_model_settings(mine, given(ctx) if callable(given) else given) or ModelSettings()

        return settings

    @property
    def resolves_models(self) -> bool:
        """Whether a plugin resolves models."""
        return bool(self.caller.plugins("deep_resolve_model", self.kept))

    def resolve_model(self, model_id: str) -> Any:
        """Ask the plugins for a model; None if no plugin knows the id."""
        return self.caller.first("deep_resolve_model", {"model_id": model_id}, among=self.kept)

    def explain_unknown(self, error: UserError, model_id: object) -> None:
        """Raise an error for an unknown model that gives the status of the plugin that the id names."""
        plugin, colon, _ = str(model_id).partition(":")
        if not colon or not str(error).startswith("Unknown model"):
            return
        why = self.kernel.describe(plugin)
        if plugin in self.dropped:
            why = f"plugin {self.kernel.label(plugin)} failed: {self.dropped[plugin][1]}"
        elif plugin in self.kernel.active and plugin not in self.plugins:
            why += ", but left out of this agent"
        raise UserError(f"{error}. No plugin of this agent resolves it: {why}") from error

    def _output_type(self, policy: Policy) -> Any:
        given: Any = self.spec.given.get("output_type", str)
        if not policy.asks:
            return given
        outputs = list(cast("Sequence[Any]", given)) if isinstance(given, list | tuple) else [given]
        return outputs if DeferredToolRequests in outputs else [*outputs, DeferredToolRequests]

    def _busy(self, hook: str) -> tuple[str, ...]:
        """Return the plugins that implement a hook, without those that have nothing to do there."""
        return tuple(name for name in self.caller.plugins(hook, self.kept) if (name, hook) not in self.idle)

    def _policy(self) -> Policy:
        # What an untrusted project's file says joins what the application says, and can only narrow it.
        untrusted = [layer.validated() for layer in restricted_layers(self.config)]
        configs = [self.agent_config, *untrusted]
        filters: list[Any] = [self.spec.given.get("tool_filter")]
        filters += [rule for each in configs for rule in (each.tool_filter, each.tools_policy.allow_list)]
        if not all(each.tools_policy.enabled for each in configs):
            filters.append([])
        interrupt_on = self.spec.given.get("interrupt_on")
        return Policy(
            interrupt_on=cast("InterruptOn", self.agent_config.interrupt_on) if interrupt_on is None else interrupt_on,
            shown=tuple(as_expression(rule) for rule in filters if rule is not None),
            ask_by_default=any(each.tools_policy.require_approval_by_default for each in configs),
            narrowing=(
                *self.spec.narrowing,
                *(cast("InterruptOn", each.interrupt_on) for each in untrusted if each.interrupt_on),
            ),
            emit=self.emit,
        )

    async def _check_call(self, ctx: RunContext[Any], call: ToolCall) -> Verdict:
        return await self.caller.strictest(
            "deep_check_call", lambda p: {"call": call, "context": self.contexts[p], "ctx": ctx}, among=self.guards
        )

    async def emit(self, event: str, ctx: RunContext[Any], **about: Any) -> None:
        """Send an event of a run, by the name of its class in `run/events.py`, to the plugins that listen."""
        if self.listeners:
            from .run import events  # seven dataclasses take 4 ms, and most agents have no listener

            deps, kind = session(ctx), getattr(events, event)
            sent = kind(run_id=ctx.run_id or "", session_id=deps.session_id, depth=deps.depth, **about)
            await self.caller.notify(
                "deep_run_event", lambda p: {"event": sent, "context": self.contexts[p]}, among=self.listeners
            )

    def _workspaces(self) -> Workspaces:
        found = self._all("deep_backends")
        self.kernel.check_unique("backend", [(c.value[0], c.plugin) for c in found])
        provided = {c.value[0]: (c.value[1], self.contexts[c.plugin]) for c in found}
        policy = self.agent_config.runtime_policy
        chosen = self.spec.given.get("backend") or policy.profile
        if not isinstance(chosen, str | None) and policy.model_fields_set - {"profile"}:
            raise ConfigError("agent.runtime_policy: give backend= a name: sandbox_mode and working_directory need one")
        return Workspaces(chosen, provided, self.contexts["app"])

    def _sections(self, *, live: bool) -> list[Contribution[PromptSection]]:
        sections = self._all("deep_prompt_sections")
        self.kernel.check_unique("prompt section", [(c.value.name, c.plugin) for c in sections])
        found = [c for c in sections if (c.value.fn is not None) == live]
        found = found if live else [c for c in map(self._resolved, found) if c is not None]
        return sorted(found, key=lambda c: c.value.order)  # stable: plugin order within one order

    def _resolved(self, item: Contribution[PromptSection]) -> Contribution[PromptSection] | None:
        section = item.value
        if not callable(section.text):
            return item
        try:
            text: Any = section.text()
            if not isinstance(text, str):
                raise TypeError(f"a section's text is text, not {type(text).__name__}")
        except BaseException as error:
            reraise_control(error)
            self.incidents.record(item.plugin, f"section {section.name}", error, "the section was left out")
            return None
        return Contribution(item.plugin, replace(section, text=text))

    def _all_processors(self) -> list[Contribution[Processor]]:
        own = [Contribution("app", _processor("app", given)) for given in self.spec.given.get("history_processors", ())]
        found = [*self._all("deep_history_processors"), *own]
        return sorted(found, key=lambda item: PROCESSOR_PHASES.index(item.value.phase))

    def _capabilities(self) -> list[tuple[str, AbstractCapability[Any]]]:
        out: list[tuple[str, AbstractCapability[Any]]] = []
        counts: dict[str, int] = {}
        for item in self._all("deep_capabilities"):
            capability: AbstractCapability[Any] = item.value
            if capability.id is None:
                # A stable id attributes its tools and instructions, and durable engines need one.
                counts[item.plugin] = counts.get(item.plugin, 0) + 1
                capability = copy.copy(capability)
                capability.id = f"{item.plugin}.{type(capability).__name__}.{counts[item.plugin]}"
            out.append((item.plugin, capability))
        return out

    def _own_capabilities(self) -> list[Any]:
        given: list[Any] = list(self.spec.given.get("capabilities", ()))
        for capability in given:
            if isinstance(capability, type):  # Pydantic AI would call the class with the run context
                raise TypeError(f"capabilities=[{capability.__name__}]: give an instance, {capability.__name__}(…)")
            if not (isinstance(capability, AbstractCapability) or callable(capability)):
                raise TypeError(
                    f"capabilities: {type(capability).__name__} is no capability, nor a function that makes one"
                )
        return given

    def _refused_native(self, kind: str) -> None:
        error = PluginError(f"the provider's own tool {kind!r} was refused; to allow it: native_tools = [{kind!r}]")
        self.incidents.record("app", "request", error, "the request went without it")


def _too_early(what: str) -> PluginError:
    return PluginError(
        f"context.{what}() works at run time only, and this agent is still being made: call it in a tool, in a "
        "section's function, or in a method of a toolset or capability"
    )


def _processor(plugin: str, given: Processor | Callable[..., Any]) -> Processor:
    """A history processor; a bare callable gets the defaults."""
    if isinstance(given, Processor):
        return given
    name: str = getattr(given, "__name__", type(given).__name__)
    return Processor(name.lower(), given)


def _retries(given: int | AgentRetries | None) -> int | AgentRetries:
    """Return the application's retries, and 3 for what it leaves out.

    Pydantic AI's default of 1 ends a run at the second malformed call in a row; a model's slip should not.
    """
    return given if isinstance(given, int) else {"tools": 3, "output": 3, **(given or {})}
