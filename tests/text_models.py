"""Models that only write text: played from a script, or a scripted model with tools whose calls become text."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeAlias

from deep_universe import TextDriver, ToolCall, default_drivers
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    BaseToolCallPart,
    BaseToolReturnPart,
    ModelMessage,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, FunctionModel
from pydantic_ai.profiles import ModelProfile

__all__ = ["AsText", "Native", "Request", "TextModel", "dialects", "markup_in", "texts_of"]

NO_TOOLS = ModelProfile(supports_tools=False)
MARKUP = re.compile(
    r"</?tool_(call|response)|\[TOOL_CALLS\]|<\|python_tag\|>|<function=|</?parameter|<｜tool|</?arg_(key|value)|"
    r"^Action( Input)?:|^Observation:|```(tool_call|action)|</?(calls?|invoke)>",
    re.MULTILINE,
)


@dataclass
class Request:
    """What a text-only model received."""

    messages: list[ModelMessage]
    info: AgentInfo

    @property
    def instructions(self) -> str:
        parts = self.info.model_request_parameters.instruction_parts or []
        return "\n\n".join(part.content for part in parts)

    @property
    def turns(self) -> list[tuple[str, str]]:
        """(role, text) of every message."""
        return texts_of(self.messages)

    @property
    def last(self) -> str:
        return self.turns[-1][1]

    @property
    def prompt(self) -> str:
        return next(text for role, text in self.turns if role == "user")


Step: TypeAlias = "str | Callable[[Request], str]"


def texts_of(messages: Sequence[ModelMessage]) -> list[tuple[str, str]]:
    """(role, text) of every part; a call or a result in the history fails the test."""
    found: list[tuple[str, str]] = []
    for message in messages:
        for part in message.parts:
            assert not isinstance(part, BaseToolCallPart | BaseToolReturnPart), f"a text-only model received {part}"
            role = "assistant" if isinstance(message, ModelResponse) else "user"
            if isinstance(part, SystemPromptPart):
                role = "system"
            if isinstance(part, TextPart | UserPromptPart | SystemPromptPart):
                content = part.content if isinstance(part.content, str) else "\n".join(map(str, part.content))
                found.append((role, content))
    return found


def markup_in(text: str) -> str | None:
    """The first piece of any dialect's markup."""
    found = MARKUP.search(text)
    return found[0] if found else None


class TextModel(FunctionModel):
    """Plays steps, one for each request; a callable step sees the request.

    Attributes:
        requests: what was received.
        chunk: characters of one delta of a stream.
    """

    def __init__(self, *steps: Step, chunk: int = 7, profile: ModelProfile | None = NO_TOOLS) -> None:
        self.steps, self.chunk = steps, chunk
        self.requests: list[Request] = []
        super().__init__(self._respond, stream_function=self._deltas, model_name="text-only", profile=profile)

    def _next(self, messages: list[ModelMessage], info: AgentInfo) -> str:
        assert not info.function_tools
        assert not info.output_tools
        request = Request(messages, info)
        assert request.turns
        self.requests.append(request)
        step = self.steps[min(len(self.requests), len(self.steps)) - 1]
        return step(request) if callable(step) else step

    def _respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart(self._next(messages, info))], finish_reason="stop")

    async def _deltas(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        text = self._next(messages, info)
        for start in range(0, len(text), self.chunk):
            yield text[start : start + self.chunk]


_native: ContextVar[tuple[list[ModelMessage], ModelRequestParameters]] = ContextVar("native")


class Native(AbstractCapability[Any]):
    """Lets `AsText` see what the scripted model would have received with tools."""

    id = "native"

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        _native.set((request_context.messages, request_context.model_request_parameters))
        return request_context


@dataclass
class AsText:
    """A scripted model that calls tools, as a text-only model in a dialect. It needs the capability `Native`.

    Attributes:
        scripted: decides what to do.
        driver: the dialect it writes.
        ids: the scripted model's own id of each call, by the id that the conversation has.
        before: text before the calls.
    """

    scripted: FunctionModel
    driver: TextDriver
    before: str = ""
    chunk: int = 5
    ids: dict[str, str] = field(default_factory=dict[str, str])
    written: list[list[str]] = field(default_factory=list[list[str]])
    received: list[list[tuple[str, str]]] = field(default_factory=list[list[tuple[str, str]]])

    def model(self) -> FunctionModel:
        return FunctionModel(self._respond, stream_function=self._stream, model_name="as-text", profile=NO_TOOLS)

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert not info.function_tools
        assert not info.output_tools
        self.received.append(texts_of(messages))
        native, parameters = _native.get()
        calls = [p for m in native if isinstance(m, ModelResponse) for p in m.parts if isinstance(p, ToolCallPart)]
        # The conversation gives calls ids of its own; the script looks for those that it gave, in the same order.
        own = [id for ids in self.written for id in ids]
        self.ids |= {part.tool_call_id: id for part, id in zip(calls, own, strict=True)}
        response = await self.scripted.request([self._with_ids(m) for m in native], None, parameters)
        self.written.append([part.tool_call_id for part in response.parts if isinstance(part, ToolCallPart)])
        return response

    def _with_ids(self, message: ModelMessage) -> ModelMessage:
        parts: list[Any] = [
            replace(part, tool_call_id=self.ids[part.tool_call_id])
            if isinstance(part, BaseToolCallPart | BaseToolReturnPart)
            else part
            for part in message.parts
        ]
        return replace(message, parts=parts)

    def _text(self, response: ModelResponse) -> str:
        calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
        text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
        if calls:
            text += self.before + self.driver.encode_calls(
                [ToolCall(part.tool_call_id, part.tool_name, part.args_as_dict()) for part in calls]
            )
        return text

    async def _respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        response = await self._answer(messages, info)
        thoughts = [part for part in response.parts if isinstance(part, ThinkingPart)]
        return ModelResponse(parts=[*thoughts, TextPart(self._text(response))], finish_reason="stop")

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        response = await self._answer(messages, info)
        index = 0
        for part in response.parts:
            if isinstance(part, ThinkingPart):
                yield {index: DeltaThinkingPart(content=part.content)}
                index += 1
        text = self._text(response)
        for start in range(0, len(text), self.chunk):
            yield text[start : start + self.chunk]


@cache
def dialects() -> list[TextDriver]:
    """Every text dialect of deep-universe."""
    return [driver for driver in default_drivers() if isinstance(driver, TextDriver)]
