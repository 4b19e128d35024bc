"""The plugin that the command line adds to a run: it receives events and counts."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deep_core import ApprovalEvent, RequestEvent, hookimpl

from .report import Step
from .reporter import Reporter

if TYPE_CHECKING:
    from pydantic_ai import Agent, RunContext
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.workspaces import WorkspaceBackend

    from deep_core import AgentContext, DeepAgentDeps, RunEvent

    from ..undo import FileLog

__all__ = ["CliProgress", "Spent"]


@dataclass
class Spent:
    """What the requests used so far, as the provider counted.

    Attributes:
        requests: their number, of subagents too.
        input_tokens: of all requests.
        output_tokens: the same.
        cost: in US dollars; None while no price of a model is known.
        context: tokens of the agent's last request and its answer.
        window: tokens that fit into the model's window; None if unknown.
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    context: int = 0
    window: int | None = None


class CliProgress:
    """Count events, then report them.

    Args:
        reporter: receives them.
    """

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._muted = False
        self._context: AgentContext | None = None
        self.log: FileLog | None = None
        """Keeps what tools change, to take it back; None for nothing."""
        self.spent = Spent()
        self.seen: set[str] = set()
        """The calls that were reported, by id: those of earlier responses may have the same ones."""
        self.steps: list[Step] = []
        self.denied: list[ApprovalEvent] = []
        """The calls that policy or the user denied."""

    @contextlib.contextmanager
    def mute(self) -> Generator[None]:
        """Ignore events: `explain` sends a request as well."""
        self._muted = True
        try:
            yield
        finally:
            self._muted = False

    @hookimpl
    def deep_capabilities(self, context: AgentContext) -> list[AbstractCapability[Any]]:
        """Watch the calls and responses of each agent, subagents included."""
        from .watch import WatchCapability

        return [WatchCapability(self)]

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
            self.counted(event.input_tokens, event.output_tokens)
        elif isinstance(event, ApprovalEvent) and event.decision == "denied":
            self.denied.append(event)
        self._reporter.event(event)

    # -- what the capability sees --------------------------------------------------------------------------------------

    def responded(self, cost: float | None, context: int | None, window: int | None) -> None:
        """Count the price of a response, and the tokens of the agent's own conversation."""
        if cost is not None and not self._muted:
            self.spent.cost = (self.spent.cost or 0.0) + cost
        if context is not None and not self._muted:
            self.spent.context, self.spent.window = context, window

    def counted(self, input_tokens: int, output_tokens: int) -> None:
        """Count a request."""
        self.spent.requests += 1
        self.spent.input_tokens += input_tokens
        self.spent.output_tokens += output_tokens
        self._reporter.spent(self.spent)

    def started(self, step: Step) -> None:
        """Report that a call starts."""
        self.seen.add(step.call_id)
        self._reporter.started(step)

    def waits(self, step: Step) -> None:
        """Report that a call waits for approval."""
        self._reporter.waits(step)

    def ended(self, step: Step) -> None:
        """Keep a call that ran, and report it."""
        if step.outcome != "interrupted":
            self.steps.append(step)
        self._reporter.ended(step)

    def refused(self, step: Step) -> None:
        """Report a call that did not start: no such tool is offered, or its arguments are wrong."""
        self.seen.add(step.call_id)
        self._reporter.ended(step)

    async def stream(self, ctx: RunContext[Any], events: AsyncIterable[object]) -> None:
        """Report the agent's text and thinking as they come: an event stream handler."""
        from pydantic_ai.messages import (
            PartDeltaEvent,
            PartStartEvent,
            TextPart,
            TextPartDelta,
            ThinkingPart,
            ThinkingPartDelta,
        )

        async for event in events:
            match event:
                case (
                    PartStartEvent(part=TextPart(content=str(text)))
                    | PartDeltaEvent(delta=TextPartDelta(content_delta=str(text)))
                ):
                    self._reporter.text(text)
                case (
                    PartStartEvent(part=ThinkingPart(content=str(text)))
                    | PartDeltaEvent(delta=ThinkingPartDelta(content_delta=str(text)))
                ):
                    self._reporter.thinking(text)
                case _:
                    pass
