"""A configuration that changes at the next step of the runs under way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai import InstructionPart
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import RunContext, ToolDefinition

from .budgets import Budgets
from .capability import journal_of
from .digest import config_digest
from .entries import encode
from .errors import UsageError
from .loop_limits import LoopLimits

if TYPE_CHECKING:
    from pydantic_ai.models import Model, ModelRequestContext
    from pydantic_ai.settings import ModelSettings

    from deep_core import AgentConfig, DeepAgentDeps

__all__ = ["StepConfig", "check_step"]

FREE = {
    *("model.provider", "model.model", "model.temperature", "model.max_tokens", "model.timeout_ms"),
    *("prompt.system", "observability.log_level"),
}
LOWER = {"loop.max_iterations", "loop.max_tool_rounds", "tools_policy.max_calls_per_run"}


@dataclass(frozen=True)
class _Change:
    before: AgentConfig
    after: AgentConfig
    model: Model[Any] | None
    limits: LoopLimits
    budgets: Budgets


class StepConfig(AbstractCapability[Any]):
    """Applies a change of the configuration to the runs under way. It does nothing before there is one.

    It has only hooks that the kernel hosts.
    """

    id = "deep.sessions.step_config"

    def __init__(self) -> None:
        self._change: _Change | None = None

    def change(self, before: AgentConfig, after: AgentConfig, model: Model[Any] | None) -> None:
        """Apply a configuration from the next request on, and its list of tools from the next call on.

        Args:
            before: what the runs under way began with.
            after: the new one.
            model: the new model; None keeps the run's.
        """
        first = before if self._change is None else self._change.before
        loop, policy = after.loop, after.tools_policy
        limits = LoopLimits(loop.max_iterations, loop.max_tool_rounds, policy.max_calls_per_run)
        if model is None and self._change is not None:
            model = self._change.model
        self._change = _Change(first, after, model, limits, Budgets(after))

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Apply the change to the request."""
        change = self._change
        if change is None:
            return request_context
        await change.budgets.before_model_request(ctx, request_context)
        parameters = request_context.model_request_parameters
        allowed = change.after.tools_policy.allow_list
        if isinstance(allowed, list):
            shown = [tool for tool in parameters.function_tools if tool.name in allowed]
            parameters = replace(parameters, function_tools=shown)
        if cast("DeepAgentDeps[Any]", ctx.deps).depth == 0:
            await change.limits.before_model_request(ctx, request_context)
            await _record(ctx, change.after)
            parameters = replace(parameters, instruction_parts=[*_parts(change, parameters.instruction_parts or [])])
            if change.model is not None:
                request_context.model = change.model
            old, new = change.before.model.settings(), change.after.model.settings()
            kept = {key: value for key, value in (request_context.model_settings or {}).items() if key not in old}
            request_context.model_settings = cast("ModelSettings", {**kept, **new}) or None
        request_context.model_request_parameters = parameters
        return request_context

    async def after_node_run(self, ctx: RunContext[Any], *, node: Any, result: Any) -> Any:
        """End the run before a batch that the change does not allow."""
        if self._change is None or cast("DeepAgentDeps[Any]", ctx.deps).depth:
            return result
        return await self._change.limits.after_node_run(ctx, node=node, result=result)

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Refuse a tool that the change took away."""
        allowed = self._change.after.tools_policy.allow_list if self._change is not None else None
        if isinstance(allowed, list) and tool_def.name not in allowed:
            raise ToolFailed(f"{tool_def.name} is not available any more.")
        return await handler(args)


def check_step(before: AgentConfig, after: AgentConfig) -> None:
    """Check that a change may reach the runs under way. Raises UsageError."""
    old, new = dict(_leaves(before.model_dump())), dict(_leaves(after.model_dump()))
    for key in sorted(old.keys() | new.keys()):
        was, now = old.get(key), new.get(key)
        if was == now or key in FREE or key.startswith("prompt.variables"):
            continue
        if key in LOWER or key.startswith("limits."):
            if now is not None and (was is None or now < was):
                continue
            raise UsageError(f"{key} can only be lowered in a run under way: set_config(…) changes the next runs")
        if key == "tools_policy.allow_list":
            if isinstance(now, list) and (was is None or (isinstance(was, list) and {*now} <= {*was})):
                continue
            raise UsageError(f"{key} can only lose names in a run under way: set_config(…) changes the next runs")
        raise UsageError(f"{key} cannot change in a run under way: set_config(…) changes the next runs")


def _leaves(data: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, dict) and value:
            yield from _leaves(cast("dict[str, Any]", value), f"{path}{key}.")
        else:
            yield path + key, value


def _parts(change: _Change, parts: list[InstructionPart]) -> Iterator[InstructionPart]:
    """The instructions with the new base prompt. An override of the run's own base prompt stays."""
    old, new = change.before.instructions, change.after.instructions
    if old is None and new is not None and all(part.content != new for part in parts):
        yield InstructionPart(new)
    for part in parts:
        if old is None or part.content != old:
            yield part
        elif new is not None:
            yield replace(part, content=new)


async def _record(ctx: RunContext[Any], config: AgentConfig) -> None:
    """Write the change to the journal of the run, once."""
    journal = journal_of(ctx)
    run = journal.state.run if journal is not None else None
    digest = config_digest(config)
    if journal is not None and run is not None and run.digest != digest:
        await journal.write(encode("config_changed", {"before": run.digest, "after": digest}, run.id))
        run.digest = digest
