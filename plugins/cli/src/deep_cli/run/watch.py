"""Watch an agent's tool calls: what each returned and changed, and which subagent's task made it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred
from pydantic_ai.messages import ToolReturn, ToolReturnPart

from deep_core import tool_facts
from deep_core.plugin_api import error_message

from .approval import picture
from .report import Step
from .undo import changed_path

if TYPE_CHECKING:
    from pydantic_ai import RunContext, ToolDefinition
    from pydantic_ai.messages import ModelResponse, ToolCallPart
    from pydantic_ai.models import ModelRequestContext

    from .progress import CliProgress

__all__ = ["WatchCapability"]

TASK: ContextVar[tuple[str, ...]] = ContextVar("deep_cli_task", default=())
"""The descriptions of the tasks that led to the subagent that runs here, outermost first."""


class WatchCapability(AbstractCapability[Any]):
    """Tells the command line of each call and each response. It changes neither."""

    id = "deep.cli"
    shares_context = True
    """It emits no events, so it needs no context of its own (decision 0010)."""

    def __init__(self, progress: CliProgress) -> None:
        self._progress = progress

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: it belongs to one command."""
        return None

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Count what a response cost, and how full the model's window is."""
        try:
            price = float(response.cost().total_price)
        except (LookupError, ValueError, AssertionError):  # no price is known for this model
            price = None
        used = response.usage.input_tokens + response.usage.output_tokens
        self._progress.responded(price, used if ctx.deps.depth == 0 else None, ctx.model.context_window)
        return response

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Tell when a call starts and how it ends."""
        facts, task = tool_facts(tool_def), TASK.get()
        step = Step(
            tool_def.name,
            facts.plugin,
            {**args},
            "started",
            0.0,
            depth=ctx.deps.depth,
            call_id=call.tool_call_id,
            task=task,
        )
        self._progress.started(step)
        diff, log, path = None, self._progress.log, changed_path(args)
        backend = None if path is None or "read" in facts.tags else self._progress.backend(ctx.deps)
        if path is not None and backend is not None:
            diff, _ = await picture(args, backend)
            if log is not None:
                await log.before(path, backend)
        token = TASK.set((*task, str(args.get("description", "")))) if "subagent" in facts.tags else None
        began = time.perf_counter()
        try:
            result = await handler(args)
        except (ApprovalRequired, CallDeferred):
            self._progress.waits(step)
            raise
        except asyncio.CancelledError:
            self._end(step, began, "interrupted")
            raise
        except Exception as error:
            retried = "Retry" in type(error).__name__
            self._end(step, began, "retried" if retried else "failed", error=error_message(error))
            raise
        finally:
            if token is not None:
                TASK.reset(token)
            if path is not None and backend is not None and log is not None:
                await log.after(path, backend)
        self._end(step, began, "success", result=_text(tool_def.name, result), diff=diff)
        return result

    def _end(self, step: Step, began: float, outcome: Any, **more: Any) -> None:
        milliseconds = (time.perf_counter() - began) * 1000
        self._progress.ended(replace(step, outcome=outcome, milliseconds=milliseconds, **more))


def _text(tool: str, result: object) -> str:
    """Return the text that the model gets of a result."""
    if isinstance(result, ToolReturn):
        result = result.return_value
    return result if isinstance(result, str) else ToolReturnPart(tool, result).model_response_str()
