"""The stand-in for a model that the examples use, so that they run without a key: it plays answers one by one.

With DEEP_MODEL set (`DEEP_MODEL=anthropic:claude-sonnet-4-5`) the examples ask that model instead.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

Answer = str | tuple[str, Mapping[str, Any]]
"""What the model says, or a tool and its arguments."""


def model(*answers: Answer) -> Model | str:
    """The model named by DEEP_MODEL, or one that gives these answers.

    How far a conversation is, is read off its messages, so many conversations can use one model at once.
    """
    named = os.environ.get("DEEP_MODEL")
    if named:
        return named

    def step(messages: list[ModelMessage]) -> Answer:
        said = sum(isinstance(message, ModelResponse) for message in messages)
        return answers[said % len(answers)]

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        turn = step(messages)
        return ModelResponse([TextPart(turn) if isinstance(turn, str) else ToolCallPart(turn[0], dict(turn[1]))])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        turn = step(messages)
        if isinstance(turn, str):
            yield turn
        else:
            yield {0: DeltaToolCall(name=turn[0], json_args=ToolCallPart(turn[0], dict(turn[1])).args_as_json_str())}

    return FunctionModel(answer, stream_function=stream, model_name="scripted")
