"""Call a model for a summary, and check its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import RunCancelled, UsageLimitExceeded
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext

from .failed import SummaryFailed

__all__ = ["write_summary"]


async def write_summary(
    model: Model[Any] | str,
    prompt: str,
    *,
    ctx: RunContext[Any] | None,
    seconds: float,
    most_tokens: int,
    count: Callable[[str], int],
    stop_at: int | None = None,
) -> str:
    """Ask a model for a summary.

    The call's usage is added to the run's, even if the answer is rejected.

    Args:
        model: the model to call.
        prompt: the prompt.
        ctx: the run, for its usage and limits; None outside of one.
        seconds: time limit.
        most_tokens: maximum tokens of the answer.
        count: counts the tokens of a text.
        stop_at: tokens at which the provider is asked to stop; None for no limit, since thinking counts too.

    Raises:
        SummaryFailed: the call failed, took too long or would exceed a usage limit; or the answer is empty, only tool
            calls, truncated or filtered by the provider, or too long.
    """
    if ctx is not None and ctx.usage_limits is not None:
        try:
            # Pydantic AI has already checked the request that follows, so there must be room for two.
            ctx.usage_limits.check_before_request(replace(ctx.usage, requests=ctx.usage.requests + 1))
        except UsageLimitExceeded as error:
            raise SummaryFailed(f"the run's usage limit leaves no request for a summary: {error}") from error
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            response = await model_request(
                model, [ModelRequest(parts=[UserPromptPart(prompt)])], model_settings=_settings(ctx, stop_at)
            )
    except RunCancelled:
        raise  # the run ended, by its deadline or its caller
    except Exception as error:
        if limit.expired():
            raise SummaryFailed(f"the summary took more than {seconds:g} seconds") from error
        # Any error of a provider, an SDK or a missing key: the conversation must not be lost.
        raise SummaryFailed(f"the summary call failed: {type(error).__name__}: {error}") from error
    if ctx is not None:
        ctx.usage.requests += 1
        ctx.usage.incr(response.usage)
    return _checked(response, most_tokens, count)


def _settings(ctx: RunContext[Any] | None, stop_at: int | None) -> ModelSettings | None:
    """The run's settings for reaching the model; those for its answers do not apply to a summary."""
    given = ctx.model_settings if ctx is not None and ctx.model_settings else ModelSettings()
    reach = ("extra_headers", "extra_body", "timeout")
    settings = ModelSettings(**{key: value for key, value in given.items() if key in reach})  # type: ignore[typeddict-item]
    if stop_at is not None:
        settings["max_tokens"] = stop_at
    return settings or None


def _checked(response: ModelResponse, most_tokens: int, count: Callable[[str], int]) -> str:
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart)).strip()
    if not text:
        kinds = sorted({part.part_kind for part in response.parts})
        raise SummaryFailed(f"the answer has no text (parts: {', '.join(kinds) or 'none'})")
    if response.finish_reason in ("length", "content_filter", "error"):
        raise SummaryFailed(f"the answer is incomplete (finish reason {response.finish_reason})")
    tokens = count(text)
    if tokens > most_tokens:
        raise SummaryFailed(f"the summary has {tokens} tokens, and at most {most_tokens} fit")
    return text
