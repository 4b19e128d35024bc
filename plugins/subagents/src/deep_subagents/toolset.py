"""The tool `task` for the model."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from pydantic_ai import Agent, FunctionToolset, RunContext, Tool, ToolDefinition
from pydantic_ai.capabilities import Toolset
from pydantic_core import SchemaValidator, core_schema

from deep_core import ToolName
from deep_core.plugin_api import as_expression

from .catalog import DEFAULT
from .inherited import plan_of, tags_of_children
from .options import GENERAL_PURPOSE, SubAgentConfig, SubagentsOptions

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from deep_core import AgentContext, DeepAgentDeps, Kernel

    from .delegation import Delegation, Factory

__all__ = ["build_toolset", "create_subagent_toolset", "factory_of"]

DESCRIPTION = (
    "Give a subagent a task. It sees nothing of this conversation: say all it needs and what to report. "
    "Several at once run in parallel."
)
OWN_TAGS = ("read", "subagent")
"""What starting a subagent does by itself."""
NO_PLAN = frozenset[str]()
"""Stands for the plan of an agent that no kernel made."""
STATUS = "Report on background tasks: one, or all. wait: until they end."
CANCEL = "Stop a background task."
REPORT = "Your last message is all that your caller gets: what you found or did, and what is left to do."


def instructions_of(config: SubAgentConfig) -> str:
    """Build the instructions of a subagent of this type."""
    return f"{config.instructions}\n\n{REPORT}"


def _own_parameters(config: SubAgentConfig) -> dict[str, Any]:
    """Return what a type changes of its caller: it narrows the tools, and adds functions of its own."""
    changes: dict[str, Any] = {}
    own = FunctionToolset[Any]([*config.functions], id=f"subagents-{config.name}")
    if own.tools:
        changes["capabilities"] = [Toolset(own)]
    if config.tools is not None:
        expression = as_expression(config.tools)
        for name in own.tools:
            expression |= ToolName(name)
        changes["tool_filter"] = expression
    return changes


def factory_of(context: AgentContext) -> Factory:
    """Create agents with the policy, options and model of the current agent, one level deeper."""

    def make(config: SubAgentConfig, deps: DeepAgentDeps[Any]) -> Agent[Any, Any]:
        return context.create_agent(
            config.model, name=config.name, instructions=instructions_of(config), **_own_parameters(config)
        )

    return make


def build_toolset(
    options: SubagentsOptions,
    types: Mapping[str, SubAgentConfig],
    make: Factory,
    logger: logging.Logger,
    *,
    id: str = "subagents",
) -> FunctionToolset[Any]:
    """Build the toolset with `task`.

    Its tags are `read`, `subagent` and those of all that its children may call: `~write` hides it where they may write,
    and an agent that may only read may let others read for it. It needs no approval: starting a subagent changes
    nothing, and each call of the subagent passes the same gates as its caller's. So `interrupt_on="write"` asks about
    the write and not about the delegation. To approve delegation: `interrupt_on="subagent"`.
    """
    lock = threading.Lock()  # one agent serves several event loops

    @cache
    def delegation() -> Delegation:
        from .delegation import Delegation  # loaded at the first task

        return Delegation(options, types, make, logger)

    async def task(ctx: RunContext[Any], **arguments: Any) -> str:
        with lock:
            work = delegation()
        return await work.task(ctx, arguments)

    async def task_status(ctx: RunContext[Any], **arguments: Any) -> str:
        with lock:
            work = delegation()
        return await work.status(ctx, arguments)

    async def task_cancel(ctx: RunContext[Any], **arguments: Any) -> str:
        with lock:
            work = delegation()
        return await work.cancel(ctx, arguments)

    # Found once for each agent, not at each request.
    inherited: WeakKeyDictionary[object, ToolDefinition] = WeakKeyDictionary()

    async def offer(ctx: RunContext[Any], definition: ToolDefinition) -> ToolDefinition | None:
        # A session at the maximum depth starts no subagents.
        if getattr(ctx.deps, "depth", 0) >= options.max_depth:
            return None
        if definition.name != "task":
            return definition
        plan = plan_of(ctx)
        offered = inherited.get(plan or NO_PLAN)
        if offered is None or offered.description != definition.description:
            tags = [*dict.fromkeys((*OWN_TAGS, *tags_of_children(plan, types.values())))]
            offered = replace(definition, metadata={**(definition.metadata or {}), "tags": tags})
            inherited[plan or NO_PLAN] = offered
        return offered

    kind: dict[str, Any] = {"type": "string"}
    if GENERAL_PURPOSE in types:
        kind["default"] = GENERAL_PURPOSE
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"description": {"type": "string"}, "subagent_type": kind},
        "required": ["description"] if GENERAL_PURPOSE in types else ["description", "subagent_type"],
    }
    found = [(task, "task", DESCRIPTION, schema)]
    if options.background:
        schema["properties"]["background"] = {"type": "boolean"}
        some = {"type": "object", "properties": {"task": {"type": "string"}, "wait": {"type": "boolean"}}}
        one = {"type": "object", "properties": {"task": {"type": "string"}}, "required": ["task"]}
        found += [(task_status, "task_status", STATUS, some), (task_cancel, "task_cancel", CANCEL, one)]
    tools = [Tool[Any].from_schema(*each, takes_ctx=True) for each in found]
    for tool in tools:
        # Accept any object: our answer to a mistake in it says more and costs no retry.
        tool.function_schema.validator = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))
        tool.metadata = {"tags": [*OWN_TAGS], "asking_tags": [*OWN_TAGS], "asks": False}
        tool.prepare = offer
    return FunctionToolset(tools, id=id)


def create_subagent_toolset(
    subagents: Iterable[SubAgentConfig | Mapping[str, Any]] | None = None,
    *,
    model: Model | str | None = None,
    include_general_purpose: bool = True,
    options: SubagentsOptions | None = None,
    id: str | None = None,
) -> FunctionToolset[Any]:
    """Create `task` for any `pydantic_ai.Agent` with `DeepAgentDeps` and `DeferredToolRequests` as an output.

    The session's kernel creates the subagents, with its configuration. An agent that deep-agent-core did not create has
    no policy to pass on: approvals that it asks for by other means do not apply to them.

    Args:
        subagents: the types, or mappings of their fields.
        model: for types without a model; None means the model of the run that calls `task`.
        include_general_purpose: add the type general-purpose.
        options: limits (depth, requests, time, report); its types are added.
        id: the toolset's id; `subagents` by default.
    """
    bounds = options or SubagentsOptions()
    configs = map(SubAgentConfig.model_validate, subagents or ())
    types = {kind.name: kind for kind in (*bounds.types, *configs)}
    if model is not None:
        types = {name: kind if kind.model else kind.model_copy(update={"model": model}) for name, kind in types.items()}
    if include_general_purpose and bounds.include_general_purpose:
        types.setdefault(GENERAL_PURPOSE, DEFAULT.model_copy(update={"model": model}))

    def make(config: SubAgentConfig, deps: DeepAgentDeps[Any]) -> Agent[Any, Any]:
        kernel = cast("Kernel", deps.state.kernel)  # every kernel of an application creates agents
        return kernel.create_agent(
            config.model,
            name=config.name,
            instructions=instructions_of(config),
            depth=deps.depth + 1,
            **_own_parameters(config),
        )

    return build_toolset(bounds, types, make, logging.getLogger("deep.subagents"), id=id or "subagents")
