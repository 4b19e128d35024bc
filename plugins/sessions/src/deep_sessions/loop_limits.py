"""How long a run may go on: its model requests, its rounds of tools, its calls, and its time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai import CallToolsNode, ModelRequestNode
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelResponse
from pydantic_ai.tools import RunContext

from .capability import journal_of
from .errors import LimitExceeded
from .slot import CALL, STEPS, Steps

if TYPE_CHECKING:
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.run import AgentRunResult

    from deep_core import AgentContext, DeepAgentDeps

logger = logging.getLogger("deep.sessions")

__all__ = ["LoopLimits", "RunDuration", "loop_limits"]


def loop_limits(context: AgentContext) -> list[AbstractCapability[Any]]:
    """Return the capabilities that keep the limits that the configuration of an agent sets."""
    found: list[AbstractCapability[Any]] = []
    loop, policy = context.config.loop, context.config.tools_policy
    iterations = loop.max_iterations if context.sets("loop.max_iterations") else None
    rounds = loop.max_tool_rounds if context.sets("loop.max_tool_rounds") else None
    if any(limit is not None for limit in (iterations, rounds, policy.max_calls_per_run)):
        found.append(LoopLimits(iterations, rounds, policy.max_calls_per_run))
    if context.sets("loop.max_run_duration_ms"):
        found.append(RunDuration(loop.max_run_duration_ms / 1000))
    return found


class LoopLimits(AbstractCapability[Any]):
    """Ends a run of one agent before the request, or the batch of calls, that would pass a limit.

    What a subagent does counts for the subagent. A resumed run goes on counting. It has only hooks that the kernel
    hosts.

    Args:
        iterations: model requests; None for no limit.
        rounds: responses with calls.
        calls: calls.
    """

    id = "deep.sessions.loop_limits"

    def __init__(self, iterations: int | None, rounds: int | None, calls: int | None) -> None:
        self.iterations, self.rounds, self.calls = iterations, rounds, calls

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """End the run if it has no request left."""
        if self.iterations is not None and steps_of(ctx).iterations >= self.iterations:
            raise LimitExceeded(f"the run has made its {self.iterations} model requests: loop.max_iterations")
        return request_context

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Count the response and its calls."""
        outputs = {tool.name for tool in request_context.model_request_parameters.output_tools}
        calls = sum(call.tool_name not in outputs for call in response.tool_calls)
        steps_of(ctx).add(calls)
        return response

    async def after_node_run(self, ctx: RunContext[Any], *, node: Any, result: Any) -> Any:
        """End the run before a batch that is not allowed. The journal has the response by now."""
        if isinstance(node, ModelRequestNode) and isinstance(result, CallToolsNode):
            steps = steps_of(ctx)
            response = cast("Any", result).model_response
            if response.tool_calls and self.rounds is not None and steps.rounds > self.rounds:
                raise LimitExceeded(f"the run has had its {self.rounds} rounds of calls: loop.max_tool_rounds")
            if response.tool_calls and self.calls is not None and steps.calls > self.calls:
                raise LimitExceeded(
                    f"the next calls would be {steps.calls} in this run, and it may make {self.calls}: "
                    "tools_policy.max_calls_per_run"
                )
        return cast("Any", result)


class RunDuration(AbstractCapability[Any]):
    """Cancels a run after a time, and logs why: the run raises RunCancelled.

    A `DeepAgent` needs it not: it gives each run its time.

    Args:
        seconds: the time.
    """

    id = "deep.sessions.run_duration"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Callable[[], Awaitable[AgentRunResult[Any]]]) -> Any:
        """Run with a timer. A deadline of this task would end the wrapper, and not what the run waits for."""

        def expire() -> None:
            logger.warning("the run took more than %g seconds and is cancelled: loop.max_run_duration_ms", self.seconds)
            ctx.cancel()

        timer = asyncio.get_running_loop().call_later(self.seconds, expire)
        try:
            return await handler()
        finally:
            timer.cancel()


def steps_of(ctx: RunContext[Any]) -> Steps:
    """Return what the run of this agent has done, in all attempts."""
    state = cast("DeepAgentDeps[Any]", ctx.deps).state
    run = (ctx.run_id or "").partition("~")[0]
    steps = state[STEPS]
    if steps.run != run:
        journal = journal_of(ctx)
        stored = journal.state.run if journal is not None else None
        done = stored.steps.get(CALL.get(), (0, 0, 0)) if stored is not None else (0, 0, 0)
        state[STEPS] = steps = Steps(run, *done)
    return steps
