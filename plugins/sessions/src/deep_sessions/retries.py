"""Repeated model requests: `model.retry`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext

from deep_core import ConfigError

from .requests.ends import end_of_error

if TYPE_CHECKING:
    T = TypeVar("T")

__all__ = ["RetryRequests", "RetryingModel"]


class RetryRequests(AbstractCapability[Any]):
    """Sends a model request again after an error that passes.

    Args:
        attempts: how often a request is sent at most.
        backoff: seconds before the first retry.
    """

    id = "deep.sessions.retries"

    def __init__(self, attempts: int, backoff: float) -> None:
        if not hasattr(AbstractCapability, "get_wrapper_model"):
            raise ConfigError("agent.model.retry: needs a newer Pydantic AI: pip install -U pydantic-ai-slim")
        self.attempts, self.backoff = attempts, backoff

    def get_wrapper_model(self, model: Model[Any]) -> Model[Any]:
        """Wrap the model of a request."""
        return RetryingModel(model, self.attempts, self.backoff)


class RetryingModel(WrapperModel):
    """A model whose requests are sent again.

    Args:
        wrapped: the model.
        attempts: how often a request is sent at most.
        backoff: seconds before the first retry.
    """

    def __init__(self, wrapped: Model[Any], attempts: int, backoff: float) -> None:
        super().__init__(wrapped)
        self._attempts, self._backoff = attempts, backoff

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Send a request until it is answered."""
        settings = self._without_own(model_settings)
        return await self._retry(lambda: self.wrapped.request(messages, settings, model_request_parameters))

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Send a request until its stream opens. What fails later is not repeated: a part of it was handed on."""
        settings = self._without_own(model_settings)
        async with AsyncExitStack() as stack:
            yield await self._retry(
                lambda: stack.enter_async_context(
                    self.wrapped.request_stream(messages, settings, model_request_parameters, run_context)
                )
            )

    def _without_own(self, given: ModelSettings | None) -> ModelSettings | None:
        """Return the settings with the retries of the provider's own client turned off: they would multiply ours."""
        if "max_retries" in getattr(self.wrapped, "unsupported_settings", ()) or "max_retries" in (given or {}):
            return given
        return cast("ModelSettings", {**(given or {}), "max_retries": 0})

    async def _retry(self, send: Callable[[], Awaitable[T]]) -> T:
        for attempt in range(1, self._attempts):
            try:
                return await send()
            except ModelAPIError as error:
                end = end_of_error(error)
                if end is None or not end.retryable:
                    raise
                wait = self._backoff * 2 ** (attempt - 1) * random.uniform(0.5, 1)  # noqa: S311 - jitter
                await asyncio.sleep(max(wait, _asked(error)))
        return await send()


def _asked(error: ModelAPIError) -> float:
    """Return the seconds that the provider asked to wait; 0 without a number."""
    asked: object = getattr(error, "retry_after", None)
    if asked is None:
        headers = cast("dict[str, str]", getattr(error, "headers", None) or {})
        asked = headers.get("retry-after", 0)
    try:
        return max(0.0, float(str(asked)))
    except ValueError:
        return 0.0
