"""Execute admitted calls: concurrently, each in its layers, with its own context, time limit and result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from deep_core.plugin_api import describe_error, error_message

from .calls import ErrorCode, InvalidCall, ToolCall, ToolResult
from .contexts import isolate
from .errors import CallDenied, InvalidArguments, MissingContextKey
from .middleware import Layer, run_layers

if TYPE_CHECKING:
    from .tools import PreparedCall, UniverseTool

__all__ = ["Job", "clip", "describe_failure", "failed", "run_all"]

logger = logging.getLogger("deep.universe")

_ERROR_LIMIT: Final = 2_000  # characters of an error that the model reads
_CONTROL: Final = (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit)


@dataclass(frozen=True)
class Job:
    """A call that may run.

    Attributes:
        call: the call, with its id.
        tool: its tool.
        layers: the layers around it, outermost first.
    """

    call: ToolCall
    tool: UniverseTool
    layers: Sequence[Layer]

    async def run(self, context: Mapping[str, Any], timeout: float | None) -> ToolResult:  # noqa: ASYNC109 - of one call
        """Execute the call with a copy of the context. Every failure but a cancellation becomes its result."""
        call = replace(self.call, context=isolate(context))
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                result = await self._run_layers(call)
        except _CONTROL:
            raise
        except BaseException as error:
            if _holds_control(error):
                raise
            if limit.expired():
                return failed(ErrorCode.TIMEOUT, f"timed out after {timeout:g} seconds", call)
            logger.debug("tool %s failed", call.name, exc_info=error)
            return failed(_code_of(error), _message_of(error, call.name), call)
        return ToolResult(call.id, result, meta={"tool": call.name})

    async def _run_layers(self, call: ToolCall) -> Any:
        prepared: PreparedCall | None = await self.tool.prepare(call.arguments, call.context)

        async def execute(current: ToolCall) -> Any:
            nonlocal prepared
            run, prepared = prepared, None
            # A middleware passed on another call, or a second time: the first run may have changed its arguments.
            if run is None or current.arguments is not call.arguments or current.context is not call.context:
                run = await self.tool.prepare(current.arguments, current.context)
            return await run()

        return await run_layers(self.layers, call, execute)


async def run_all(jobs: Sequence[Callable[[], Awaitable[None]]], most: int | None) -> None:
    """Run jobs concurrently, at most so many at once. If one of them is canceled, or this is, all are."""
    waiting = iter(jobs)

    async def lane() -> None:
        # A task for each call, so that no call sees another's context variables. There are only as many as run.
        for job in waiting:
            await asyncio.create_task(_run(job))

    lanes = [lane() for _ in range(most)] if most is not None and most < len(jobs) else map(_run, jobs)
    tasks = [asyncio.create_task(each) for each in lanes]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _run(job: Callable[[], Awaitable[None]]) -> None:
    await job()


def failed(code: ErrorCode, text: str, call: ToolCall | InvalidCall | None = None) -> ToolResult:
    """Return the result of a call that failed, or of a whole response."""
    about = {"tool": call.name} if call is not None else {}
    return ToolResult(call.id if call else "", error=clip(text, _ERROR_LIMIT), meta={**about, "error_code": code})


def clip(text: str, most: int) -> str:
    """Truncate a text for a message."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _holds_control(error: BaseException) -> bool:
    group = cast("BaseExceptionGroup[BaseException]", error) if isinstance(error, BaseExceptionGroup) else None
    return group is not None and group.subgroup(_CONTROL) is not None


def _code_of(error: BaseException) -> ErrorCode:
    if isinstance(error, InvalidArguments):
        return ErrorCode.INVALID_ARGUMENTS
    if isinstance(error, CallDenied):
        return ErrorCode.FILTER_DENIED
    return ErrorCode.MISSING_CONTEXT_KEY if isinstance(error, MissingContextKey) else ErrorCode.TOOL_EXECUTION_ERROR


def _message_of(error: BaseException, tool: str) -> str:
    """Return what the model reads of a failure: never a traceback."""
    from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed

    if isinstance(error, ApprovalRequired | CallDeferred):
        return f"the tool {tool!r} waits for an approval or an answer, which nobody can give here"
    if isinstance(error, ModelRetry | ToolFailed | CallDenied | InvalidArguments | MissingContextKey):
        return error_message(error)  # its author wrote it for the model
    return describe_failure(error)


def describe_failure(error: BaseException) -> str:
    """Return an exception's class and message, truncated. A `ValidationError` has no values: they may be secrets."""
    from pydantic import ValidationError

    text = describe_error(error)
    if isinstance(error, ValidationError):
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        lines = [f"{'.'.join(map(str, one['loc'])) or 'value'}: {one['msg']}" for one in problems]
        text = f"ValidationError: {error.title}: {'; '.join(lines)}"
    return clip(text, _ERROR_LIMIT)
