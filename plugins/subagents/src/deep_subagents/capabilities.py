"""What holds for a whole run, beside the tool: a subagent's own budget, and an end to what nobody waits for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_ai import DeferredToolRequests, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import UsageLimitExceeded

from .slots import PAUSED, REQUESTS

if TYPE_CHECKING:
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.run import AgentRunResult

__all__ = ["ForgetPaused", "RequestBudget"]


@dataclass
class RequestBudget(AbstractCapability[Any]):
    """Holds one subagent to a number of requests.

    The usage of a run is shared with its subagents, so the limits of the run hold for all of them together; what one
    of them may make of it is counted here.
    """

    limit: int = 40

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Count the request, or end the subagent's run."""
        made = ctx.deps.state[REQUESTS]
        if made >= self.limit:
            raise UsageLimitExceeded(f"it has made the {self.limit} requests that one subagent may make")
        ctx.deps.state[REQUESTS] = made + 1
        return request_context


@dataclass
class ForgetPaused(AbstractCapability[Any]):
    """Drops the subagents of a conversation that wait no more: their `task` call was denied, or answered otherwise."""

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Keep what the run's result still asks about, and what belongs to other conversations."""
        paused = ctx.deps.state[PAUSED]
        if paused:
            output: object = result.output
            waiting = (
                {call.tool_call_id for call in output.approvals} if isinstance(output, DeferredToolRequests) else ()
            )
            for call_id in [key for key, child in paused.items() if child.owner == ctx.conversation_id]:
                if call_id not in waiting:
                    del paused[call_id]
        return result
