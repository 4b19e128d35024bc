"""A scripted model, and a `DeepAgent` with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import deep_backends
import deep_sessions
from deep_sessions import AgentDeps, DeepAgent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from deep_core import Kernel


class Scripted:
    """A model that answers by the number of its responses, and keeps what it was sent."""

    def __init__(self, *answers: Sequence[ToolCallPart] | str | BaseException) -> None:
        self.answers = answers
        self.requests: list[tuple[list[ModelMessage], AgentInfo]] = []

    def _next(self, messages: list[ModelMessage], info: AgentInfo) -> Sequence[ToolCallPart] | str:
        self.requests.append((messages, info))
        count = sum(isinstance(message, ModelResponse) for message in messages)
        said = self.answers[min(count, len(self.answers) - 1)]
        if isinstance(said, BaseException):
            raise said
        return said

    @property
    def model(self) -> FunctionModel:
        def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            said = self._next(messages, info)
            return ModelResponse([TextPart(said)] if isinstance(said, str) else [*said])

        async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
            said = self._next(messages, info)
            if isinstance(said, str):
                for start in range(0, len(said), 3):
                    yield said[start : start + 3]
            else:
                for at, part in enumerate(said):
                    yield {at: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}

        return FunctionModel(answer, stream_function=stream, model_name="scripted")

    def instructions(self, request: int) -> str:
        return self.requests[request][1].instructions or ""

    def offered(self, request: int) -> set[str]:
        return {tool.name for tool in self.requests[request][1].function_tools}


def call(tool: str, call_id: str = "c1", **args: Any) -> ToolCallPart:
    return ToolCallPart(tool, args, call_id)


def kernel(*plugins: object) -> Kernel:
    return Kernel(plugins=[deep_sessions, deep_backends, *plugins], discover=False)


async def create(
    said: Scripted, *tools: Any, config: Any = None, plugins: Sequence[object] = (), **deps: Any
) -> DeepAgent:
    services = AgentDeps(model=said.model, kernel=kernel(*plugins), **deps)
    return await DeepAgent.create(config=config, deps=services, tools=tools)


async def put(n: int = 0) -> str:
    """Put it there."""
    return f"did {n}"


async def look() -> str:
    """Look at it."""
    return "saw"


def results(said: Scripted) -> list[str]:
    messages = said.requests[-1][0]
    return [str(part.content) for m in messages for part in m.parts if isinstance(part, ToolReturnPart)]
