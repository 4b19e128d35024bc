"""Scripted models: play a test's answers, streamed or not, and record the requests."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.tools import ToolDefinition

__all__ = ["Call", "Request", "ScriptedModel", "Step", "call"]


@dataclass(frozen=True)
class Call:
    """A tool call of the model."""

    tool: str
    args: Mapping[str, Any]


def call(tool: str, /, **args: Any) -> Call:
    """A step of a script: the model calls this tool with these arguments."""
    return Call(tool, args)


Answer: TypeAlias = "str | Call | Sequence[Call]"
Step: TypeAlias = "Answer | Callable[[list[ModelMessage], AgentInfo], Answer]"


@dataclass(frozen=True)
class Request:
    """One request to the model.

    Attributes:
        messages: the conversation at that time.
        tools: the definitions of the available tools.
        instructions: the prompt: the static sections and the application's.
        streamed: whether the answer was streamed.
    """

    messages: tuple[ModelMessage, ...]
    tools: tuple[ToolDefinition, ...]
    instructions: str
    streamed: bool

    @property
    def tool_names(self) -> list[str]:
        """Names of the tools."""
        return [tool.name for tool in self.tools]

    @property
    def results(self) -> list[ToolReturnPart]:
        """The tool results in this request, after the last answer; `outcome` marks a failed one.

        An older Pydantic AI's retry part has `tool_name` and `content` as well.
        """
        new: list[Any] = []
        for message in reversed(self.messages):
            if isinstance(message, ModelResponse):
                break
            # By kind, not by class: the class of a retry is deprecated, but older releases still send it.
            new = [part for part in message.parts if part.part_kind in ("tool-return", "retry-prompt")] + new
        return new

    @property
    def text(self) -> str:
        """All text that the model read: the prompt, and the text of all messages."""
        return "\n".join([self.instructions, *map(_text, self.messages)])


class ScriptedModel(FunctionModel):
    """A model that plays a script, one step per answer; after the last step it answers `then`.

    Attributes:
        requests: its requests, in order.
    """

    def __init__(self, *steps: Step, then: str = "done") -> None:
        self.requests: list[Request] = []
        self._steps = iter(steps)
        self._then = then
        self._ids = itertools.count(1)
        super().__init__(self._respond, stream_function=self._stream, model_name="scripted")

    def _answer(self, messages: list[ModelMessage], info: AgentInfo, *, streamed: bool) -> str | list[ToolCallPart]:
        tools = (*info.function_tools, *info.output_tools)
        self.requests.append(Request(tuple(messages), tools, info.instructions or "", streamed))
        step: Any = next(self._steps, self._then)
        answer: Any = step(messages, info) if callable(step) else step
        if isinstance(answer, str):
            return answer
        calls: Sequence[Call] = [answer] if isinstance(answer, Call) else answer
        return [ToolCallPart(c.tool, dict(c.args), tool_call_id=f"call_{next(self._ids)}") for c in calls]

    def _respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        answer = self._answer(messages, info, streamed=False)
        return ModelResponse(parts=[TextPart(answer)] if isinstance(answer, str) else answer)

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        for item in _deltas(self._answer(messages, info, streamed=True)):
            yield item


def _deltas(answer: str | list[ToolCallPart]) -> Iterator[str | DeltaToolCalls]:
    if isinstance(answer, str):
        yield from answer.splitlines(keepends=True) or [""]
        return
    for index, part in enumerate(answer):
        yield {index: DeltaToolCall(name=part.tool_name, tool_call_id=part.tool_call_id)}
        yield {index: DeltaToolCall(json_args=json.dumps(part.args))}


def _text(message: ModelMessage) -> str:
    parts: Sequence[Any] = message.parts
    texts = [str(getattr(part, "content", "")) for part in parts] if isinstance(message, ModelRequest) else []
    if isinstance(message, ModelResponse):
        texts = [str(part.args if isinstance(part, ToolCallPart) else getattr(part, "content", "")) for part in parts]
    return "\n".join(texts)
