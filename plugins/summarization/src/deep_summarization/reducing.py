"""The plugin's entry in the chain of processors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import ModelMessage
from pydantic_ai.tools import RunContext

if TYPE_CHECKING:
    import logging

    from deep_core import AgentContext

    from .options import SummarizationOptions
    from .processor import SummarizationProcessor

__all__ = ["limiter", "reducer"]


def reducer(
    options: SummarizationOptions, log: logging.Logger
) -> Callable[[RunContext[Any], list[ModelMessage]], Awaitable[list[ModelMessage]]]:
    """Build `SummarizationProcessor.compact` with these options; the processor is loaded at the second message.

    `compact` raises where the processor itself would log, so that the kernel records a failure under the
    plugin's name.
    """

    @cache
    def processor() -> SummarizationProcessor:
        from .processor import from_options

        return from_options(options, log)

    async def compact(ctx: RunContext[Any], messages: list[ModelMessage]) -> list[ModelMessage]:
        if len(messages) < 2:
            return messages  # a conversation's first request: there is nothing to replace
        return await processor().compact(ctx, messages)

    return compact


def limiter(context: AgentContext) -> Callable[[RunContext[Any], list[ModelMessage]], list[ModelMessage]]:
    """Build the function that keeps a request in the limits of `[agent.context]`; loaded at the second message."""
    limits, log = context.config.context, context.logger
    messages = limits.max_history_messages if context.sets("context.max_history_messages") else None
    bounds_tokens = context.sets("context.max_input_tokens", "context.enable_compaction")
    tokens = limits.max_input_tokens if bounds_tokens else None

    @cache
    def limit() -> Callable[[RunContext[Any], list[ModelMessage]], list[ModelMessage]]:
        from .limiting import Limits

        return Limits(messages=messages, tokens=tokens, log=log)

    return lambda ctx, messages: limit()(ctx, messages)
