"""The policies of dispatch inside an agent: capabilities for tool errors, middleware and isolated contexts."""

from __future__ import annotations

import copy
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import (
    AgentRunError,
    ApprovalRequired,
    CallDeferred,
    ModelAPIError,
    ModelRetry,
    SkipToolExecution,
    ToolFailed,
    ToolFailedError,
    ToolRetryError,
    UserError,
)
from pydantic_ai.toolsets import WrapperToolset

from deep_core import DeepAgentDeps, tool_facts
from deep_core.plugin_api import as_expression

from .calls import ToolCall
from .contexts import isolate
from .execution import describe_failure
from .middleware import Layer, Middleware, as_layers, layers_of, run_layers

if TYPE_CHECKING:
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.tools import RunContext, ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset
    from pydantic_ai.toolsets.abstract import ToolsetTool

    from deep_core import ToolExpression

__all__ = ["IsolatedContexts", "Middlewares", "ToolErrorsAsResults"]

logger = logging.getLogger("deep.universe")

_PASSED: Final = (
    AgentRunError,  # a limit, a cancellation, retries that are used up: they concern the run
    ApprovalRequired,
    CallDeferred,
    ModelRetry,
    SkipToolExecution,
    ToolFailed,
    ToolFailedError,
    ToolRetryError,
    UserError,  # the application uses Pydantic AI wrongly
)
"""What Pydantic AI and the kernel say by an exception. Everything else is the failure of a tool."""


class ToolErrorsAsResults(AbstractCapability[Any]):
    """A tool that raises is a failed result that the model reads; the run goes on.

    Retries, approvals, deferred calls, limits and cancellations pass unchanged. The model reads the exception's class
    and message, at most 2,000 characters, and no traceback; a pydantic `ValidationError` in the tool's body shows no
    values. Each failure is logged. The kernel does this for tools of plugins; this capability does it for the
    application's own tools, and for middleware inside it.

    Args:
        scope: the tools, as an expression or its text; None for all.

    Raises:
        ExpressionParseError: `scope` is a text that is not an expression.
    """

    def __init__(self, scope: ToolExpression | str | None = None) -> None:
        self.scope = None if scope is None else as_expression(scope)

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Run the call, and fail it if it raises."""
        try:
            return await handler(args)
        except Exception as error:
            if _passes(error) or (self.scope is not None and not self.scope.matches(tool_facts(tool_def))):
                raise
            # One line for the terminal; the traceback only at level DEBUG.
            shown = error if logger.isEnabledFor(logging.DEBUG) else None
            text = describe_failure(error)
            logger.warning("tool %s failed: %s; the model was told", tool_def.name, text, exc_info=shown)
            raise ToolFailed(text) from error


def _passes(error: Exception) -> bool:
    if isinstance(error, ExceptionGroup):
        return any(map(_passes, cast("ExceptionGroup[Exception]", error).exceptions))
    # A provider that fails a model which the tool asked is a failure of that tool.
    return isinstance(error, _PASSED) and not isinstance(error, ModelAPIError)


class Middlewares(AbstractCapability[Any]):
    """Runs middleware around the calls of an agent's tools, as `Universe.use` does around those of a universe.

    It runs inside the kernel's policy: a denied call, or one that waits for approval, does not reach it. Among several
    capabilities, the first is outermost. `call.arguments` are validated Python values; arguments that a middleware
    changes are decided by the policy again, and not validated again.

    Args:
        middlewares: functions and objects that are middleware, and `Layer`s, outermost first; layers with a scope run
            inside those without one.
        scope: the tools that any of them surrounds, as an expression or its text; None for all.
        context: makes `call.context`, of which each call gets its own copy; None for the application's own mapping:
            `ctx.deps.app`, or `ctx.deps` of an agent without kernel; `{}` if it is not a mapping.

    Raises:
        MiddlewareError: one of them is not middleware, or has no name of its own and no uid.
        ExpressionParseError: `scope` is a text that is not an expression.
    """

    def __init__(
        self,
        middlewares: Iterable[Middleware | Layer],
        scope: ToolExpression | str | None = None,
        *,
        context: Callable[[RunContext[Any]], Mapping[str, Any]] | None = None,
    ) -> None:
        self.layers = as_layers(middlewares)
        self.scope = None if scope is None else as_expression(scope)
        self.context = context or _application_context

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Run the call inside the layers that surround it."""
        facts = tool_facts(tool_def)
        layers = layers_of(facts, self.layers) if self.scope is None or self.scope.matches(facts) else []
        if not layers:
            return await handler(args)

        async def execute(current: ToolCall) -> Any:
            return await handler(dict(current.arguments))

        context = isolate(dict(self.context(ctx)))
        return await run_layers(layers, ToolCall(call.tool_call_id, tool_def.name, args, context), execute)


class IsolatedContexts(AbstractCapability[Any]):
    """Gives each call of a tool its own copy of what the application passed: calls at once cannot disturb each other.

    `ctx.deps.app`, or `ctx.deps` of an agent without kernel, is copied as `dispatch` copies its context: dicts, lists
    and other containers are copied, everything else is shared. What a tool writes into it is dropped after the call.
    The session's state, todos say, is the session's own and stays shared.
    """

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """Wrap the run's tools, so that each call gets a context of its own."""
        return _Isolating(toolset)


class _Isolating(WrapperToolset[Any]):
    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        return await self.wrapped.call_tool(name, tool_args, replace(ctx, deps=_isolated(ctx.deps)), tool)


def _isolated(deps: object) -> object:
    if not isinstance(deps, DeepAgentDeps):
        return isolate(deps)
    session = cast("DeepAgentDeps[Any]", deps)
    fresh = copy.copy(session)
    fresh.app = isolate(session.app)
    return fresh


def _application_context(ctx: RunContext[Any]) -> Mapping[str, Any]:
    deps: object = ctx.deps
    own: object = cast("DeepAgentDeps[Any]", deps).app if isinstance(deps, DeepAgentDeps) else deps
    return cast("Mapping[str, Any]", own) if isinstance(own, Mapping) else {}
