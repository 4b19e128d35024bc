"""Assembly of one `pydantic_ai.Agent`: collect what plugins contribute, plan the agent, build it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic_ai import Agent, AgentModelSettings, AgentRetries, DeferredToolRequests
from pydantic_ai.capabilities import AbstractCapability, AgentCapability
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings, merge_model_settings
from tool_expressions import Reason, as_expression, check_rule, tool_facts

from ..errors import ConfigError, PluginError, reraise_control
from ..plugins.contributions import PROCESSOR_PHASES, Contribution, Deny, Processor, ToolCall
from ..plugins.kernel import PluginKernel
from ..plugins.options import check_narrower
from .collect import Collection, as_processor
from .config import check_honored
from .plan import Contributed, Plan
from .policy.catalog import Catalog
from .policy.decisions import CheckCall, Policy
from .policy.gates import PolicyCapability, approves, is_capability, is_innermost, leaves_of
from .policy.native_tools import NativeTools, kinds_in
from .policy.vetting import vet
from .run.capability import AttemptCapability, DeepCapability
from .run.hosting import hostable
from .run.observers import Observers
from .run.session import Ctx, DeepAgentDeps, Deps
from .run.workspace import Workspaces
from .sections import PromptSection
from .spec import PASSED_ON, CallerSpec
from .tools.assembly import ToolAssembly


def assemble(kernel: PluginKernel, model: Model | str | None, parameters: Mapping[str, Any]) -> Agent[Any, Any]:
    """Create the agent. See `create_deep_agent`."""
    spec = CallerSpec.of(kernel, model, parameters)
    kernel.check_open()
    collection = Collection(spec)
    return _build(_plan(collection, None), collection)


def _subagent(parent: Plan, model: Model | str | None, changes: Mapping[str, Any]) -> Agent[Any, Any]:
    """Create a subagent for a plugin, whose changes can only narrow what its parent may do."""
    spec = parent.contributed.spec.child(model, changes)
    collection = Collection(spec)
    for capability in changes.get("capabilities") or ():
        if not is_capability(capability):
            raise TypeError("context.create_agent(capabilities=[…]): instances only")
        vet(capability, "a subagent", collection.native_kinds)
    for plugin, options in collection.options.items():
        check_narrower(plugin, options, parent.contributed.options.get(plugin, options))
    plan = _plan(collection, parent.policy)
    agent = _build(plan, collection)
    if missing := parent.guards - plan.guards:  # left out, or failed since
        what = "which checks its parent's calls or redacts its texts"
        raise PluginError(f"a subagent cannot be made without {min(missing)!r}, {what}")
    narrower = changes.get("tool_filter")
    if narrower is not None and plan.known is not None:
        check_rule(as_expression(narrower), [*map(tool_facts, plan.known)], "tool_filter")
    return agent


# -- plan ------------------------------------------------------------------------------------------------------------


def _plan(collection: Collection, parent: Policy | None) -> Plan:
    """Collect everything, then plan: nothing of a plugin that fails late gets into the agent."""
    found = collection.contributed()
    check_honored(found.config, found.plugins)
    collection.observers = observers = Observers(found.caller, found.contexts, found.listeners)
    catalog = Catalog(collection.rules)
    check, check_asking = _check_call(found, found.checks), _check_call(found, found.asking)
    policy = Policy(collection.rules, catalog, check, observers, parent, check_asking)
    tools = ToolAssembly(found, policy)
    toolbox = tools.toolbox()
    collection.workspaces = workspaces = _workspaces(found)
    static, live = _sections(found, live=False), _sections(found, live=True)
    processors = _processors(found)
    capabilities, own = _capabilities(found), _own_capabilities(found)
    mine = [capability for capability in own if is_capability(capability)]
    native = NativeTools(collection.native_kinds | _native_kinds(found, mine), partial(_refused_native, found))
    known = [*capabilities, *(("app", capability) for capability in mine)]
    tools.check_names(toolbox, known)
    has_tools = any(capability.get_toolset() is not None for _, capability in known)
    offered = tools.check_rules(toolbox, complete=len(mine) == len(own) and not has_tools)
    return Plan(found, policy, toolbox, static, live, processors, workspaces, capabilities, own, native, offered)


def _check_call(found: Contributed, plugins: Sequence[str]) -> CheckCall | None:
    if not plugins:
        return None

    async def check(ctx: Ctx, call: ToolCall) -> Deny | list[Reason]:
        return await found.caller.strictest(
            "deep_check_call", lambda p: {"call": call, "context": found.contexts[p], "ctx": ctx}, among=plugins
        )

    return check


def _workspaces(found: Contributed) -> Workspaces:
    backends = found.to("deep_backends")
    found.kernel.check_unique("backend", [(c.value[0], c.plugin) for c in backends])
    provided = {c.value[0]: (c.value[1], found.contexts[c.plugin]) for c in backends}
    policy = found.agent_config.runtime_policy
    chosen = found.spec.given.get("backend") or policy.profile
    if not isinstance(chosen, str | None) and (policy.sandbox_mode or policy.working_directory):
        raise ConfigError("agent.runtime_policy: give backend= a name: sandbox_mode and working_directory need one")
    return Workspaces(chosen, provided, found.contexts["app"])


def _sections(found: Contributed, *, live: bool) -> list[Contribution[PromptSection]]:
    sections = found.to("deep_prompt_sections")
    found.kernel.check_unique("prompt section", [(c.value.name, c.plugin) for c in sections])
    wanted = [c for c in sections if (c.value.fn is not None) == live]
    wanted = wanted if live else [c for c in (_resolved(found, each) for each in wanted) if c is not None]
    return sorted(wanted, key=lambda c: c.value.order)  # stable: plugin order within one order


def _resolved(found: Contributed, item: Contribution[PromptSection]) -> Contribution[PromptSection] | None:
    section = item.value
    if not callable(section.text):
        return item
    try:
        text = section.text()
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a section's text is text, not {type(text).__name__}")
    except BaseException as error:
        reraise_control(error)
        found.incidents.record(item.plugin, f"section {section.name}", error, "the section was left out")
        return None
    return Contribution(item.plugin, replace(section, text=text))


def _processors(found: Contributed) -> list[Contribution[Processor]]:
    own = [Contribution("app", as_processor("app", each)) for each in found.spec.given.get("history_processors", ())]
    every = [*found.to("deep_history_processors"), *own]
    return sorted(every, key=lambda item: PROCESSOR_PHASES.index(item.value.phase))


def _capabilities(found: Contributed) -> list[tuple[str, AbstractCapability[Deps]]]:
    out: list[tuple[str, AbstractCapability[Deps]]] = []
    counts: dict[str, int] = {}
    for item in found.to("deep_capabilities"):
        capability: AbstractCapability[Deps] = item.value
        if capability.id is None:
            # A stable id attributes its tools and instructions, and durable engines need one.
            counts[item.plugin] = counts.get(item.plugin, 0) + 1
            capability = copy.copy(capability)
            capability.id = f"{item.plugin}.{type(capability).__name__}.{counts[item.plugin]}"
        out.append((item.plugin, capability))
    return out


def _own_capabilities(found: Contributed) -> Sequence[AgentCapability[Deps]]:
    given = found.spec.given.get("capabilities", ())
    for capability in given:
        if isinstance(capability, type):  # Pydantic AI would call the class with the run context
            raise TypeError(f"capabilities=[{capability.__name__}]: give an instance, {capability.__name__}(…)")
        if not (is_capability(capability) or callable(capability)):
            raise TypeError(
                f"capabilities: {type(capability).__name__} is no capability, nor a function that makes one"
            )
    return given


def _native_kinds(found: Contributed, capabilities: Sequence[AbstractCapability[Deps]]) -> frozenset[str]:
    """Return the kinds of native tools that the application's capabilities and settings add: code names these."""
    leaves = [leaf for capability in capabilities for leaf in leaves_of(capability)]
    kinds = {getattr(tool, "kind", "") for leaf in leaves for tool in leaf.get_native_tools()}
    return kinds_in(found.spec.given.get("model_settings")) | kinds


