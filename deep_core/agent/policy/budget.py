"""One count of requests for an agent and its subagents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic_ai.exceptions import UsageLimitExceeded

from ...plugins.contributions import StateSlot
from ..run.session import session

if TYPE_CHECKING:
    from ..run.session import Ctx

Waiting = set[tuple[int, str | None]]
WAITING: StateSlot[Waiting] = StateSlot("deep_waiting", Waiting, set, persist=False, child="share")
"""(identity of the usage, run id) of each request without an answer. A usage counts only requests with one."""


def reserve_request(ctx: Ctx) -> None:
    """Check the run's limit of requests, and reserve one.

    A subagent's run shares its caller's usage. Subagents that work side by side would otherwise all send the last one.

    Raises:
        UsageLimitExceeded: the limit is reached, with the requests that wait for an answer.
    """
    waiting, own = session(ctx).state[WAITING], (id(ctx.usage), ctx.run_id)
    waiting.discard(own)
    limit = None if ctx.usage_limits is None else ctx.usage_limits.request_limit
    others = len([usage for usage, _ in waiting if usage == own[0]])
    if limit is not None and ctx.usage.requests + others >= limit:
        raise UsageLimitExceeded(f"the next request would exceed the request_limit of {limit}")
    waiting.add(own)


def release_request(ctx: Ctx) -> None:
    """End the reservation: the usage counts the request now, or the run has ended."""
    session(ctx).state[WAITING].discard((id(ctx.usage), ctx.run_id))
