"""Limit the requests of a subagent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import UsageLimitExceeded

from .slots import REQUESTS

if TYPE_CHECKING:
    from pydantic_ai.models import ModelRequestContext

__all__ = ["RequestBudget"]


@dataclass
class RequestBudget(AbstractCapability[Any]):
    """Limit one subagent to a number of requests.

    The usage of a run is shared with its subagents, so the run's limits hold for all together; this counts the
    requests of one.
    """

    limit: int = 40

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Count the request, or end the subagent's run."""
        count = ctx.deps.state[REQUESTS]
        if count >= self.limit:
            raise UsageLimitExceeded(f"it reached its limit of {self.limit} requests")
        ctx.deps.state[REQUESTS] = count + 1
        return request_context