def _refused_native(found: Contributed, kind: str) -> None:
    error = PluginError(f"the provider's own tool {kind!r} was refused; to allow it: native_tools = [{kind!r}]")
    found.incidents.record("app", "request", error, "the request went without it")


# -- build -----------------------------------------------------------------------------------------------------------


def _build(plan: Plan, collection: Collection) -> Agent[Any, Any]:
    """Create the agent, then tell the plugins."""
    found, given, identity = plan.contributed, plan.contributed.spec.given, plan.contributed.agent_config.identity
    model = _model(found)
    parameters: dict[str, Any] = {
        "description": identity.description,
        "instructions": found.agent_config.instructions,
        **{key: value for key, value in given.items() if key in PASSED_ON},
        "deps_type": DeepAgentDeps,
        "output_type": _output_type(given.get("output_type", str), plan.policy),
        "name": given.get("name") or identity.name,
        "model_settings": _model_settings(found),
        "retries": _retries(given.get("retries")),
        # The toolbox has these.
        "tools": (),
        "toolsets": (),
        "capabilities": _chain(plan),
    }
    try:
        agent: Agent[Any, Any] = Agent(model, **parameters)
    except UserError as error:
        collection.explain_unknown(str(model), error)
        raise
    found.caller.notify_now(
        "deep_agent_created", lambda p: {"agent": agent, "context": found.contexts[p]}, among=found.plugins
    )
    collection.make_subagent = partial(_subagent, plan)
    return agent


