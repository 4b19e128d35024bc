"""The capabilities that honor the keys of `[agent]` that the kernel leaves to this plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_ai.capabilities import AbstractCapability

    from deep_core import AgentContext

__all__ = ["capabilities"]


def capabilities(context: AgentContext) -> list[AbstractCapability[Any]]:
    """Return the door, the request layer, and a capability for each key that is set. Hosted ones come first."""
    config = context.config
    from .door.capability import Door
    from .requests.capability import Requests

    found: list[AbstractCapability[Any]] = [Door(), Requests(context)]
    if config.profile == "small":
        from .small import SmallProfile

        found.append(SmallProfile())
    if context.sets("loop") or config.tools_policy.max_calls_per_run is not None:
        from .loop_limits import loop_limits

        found += loop_limits(context)
    if context.sets("tools_policy.max_parallel"):
        from .parallel import Parallel

        found.insert(0, Parallel(config.tools_policy.max_parallel))
    if context.sets("limits"):
        from .budgets import Budgets

        found.append(Budgets(config))
    if config.observability.enable_trace or config.observability.enable_metrics:
        from .instrumentation import instrumentation

        found.append(instrumentation(config))
    return found
