"""The tool `task`, as the model sees it."""

from __future__ import annotations

import difflib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from pydantic_ai import Agent, FunctionToolset, RunContext, Tool, ToolDefinition
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.exceptions import ToolFailed, UserError
from pydantic_core import SchemaValidator, core_schema

from deep_core import DeepAgentDeps, PluginError

from .approvals import DECISIONS
from .catalogue import DEFAULT
from .children import Child
from .options import GENERAL_PURPOSE, SubAgentConfig, SubagentsOptions
from .slots import PAUSED, SUBAGENTS

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from deep_core import AgentContext, Kernel

__all__ = ["build_toolset", "create_subagent_toolset", "factory_of"]

Factory: TypeAlias = "Callable[[SubAgentConfig, DeepAgentDeps[Any]], Agent[Any, Any]]"
"""Makes the agent of a type; the deps are those of the caller."""

DESCRIPTION = (
    "Give a subagent a task. It sees nothing of this conversation: say all it needs and what to report. "
    "Several at once run in parallel."
)
REPORT = "Your last message is all that your caller gets: what you found or did, and what is left to do."


class Delegation:
    """What `task` of one agent works with. Nothing of a session is in it."""

    def __init__(
        self, options: SubagentsOptions, types: Mapping[str, SubAgentConfig], make: Factory, logger: logging.Logger
    ) -> None:
        self._options = options
        self._types = types
        self._make = make
        self._logger = logger
        self._made: dict[tuple[str, int, Kernel], Agent[Any, Any]] = {}
        self._lock = threading.Lock()  # one agent serves several event loops

    async def task(self, ctx: RunContext[DeepAgentDeps[Any]], arguments: Mapping[str, Any]) -> str:
        """Start a subagent, or go on with one that waited."""
        deps = _session(ctx)
        description, name = self._read(arguments, deps)
        child = self._child(name, deps)
        call_id = ctx.tool_call_id or ""
        paused = deps.state[PAUSED].get(call_id) if ctx.tool_call_approved else None
        if paused is not None and (paused.subagent_type, paused.description) != (name, description):
            paused = None  # the person changed the task itself: that is another one
        if paused is None and _decisions(ctx.tool_call_metadata):
            raise ToolFailed(
                f"Subagent {name!r} cannot go on: the session has nothing of it (it was not stored, or has gone on "
                "already). Start it anew if the task is still to be done."
            )
        try:
            report = await (child.start(ctx, description) if paused is None else child.resume(ctx, paused))
        except ToolFailed:
            deps.state[PAUSED].pop(call_id, None)
            raise
        deps.state[PAUSED].pop(call_id, None)
        return report

    def hidden(self, deps: object) -> bool:
        """Whether a session is so deep that it starts no subagents."""
        return getattr(deps, "depth", 0) >= self._options.max_depth

    def _read(self, arguments: Mapping[str, Any], deps: DeepAgentDeps[Any]) -> tuple[str, str]:
        description = arguments.get("description")
        if not isinstance(description, str) or not description.strip():
            raise ToolFailed("description is missing: say what the subagent is to do, as a text.")
        name = arguments.get("subagent_type") or GENERAL_PURPOSE
        known = [*dict.fromkeys([*deps.state[SUBAGENTS], *self._types])]
        if not isinstance(name, str) or name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ToolFailed(f"There is no subagent type {name!r}.{hint} Types: {', '.join(known) or 'none'}.")
        return description, name

    def _child(self, name: str, deps: DeepAgentDeps[Any]) -> Child:
        prepared: AbstractAgent[Any, Any] | None = deps.state[SUBAGENTS].get(name)
        if prepared is not None:
            if not isinstance(cast("object", prepared), AbstractAgent):
                raise TypeError(
                    f"deps.subagents[{name!r}] is a {type(prepared).__name__}; put a Pydantic AI agent there"
                )
            return Child(name, prepared, True, prepared.model is not None, self._options, self._logger)
        config = self._types[name]
        key = name, deps.depth, deps.state.kernel
        with self._lock:
            agent = self._made.get(key)
            if agent is None:
                try:
                    agent = self._made[key] = self._make(config, deps)
                except (PluginError, UserError, ValueError, TypeError) as error:
                    self._logger.warning("subagent type %s cannot be made: %s", name, error)
                    raise ToolFailed(
                        f"Subagents of type {name!r} cannot be made here ({error}). Use another type, or go on without."
                    ) from error
        return Child(name, agent, False, config.model is not None, self._options, self._logger)


def _decisions(metadata: object) -> bool:
    return isinstance(metadata, Mapping) and DECISIONS in metadata


def _session(ctx: RunContext[Any]) -> DeepAgentDeps[Any]:
    deps: object = ctx.deps
    if isinstance(deps, DeepAgentDeps):
        return cast("DeepAgentDeps[Any]", deps)
    raise UserError(
        "`task` keeps subagents in the session, and this run has none. Pass deps=deep_core.create_default_deps(), with "
        "your own object as app=…"
    )


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
    delegation = Delegation(options, types, make, logger)

    async def task(ctx: RunContext[Any], **arguments: Any) -> str:
        return await delegation.task(ctx, arguments)

    async def offered(ctx: RunContext[Any], definition: ToolDefinition) -> ToolDefinition | None:
        return None if delegation.hidden(ctx.deps) else definition

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