def _chain(plan: Plan) -> list[AgentCapability[Deps]]:
    """Return all capabilities, outermost first: the outer gate, those of plugins and of the application, `deep`."""
    contributed = [capability for _, capability in plan.capabilities]
    others = [*contributed, *plan.own]
    known = [capability for capability in others if is_capability(capability)]
    leaves = [leaf for capability in known for leaf in (capability, *leaves_of(capability))]
    hosted: list[AbstractCapability[Deps]] = []
    for each in others:
        if not is_capability(each) or not hostable(each):
            break  # only the leading ones, so that the order stays the same
        hosted.append(each)
    redacts = any(processor.value.phase == "redact" for processor in plan.processors)
    alone = len(hosted) == len(others) and not redacts
    kind = DeepCapability if alone else AttemptCapability
    deep = kind(plan, stands_last=not any(map(is_innermost, leaves)))
    approvers = tuple(filter(approves, leaves))
    kernel, policy = plan.kernel, plan.policy
    gate = PolicyCapability(
        id="deep.policy", hosted=tuple(hosted), kernel=kernel, policy=policy, approvers=approvers, owners=plan.owners
    )
    # `deep` last: it redacts what others appended, and its gate is inside what they wrap around tools.
    return [gate, *others[len(hosted) :], deep]


def _model(found: Contributed) -> Model | str | None:
    model = found.spec.model if found.spec.model is not None else found.agent_config.model.id
    if isinstance(model, str):
        ask = {"model_id": model, "config": found.agent_config}
        known = found.caller.first("deep_resolve_model", ask, among=found.plugins)
        return known or found.agent_config.model.served(model) or model
    return model


def _model_settings(found: Contributed) -> AgentModelSettings[Deps] | None:
    """Merge the caller's settings into the configuration's. A function is called for each request."""
    section = found.agent_config.model
    configured = section.settings()
    given: AgentModelSettings[Deps] | None = found.spec.given.get("model_settings")
    if not callable(given) and not section.forced:
        return merge_model_settings(configured, given) or None

    def settings(ctx: Ctx) -> ModelSettings:
        mine = merge_model_settings(configured, section.forced if ctx.run_step == 1 else None)
        return merge_model_settings(mine, given(ctx) if callable(given) else given) or ModelSettings()

    return settings


def _output_type(given: Any, policy: Policy) -> Any:
    if not policy.asks:
        return given
    outputs: list[Any] = [*given] if isinstance(given, list | tuple) else [given]
    return outputs if DeferredToolRequests in outputs else [*outputs, DeferredToolRequests]


def _retries(given: int | AgentRetries | None) -> int | AgentRetries:
    """Return the application's retries, and 3 for what it leaves out.

    Pydantic AI's default of 1 ends a run at the second malformed call in a row; a model's slip should not.
    """
    return given if isinstance(given, int) else {"tools": 3, "output": 3, **(given or {})}
