"""A model that plays several agents at once: the first prompt of a conversation selects the agent.

Nothing is remembered between requests, so the same cast plays in another process, and subagents may run side by side.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

__all__ = ["Cast", "Request", "call", "hang", "outcomes", "say_results", "task"]


@dataclass
class Request:
    """One request to the model."""

    prompt: str
    messages: list[ModelMessage]
    info: AgentInfo

    @property
    def tools(self) -> list[str]:
        return [tool.name for tool in self.info.function_tools]

    @property
    def returns(self) -> list[ToolReturnPart]:
        """Every tool result of the conversation."""
        return [part for m in self.messages for part in m.parts if isinstance(part, ToolReturnPart)]


Step: TypeAlias = "str | ToolCallPart | Sequence[ToolCallPart] | Exception | Callable[[Request], Any]"


def call(tool: str, id: str, **args: Any) -> ToolCallPart:
    return ToolCallPart(tool, args, tool_call_id=id)


def task(description: str, id: str, **more: Any) -> ToolCallPart:
    return call("task", id, description=description, **more)


def say_results(request: Request) -> str:
    """The results of the last tools: `outcome:content`, joined."""
    last = request.messages[-1]
    parts = [part for part in last.parts if isinstance(part, ToolReturnPart)]
    return " | ".join(f"{part.outcome}:{part.content}" for part in parts)


async def hang(request: Request) -> str:
    await asyncio.Event().wait()
    return "never"


def outcomes(messages: Sequence[ModelMessage]) -> dict[str, tuple[str, str]]:
    """Call id -> (outcome, text) of every tool result; asserts that no call has two results."""
    found: dict[str, tuple[str, str]] = {}
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                assert part.tool_call_id not in found, f"two results of {part.tool_call_id}"
                found[part.tool_call_id] = (part.outcome, str(part.content))
    return found


@dataclass
class Cast:
    """Prompt -> the steps of the agent that got it. After the last step it answers `done`.

    Attributes:
        seen: every request, in order.
    """

    roles: dict[str, Sequence[Step]]
    name: str = "cast"
    seen: list[Request] = field(default_factory=list[Request])

    @property
    def model(self) -> FunctionModel:
        return FunctionModel(self._answer, stream_function=self._stream, model_name=self.name)

    def of(self, prompt: str) -> list[Request]:
        """The requests of one role."""
        return [request for request in self.seen if request.prompt == prompt]

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        request = Request(_prompt(messages), list(messages), info)
        self.seen.append(request)
        steps = self.roles[request.prompt]
        number = sum(isinstance(message, ModelResponse) for message in messages)
        step: Any = steps[number] if number < len(steps) else "done"
        if callable(step):
            step = step(request)
            step = await step if inspect.isawaitable(step) else step
        if isinstance(step, Exception):
            raise step
        if isinstance(step, str):
            return ModelResponse(parts=[TextPart(step)])
        return ModelResponse(parts=[step] if isinstance(step, ToolCallPart) else list(step))

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        response = await self._answer(messages, info)
        for index, part in enumerate(response.parts):
            if isinstance(part, ToolCallPart):
                yield {index: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}
            elif isinstance(part, TextPart):
                yield part.content


def _prompt(messages: Sequence[ModelMessage]) -> str:
    for message in messages:
        if isinstance(message, ModelRequest):
            for part in message.parts:
                if isinstance(part, UserPromptPart) and isinstance(part.content, str):
                    return part.content
    raise AssertionError("a request without a prompt")
