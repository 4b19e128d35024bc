"""Calls that a model with tool calls wrote as text: executed if they are well-formed and of offered tools."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deep_universe import InvalidCall
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext, ToolDefinition

from .reply import LeakReader
from .reply_parts import read_parts
from .stream import PromptedStream

if TYPE_CHECKING:
    from .prompting import Dialect

__all__ = ["RecoveringModel"]


class RecoveringModel(WrapperModel):
    """A model with tool calls whose text is read too. Its requests do not change.

    Args:
        wrapped: the model.
        dialect: how it writes a call as text.
    """

    def __init__(self, wrapped: Model[Any], dialect: Dialect) -> None:
        super().__init__(wrapped)
        self._dialect = dialect

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Send a request, and read calls from the reply's text."""
        response = await self.wrapped.request(messages, model_settings, model_request_parameters)
        tools = _offered(model_request_parameters)
        if not tools:
            return response
        parts, _ = read_parts(response.parts, lambda: LeakReader(self._dialect.driver, tools))
        if not any(isinstance(part, ToolCallPart) for part in parts):
            return response
        reason = "tool_call" if response.finish_reason == "stop" else response.finish_reason
        return replace(response, parts=parts, finish_reason=reason)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Send a request, and read calls from the text of the stream."""
        arguments = (messages, model_settings, model_request_parameters, run_context)
        async with self.wrapped.request_stream(*arguments) as inner:
            tools = _offered(model_request_parameters)
            if not tools:
                yield inner
                return
            yield PromptedStream(
                model_request_parameters, inner, lambda: LeakReader(self._dialect.driver, tools), _never_again
            )


async def _never_again(response: ModelResponse, invalid: Sequence[InvalidCall]) -> None:
    """Nothing is asked again: a leak reader finds no calls written wrongly."""


def _offered(parameters: ModelRequestParameters) -> list[ToolDefinition]:
    return [*parameters.declared_tool_defs.values()]
