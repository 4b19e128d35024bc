"""The work of `task`: find or create the subagent, and start or resume it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from pydantic_ai import Agent, RunContext
from pydantic_ai.exceptions import ToolFailed, UserError

from deep_core import DeepAgentDeps, PluginError
from deep_core.plugin_api import suggest

from . import background
from .approvals import DECISIONS
from .children import Child
from .options import GENERAL_PURPOSE, SubAgentConfig, SubagentsOptions
from .paused_child import paused_key
from .prepared import check_prepared
from .slots import PAUSED, SUBAGENTS

if TYPE_CHECKING:
    from pydantic_ai.agent import AbstractAgent

    from deep_core import PluginKernel

__all__ = ["Delegation", "Factory"]

Factory: TypeAlias = "Callable[[SubAgentConfig, DeepAgentDeps[Any]], Agent[Any, Any]]"
"""Creates the agent of a type; the deps are the caller's."""


class Delegation:
    """The `task` tool of one agent. Holds no session."""

    def __init__(
        self, options: SubagentsOptions, types: Mapping[str, SubAgentConfig], make: Factory, logger: logging.Logger
    ) -> None:
        self._options = options
        self._types = types
        self._make = make
        self._logger = logger
        self._agents: dict[tuple[str, int, PluginKernel], Agent[Any, Any]] = {}
        self._lock = threading.Lock()  # one agent serves several event loops

    async def task(self, ctx: RunContext[DeepAgentDeps[Any]], arguments: Mapping[str, Any]) -> str:
        """Start a subagent, or resume one that waited."""
        deps = _session(ctx)
        description, name = self._read(arguments, deps)
        child = self._child(name, deps)
        waiting = deps.state[PAUSED]
        key = paused_key(ctx, waiting)
        paused = waiting.get(key) if ctx.tool_call_approved else None
        if paused is not None and (paused.subagent_type, paused.description) != (name, description):
            paused = None  # the user changed the task: start a new one
        if self._options.background and arguments.get("background") in (True, "true"):
            return background.start(ctx, child, description)
        if paused is None and _decisions(ctx.tool_call_metadata):
            raise ToolFailed(
                f"Subagent {name!r} cannot resume: the session does not have it (it was not stored, or it was resumed "
                "already). Start it again if the task is not done."
            )
        try:
            report = await (child.start(ctx, description) if paused is None else child.resume(ctx, paused))
        except ToolFailed:
            waiting.pop(key, None)
            raise
        waiting.pop(key, None)
        return report

    async def status(self, ctx: RunContext[DeepAgentDeps[Any]], arguments: Mapping[str, Any]) -> str:
        """Report on background tasks, or resume the one that this call asked a person about."""
        deps = _session(ctx)
        return await background.status(ctx, arguments, lambda name: self._child(name, deps))

    async def cancel(self, ctx: RunContext[DeepAgentDeps[Any]], arguments: Mapping[str, Any]) -> str:
        """Stop a background task."""
        _session(ctx)
        return await background.cancel(ctx, arguments)

    def _read(self, arguments: Mapping[str, Any], deps: DeepAgentDeps[Any]) -> tuple[str, str]:
        description = arguments.get("description")
        if not isinstance(description, str) or not description.strip():
            raise ToolFailed("description is missing: describe the subagent's task, as text.")
        name = arguments.get("subagent_type") or GENERAL_PURPOSE
        names = [*dict.fromkeys([*deps.state[SUBAGENTS], *self._types])]
        if not isinstance(name, str) or name not in names:
            hint = suggest(str(name), names)
            raise ToolFailed(f"There is no subagent type {name!r}.{hint} Types: {', '.join(names) or 'none'}.")
        return description, name

    def _child(self, name: str, deps: DeepAgentDeps[Any]) -> Child:
        prepared: AbstractAgent[Any, Any] | None = deps.state[SUBAGENTS].get(name)
        if prepared is not None:
            check_prepared(name, prepared)  # a whole dict may have been assigned to the slot
            return Child(name, prepared, True, prepared.model is not None, self._options, self._logger)
        config = self._types[name]
        key = name, deps.depth, deps.state.kernel
        with self._lock:
            agent = self._agents.get(key)
            if agent is None:
                try:
                    agent = self._agents[key] = self._make(config, deps)
                except (PluginError, UserError, ValueError, TypeError) as error:
                    self._logger.warning("subagent type %s cannot be made: %s", name, error)
                    raise ToolFailed(
                        f"Subagents of type {name!r} cannot be made ({error}). Use another type, or continue without."
                    ) from error
        return Child(name, agent, False, config.model is not None, self._options, self._logger)


def _decisions(metadata: object) -> bool:
    return isinstance(metadata, Mapping) and DECISIONS in metadata


def _session(ctx: RunContext[Any]) -> DeepAgentDeps[Any]:
    deps: object = ctx.deps
    if isinstance(deps, DeepAgentDeps):
        return cast("DeepAgentDeps[Any]", deps)
    raise UserError(
        "`task` needs a session, and this run has none. Pass deps=deep_core.create_default_deps(), with "
        "your object as app=…"
    )
