"""How many calls of one run are under way at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import RunContext, ToolDefinition

from .slot import SEATS, Seats

if TYPE_CHECKING:
    from deep_core import DeepAgentDeps

__all__ = ["Parallel"]


class Parallel(AbstractCapability[Any]):
    """Lets only so many calls of a run execute at once; the others wait.

    A subagent's run has seats of its own: a call that waits for a subagent holds no seat that the subagent needs.

    Args:
        most: how many.
    """

    id = "deep.sessions.parallel"

    def __init__(self, most: int) -> None:
        self.most = most

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Wait for a seat, then run the call."""
        state = cast("DeepAgentDeps[Any]", ctx.deps).state
        seats = state[SEATS]
        if seats is None or seats.run != ctx.run_id:
            state[SEATS] = seats = Seats(ctx.run_id, asyncio.Semaphore(self.most))
        async with seats.free:
            return await handler(args)
