"""The model of a run that makes one call: a script that lists the tools, calls one and reads its result."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai import RunContext, ToolDefinition
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse, infer_model
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

__all__ = ["Script", "ScriptedModel"]

SEARCH = "search_tools"
"""The tool that finds tools offered on demand."""


class Script:
    """What the model of one run says: nothing but one call, or nothing at all.

    Attributes:
        offered: the tools that the agent offers in this run, after the first request.
        answer: what the model would read of the call; None before.
    """

    def __init__(self, name: str | None = None, arguments: Mapping[str, Any] | None = None, call_id: str = "") -> None:
        self.offered: Sequence[ToolDefinition] = ()
        self.answer: ModelRequestPart | None = None
        self._name, self._arguments, self._call_id = name, dict(arguments or {}), call_id
        self._has_begun, self._has_called = False, False

    def owns(self, messages: Sequence[ModelMessage]) -> bool:
        """Whether a request is the script's own: a tool may make another agent with the same model."""
        ids = {self._call_id, self._search_id}
        return not self._has_begun or any(
            getattr(part, "tool_call_id", "") in ids for message in messages for part in message.parts
        )

    def respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """Answer a request: make the call, or read its result and end the run."""
        self._has_begun = True
        self.offered = info.model_request_parameters.function_tools
        for message in messages:
            for part in message.parts if isinstance(message, ModelRequest) else ():
                if self._call_id and getattr(part, "tool_call_id", "") == self._call_id:
                    self.answer = part  # a return, or in older versions of Pydantic AI a prompt to try again
        definition = next((tool for tool in self.offered if tool.name == self._name), None)
        if self.answer is not None or definition is None or self._has_called:
            return ModelResponse([TextPart("done")])
        if definition.defer_loading and not self._has_searched(messages):  # as a model does
            return ModelResponse([ToolCallPart(SEARCH, {"queries": [definition.name]}, self._search_id)])
        self._has_called = True
        return ModelResponse([ToolCallPart(definition.name, self._arguments, self._call_id)])

    async def stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        """Stream the answer: agents with event streams send only streamed requests."""
        for index, part in enumerate(self.respond(messages, info).parts):
            if isinstance(part, ToolCallPart):
                yield {index: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}
            elif isinstance(part, TextPart):
                yield part.content

    @property
    def _search_id(self) -> str:
        return f"{self._call_id}-search"

    def _has_searched(self, messages: Sequence[ModelMessage]) -> bool:
        parts = (part for message in messages for part in message.parts)
        return any(isinstance(part, ToolCallPart) and part.tool_call_id == self._search_id for part in parts)


class ScriptedModel(WrapperModel):
    """Follow a script in its own run; let the agent's model answer for subagents, which take the run's model."""

    def __init__(self, script: Script, model: Model | str | None) -> None:
        super().__init__(FunctionModel(script.respond, stream_function=script.stream, model_name="one-call"))
        self._script = script
        self._real = model

    def _model_for(self, messages: list[ModelMessage]) -> Model:
        if self._script.owns(messages):
            return self.wrapped
        if self._real is None:
            raise RuntimeError("this tool asks a model, and its agent has none: give the agent a model")
        return infer_model(self._real)

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Answer by the script, or by the agent's model."""
        return await self._model_for(messages).request(messages, model_settings, model_request_parameters)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Stream the answer of the script, or of the agent's model."""
        model = self._model_for(messages)
        async with model.request_stream(messages, model_settings, model_request_parameters, run_context) as response:
            yield response
