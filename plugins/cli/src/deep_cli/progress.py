"""The plugin that the command line adds to a run: it receives events and counts."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from deep_core import ApprovalEvent, RequestEvent, ToolEvent, hookimpl

from .report import Step
from .reporter import Reporter

if TYPE_CHECKING:
    from pydantic_ai import Agent
    from pydantic_ai.workspaces import WorkspaceBackend

    from deep_core import AgentContext, DeepAgentDeps, RunEvent

__all__ = ["CliProgress"]


class CliProgress:
    """Count events, then report them.

    Args:
        reporter: receives them.
    """

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._muted = False
        self._context: AgentContext | None = None
        self.requests = 0
        self.input_tokens = 0
        self.output_tokens = 0
        self.steps: list[Step] = []
        self.denied_ids: set[str] = set()
        """Ids of the calls that policy or the user denied."""

    @contextlib.contextmanager
    def mute(self) -> Generator[None]:
        """Ignore events: `explain` sends a request as well."""
        self._muted = True
        try:
            yield
        finally:
            self._muted = False

    @hookimpl
    def deep_agent_created(self, agent: Agent[Any, Any], context: AgentContext) -> None:
        """Keep the object that knows the agent's backend."""
        if context.depth == 0:
            self._context = context

    def backend(self, deps: DeepAgentDeps[Any]) -> WorkspaceBackend | None:
        """The session's backend, made now if the agent has not used it yet; None before there is an agent."""
        return deps.backend if self._context is None else self._context.backend(deps)

    @hookimpl
    def deep_run_event(self, event: RunEvent, context: AgentContext) -> None:
        """Count an event, then report it."""
        if self._muted:
            return
        if isinstance(event, RequestEvent):
            self.requests += 1
            self.input_tokens += event.input_tokens
            self.output_tokens += event.output_tokens
        elif isinstance(event, ToolEvent) and event.outcome != "started":
            self.steps.append(
                Step(event.tool, event.plugin, event.args, event.outcome, event.milliseconds, event.error, event.depth)
            )
        elif isinstance(event, ApprovalEvent) and event.decision == "denied":
            self.denied_ids.add(event.call_id)
        self._reporter.event(event)
