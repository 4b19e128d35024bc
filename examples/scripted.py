"""Provide a stand-in for a model, so that the examples run without a key. It plays its answers in order.

If you set DEEP_MODEL (`DEEP_MODEL=anthropic:claude-sonnet-4-5`), the examples use that model instead.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

Call = tuple[str, Mapping[str, Any]]
Answer = str | Call | list[Call]
"""What the model says, or a tool with its arguments, or several such calls at once."""


def model(*answers: Answer) -> Model | str:
    """Return the model of DEEP_MODEL, or one that gives these answers.

    It reads its progress from the messages, so many conversations can use one model at once.
    """
    named = os.environ.get("DEEP_MODEL")
    if named:
        return named

    def step(messages: list[ModelMessage]) -> str | list[ToolCallPart]:
        said = sum(isinstance(message, ModelResponse) for message in messages)
        turn = answers[said % len(answers)]
        if isinstance(turn, str):
            return turn
        calls = [turn] if isinstance(turn, tuple) else turn
        return [ToolCallPart(name, dict(arguments)) for name, arguments in calls]

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        turn = step(messages)
        return ModelResponse([TextPart(turn)] if isinstance(turn, str) else turn)

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        turn = step(messages)
        if isinstance(turn, str):
            for word in re.findall(r"\S+\s*", turn):
                yield word
        else:
            yield {
                index: DeltaToolCall(name=call.tool_name, json_args=call.args_as_json_str())
                for index, call in enumerate(turn)
            }

    return FunctionModel(answer, stream_function=stream, model_name="scripted")
