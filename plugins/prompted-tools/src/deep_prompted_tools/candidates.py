"""A `FallbackModel` whose candidates are wrapped one by one: each has its own profile and its own provider."""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import RunContext

__all__ = ["CandidatesModel", "wrap_candidates"]


def wrap_candidates(model: Model[Any], wrap: Callable[[Model[Any]], Model[Any] | None]) -> CandidatesModel | None:
    """Return a `FallbackModel` with its candidates wrapped; None if none is to be."""
    fallback = cast("FallbackModel", model)
    wrapped = [wrap(candidate) or candidate for candidate in fallback.models]
    if all(new is old for new, old in zip(wrapped, fallback.models, strict=True)):
        return None
    serving = copy.copy(fallback)
    serving.models = wrapped
    return CandidatesModel(fallback, serving)


class CandidatesModel(WrapperModel):
    """Sends requests through a copy of a `FallbackModel`. Only the model itself is entered and left.

    Args:
        wrapped: the model.
        serving: its copy with other candidates.
    """

    def __init__(self, wrapped: FallbackModel, serving: FallbackModel) -> None:
        super().__init__(wrapped)
        self._serving = serving

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Send a request to the first candidate that answers."""
        return await self._serving.request(messages, model_settings, model_request_parameters)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Stream from the first candidate that answers."""
        arguments = (messages, model_settings, model_request_parameters, run_context)
        async with self._serving.request_stream(*arguments) as stream:
            yield stream
