"""The tool `task`, as the model sees it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic_ai import Agent, FunctionToolset, RunContext, Tool, ToolDefinition
from pydantic_core import SchemaValidator, core_schema

from .catalogue import DEFAULT
from .options import GENERAL_PURPOSE, SubAgentConfig, SubagentsOptions

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from deep_core import AgentContext, DeepAgentDeps

    from .delegation import Delegation, Factory

__all__ = ["build_toolset", "create_subagent_toolset", "factory_of"]

DESCRIPTION = (
    "Give a subagent a task. It sees nothing of this conversation: say all it needs and what to report. "
    "Several at once run in parallel."
)
REPORT = "Your last message is all that your caller gets: what you found or did, and what is left to do."


def instructions_of(config: SubAgentConfig) -> str:
    """What a subagent of this type is told."""
    return f"{config.instructions}\n\n{REPORT}"


def factory_of(context: AgentContext) -> Factory:
    """Agents with the policy, options and model of the agent that is being made, one level deeper."""

    def make(config: SubAgentConfig, deps: DeepAgentDeps[Any]) -> Agent[Any, Any]:
        changes: dict[str, Any] = {} if config.tools is None else {"tool_filter": config.tools}
        return context.create_agent(config.model, name=config.name, instructions=instructions_of(config), **changes)

    return make


def build_toolset(
    options: SubagentsOptions,
    types: Mapping[str, SubAgentConfig],
    make: Factory,
    logger: logging.Logger,
    *,
    id: str = "subagents",
) -> FunctionToolset[Any]:
    """The toolset with `task`.

    Its tags are `read` and `subagent`, and it asks for nothing: starting a subagent changes nothing in the world, and
    each call that the subagent makes passes the same gates as its caller's. So `interrupt_on="write"` asks about the
    write and not about the delegation, and an agent that may only read may let others read for it. To be asked about
    delegation all the same: `interrupt_on="subagent"`.
    """
    lock = threading.Lock()  # one agent serves several event loops

    @cache
    def delegation() -> Delegation:
        from .delegation import Delegation  # not loaded before a task is given

        return Delegation(options, types, make, logger)

    async def task(ctx: RunContext[Any], **arguments: Any) -> str:
        with lock:
            work = delegation()
        return await work.task(ctx, arguments)

    async def offered(ctx: RunContext[Any], definition: ToolDefinition) -> ToolDefinition | None:
        # A session so deep starts no subagents.
        return None if getattr(ctx.deps, "depth", 0) >= options.max_depth else definition

    kind: dict[str, Any] = {"type": "string"}
    if GENERAL_PURPOSE in types:
        kind["default"] = GENERAL_PURPOSE
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"description": {"type": "string"}, "subagent_type": kind},
        "required": ["description"] if GENERAL_PURPOSE in types else ["description", "subagent_type"],
    }
    tool = Tool[Any].from_schema(task, "task", DESCRIPTION, schema, takes_ctx=True)
    # Any object passes, so that every mistake in it gets an answer of ours, which says more and spends no retry.
    tool.function_schema.validator = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))
    tool.metadata = {"tags": ["read", "subagent"]}
    tool.prepare = offered
    return FunctionToolset([tool], id=id)


def create_subagent_toolset(
    subagents: Iterable[SubAgentConfig | Mapping[str, Any]] | None = None,
    *,
    model: Model | str | None = None,
    include_general_purpose: bool = True,
    options: SubagentsOptions | None = None,
    id: str | None = None,
) -> FunctionToolset[Any]:
    """`task` for any `pydantic_ai.Agent` whose deps are `DeepAgentDeps`, with `DeferredToolRequests` as an output.

    The subagents are made by the session's kernel, with its configuration. An agent that is not made by deep-core has
    no policy that they could take over: approvals that it asks for by other means do not hold for them.

    Args:
        subagents: the types; a mapping of their fields will do.
        model: of types that have none of their own; None means the model of the run that calls `task`.
        include_general_purpose: whether there is a type for everything else.
        options: bounds (depth, requests, time, report); its types are added.
        id: of the toolset; `subagents` by default.
    """
    bounds = options or SubagentsOptions()
    given = map(SubAgentConfig.model_validate, subagents or ())
    types = {kind.name: kind for kind in (*bounds.types, *given)}
    if model is not None:
        types = {name: kind if kind.model else kind.model_copy(update={"model": model}) for name, kind in types.items()}
    if include_general_purpose and bounds.include_general_purpose:
        types.setdefault(GENERAL_PURPOSE, DEFAULT.model_copy(update={"model": model}))

    def make(config: SubAgentConfig, deps: DeepAgentDeps[Any]) -> Agent[Any, Any]:
        changes: dict[str, Any] = {} if config.tools is None else {"tool_filter": config.tools}
        return deps.state.kernel.create_agent(
            config.model, name=config.name, instructions=instructions_of(config), depth=deps.depth + 1, **changes
        )

    return build_toolset(bounds, types, make, logging.getLogger("deep.subagents"), id=id or "subagents")
