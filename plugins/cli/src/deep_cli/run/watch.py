"""Watch an agent's tool calls: what each returned and changed, and which subagent's task made it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deep_sessions import session_in
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred
from pydantic_ai.messages import ModelResponse, ToolReturn, ToolReturnPart

from deep_core import tool_facts
from deep_core.plugin_api import error_message

from ..undo import changed_path
from .approval import picture
from .report import Step

if TYPE_CHECKING:
    from pydantic_ai import RunContext, ToolDefinition
    from pydantic_ai.messages import ToolCallPart
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

    def __init__(self, progress: CliProgress, *, counts: bool = False) -> None:
        self._progress = progress
        self._counts = counts
        """Whether nothing else counts the requests: the agent is not of our kernel."""

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: it belongs to one command."""
        return None

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Tell of the calls that Pydantic AI answered itself, with a word on what was wrong."""
        messages = request_context.messages
        asked = messages[-2] if len(messages) > 1 else None
        calls = {call.tool_call_id: call for call in asked.tool_calls} if isinstance(asked, ModelResponse) else {}
        for part in messages[-1].parts if calls else ():
            call, words = calls.get(getattr(part, "tool_call_id", "")), _retry_words(part)
            if call is not None and words is not None and call.tool_call_id not in self._progress.seen:
                step = Step(call.tool_name, "", call.args_as_dict(), "failed", 0.0, error=words, depth=_depth(ctx))
                self._progress.refused(replace(step, call_id=call.tool_call_id, task=TASK.get()))
        return request_context

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Count what a response cost, and how full the model's window is."""
        try:
            price = float(response.cost().total_price)
        except (LookupError, ValueError, AssertionError):  # no price is known for this model
            price = None
        used = response.usage.input_tokens + response.usage.output_tokens
        self._progress.seen.difference_update(call.tool_call_id for call in response.tool_calls)
        self._progress.responded(price, used if _depth(ctx) == 0 else None, ctx.model.context_window)
        if self._counts:
            self._progress.counted(response.usage.input_tokens, response.usage.output_tokens)
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
            depth=_depth(ctx),
            call_id=call.tool_call_id,
            task=task,
        )
        self._progress.started(step)
        diff, log, path = None, self._progress.log, changed_path(args)
        session = None if path is None or "read" in facts.tags else session_in(ctx)
        backend = None if session is None else self._progress.backend(session)
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


def _depth(ctx: RunContext[Any]) -> int:
    session = session_in(ctx)
    return 0 if session is None else session.depth


def _retry_words(part: Any) -> str | None:
    """Return what the model reads where it must make a call again; None for any other part of a request.

    Pydantic AI before 2.66 has a part of its own for that, which is deprecated now.
    """
    if part.part_kind == "tool-return" and part.outcome == "retried":
        return part.content if isinstance(part.content, str) else part.model_response_str()
    if part.part_kind == "retry-prompt" and part.tool_name is not None:
        return part.content if isinstance(part.content, str) else part.model_response()
    return None


def _text(tool: str, result: object) -> str:
    """Return the text that the model gets of a result."""
    if isinstance(result, ToolReturn):
        result = result.return_value
    return result if isinstance(result, str) else ToolReturnPart(tool, result).model_response_str()
