"""Forget subagents whose calls no longer wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_ai import DeferredToolRequests, RunContext
from pydantic_ai.capabilities import AbstractCapability

from .slots import PAUSED

if TYPE_CHECKING:
    from pydantic_ai.run import AgentRunResult

__all__ = ["ForgetPaused"]


class ForgetPaused(AbstractCapability[Any]):
    """Drop the subagents of a conversation whose `task` call was denied, or answered otherwise."""

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Keep those that the run's result asks about, and those of other conversations."""
        paused = ctx.deps.state[PAUSED]
        if paused:
            output: object = result.output
            waiting = (
                {call.tool_call_id for call in output.approvals} if isinstance(output, DeferredToolRequests) else ()
            )
            for key, child in [*paused.items()]:
                if child.owner == ctx.conversation_id and child.call_id not in waiting:
                    del paused[key]
        return result
