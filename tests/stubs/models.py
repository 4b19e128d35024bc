"""Pydantic AI models over a script: a FunctionModel in this process, or a real provider's model against a stub."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any, cast

from anthropic import AsyncAnthropic
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelHTTPError,
    ModelOverloadedError,
    ModelRateLimitError,
    ModelServerError,
)
from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponsePart, TextPart, ToolCallPart
from pydantic_ai.models import ModelRequestParameters, StreamedResponse
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RequestUsage

from .anthropic_stub import AnthropicStub
from .openai_stub import OpenAIStub
from .script import Answer, Call, Failure, Malformed, Message, Player, RequestView, Script, Turn, pieces

Item = str | DeltaToolCalls


def openai_model(
    stub: OpenAIStub,
    name: str = "stub",
    *,
    settings: ModelSettings | None = None,
    profile: ModelProfile | None = None,
    max_retries: int = 0,
) -> OpenAIChatModel:
    """The Chat Completions model against a running stub; `max_retries` is the SDK's own, off unless asked for."""
    provider = OpenAIProvider(base_url=stub.base_url, api_key="x")
    provider.client.max_retries = max_retries
    return OpenAIChatModel(name, provider=provider, settings=settings, profile=profile)


def anthropic_model(
    stub: AnthropicStub,
    name: str = "stub",
    *,
    settings: ModelSettings | None = None,
    profile: ModelProfile | None = None,
    max_retries: int = 0,
) -> AnthropicModel:
    """The Messages API model against a running stub; `max_retries` is the SDK's own, off unless asked for.

    Whether a plain `run()` reaches the stub as a stream is the model's choice (it depends on `max_tokens`).
    """
    provider = AnthropicProvider(base_url=stub.base_url, api_key="x")
    cast("AsyncAnthropic", provider.client).max_retries = max_retries
    return AnthropicModel(name, provider=provider, settings=settings, profile=profile)


def function_model(script: Script, name: str = "stub", *, profile: ModelProfile | None = None) -> ScriptedModel:
    """A FunctionModel, streamed or not, that plays a script from its first turn; it has its own position."""
    return ScriptedModel(script.play(), name, profile=profile)


class ScriptedModel(FunctionModel):
    """A FunctionModel that answers from a player. What it makes is fresh each time, since core stamps what it gets.

    Attributes:
        player: Its position; `player.views` are the requests it answered.
    """

    def __init__(self, player: Player, name: str = "stub", *, profile: ModelProfile | None = None) -> None:
        self.player = player
        super().__init__(self._respond, stream_function=self._stream, model_name=name, profile=profile)

    @contextlib.asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """As the base class, with the turn's usage and finish reason on the response once the stream has ended."""
        async with super().request_stream(messages, model_settings, model_request_parameters, run_context) as response:
            source: _Stream = response._iter.source  # type: ignore[attr-defined]
            source.response = response
            yield response

    def _respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        turn = self._turn(messages, info, stream=False)
        parts: list[ModelResponsePart] = [TextPart(turn.text)] if turn.text else []
        parts += [ToolCallPart(call.name, call.json, tool_call_id=cast("str", call.id)) for call in turn.calls]
        response = ModelResponse(parts=parts, finish_reason=_finish(turn))
        if usage := _usage(turn):
            response.usage = usage
        return response

    def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Item]:
        return _Stream(self._turn(messages, info, stream=True))

    def _turn(self, messages: list[ModelMessage], info: AgentInfo, *, stream: bool) -> Turn:
        return self._play(self.player.answer(_view(messages, info, self.model_name, stream)))

    def _play(self, answer: Answer) -> Turn:
        if isinstance(answer, Turn):
            return answer
        if isinstance(answer, Malformed):
            raise ModelAPIError(model_name=self.model_name, message=f"The scripted answer is malformed: {answer.how}")
        raise _http_error(answer, self.model_name)


class _Stream(AsyncIterator[Item]):
    """The deltas of one turn; at their end it replaces the base class's estimate of usage with the script's."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.response: StreamedResponse | None = None
        self._items = iter(_deltas(turn))

    async def __anext__(self) -> Item:
        item = next(self._items, None)
        if item is not None:
            return item
        if self.response is not None:
            self.response.finish_reason = _finish(self.turn)
            if usage := _usage(self.turn):
                self.response._usage = usage  # pyright: ignore[reportPrivateUsage]
        raise StopAsyncIteration


def _deltas(turn: Turn) -> Sequence[Item]:
    items: list[Item] = list(pieces(turn.text))
    for index, call in enumerate(turn.calls):
        items.append({index: DeltaToolCall(name=call.name, tool_call_id=call.id)})
        items += [{index: DeltaToolCall(json_args=piece)} for piece in pieces(call.json)]
    # The base class refuses a stream without an item, and an empty answer is an answer.
    return items or [""]


def _finish(turn: Turn) -> Any:
    return "tool_call" if turn.finish_reason == "tool_calls" else turn.finish_reason


def _usage(turn: Turn) -> RequestUsage | None:
    if turn.usage is None:
        return None
    return RequestUsage(
        input_tokens=turn.usage.input_tokens,
        output_tokens=turn.usage.output_tokens,
        cache_read_tokens=turn.usage.cache_read_tokens,
        cache_write_tokens=turn.usage.cache_write_tokens,
    )


def _http_error(failure: Failure, model_name: str) -> ModelHTTPError:
    category = None
    if failure.status == 429:
        category = ModelRateLimitError
    elif failure.status == 529:
        category = ModelOverloadedError
    elif failure.status >= 500:
        category = ModelServerError
    return ModelHTTPError.for_category(
        category,
        status_code=failure.status,
        model_name=model_name,
        body={"message": failure.message},
        headers=failure.headers,
    )


def _view(messages: Sequence[ModelMessage], info: AgentInfo, model: str, stream: bool) -> RequestView:
    seen: list[Message] = []
    for message in messages:
        if isinstance(message, ModelResponse):
            text = "".join(part.content for part in message.parts if isinstance(part, TextPart))
            calls = tuple(
                Call(part.tool_name, part.args_as_json_str(), part.tool_call_id)
                for part in message.parts
                if isinstance(part, ToolCallPart)
            )
            seen.append(Message("assistant", text, calls))
        else:
            seen.extend(found for part in message.parts if (found := _part(part)) is not None)
    head = next((index for index, message in enumerate(seen) if message.role != "system"), len(seen))
    system = [message.text for message in seen[:head]] + ([info.instructions] if info.instructions else [])
    return RequestView(
        messages=seen[head:],
        tools=[tool.name for tool in (*info.function_tools, *info.output_tools)],
        system="\n\n".join(system),
        model=model,
        stream=stream,
    )


def _part(part: Any) -> Message | None:
    # By kind and not by class: parts may be added in any minor release.
    if part.part_kind == "tool-return":
        return Message("tool", part.model_response_str(), call_id=part.tool_call_id)
    if part.part_kind in ("retry-prompt", "retry-feedback"):
        if getattr(part, "tool_name", None):
            return Message("tool", part.model_response(), call_id=part.tool_call_id)
        return Message("user", part.model_response())
    content = getattr(part, "content", None)
    if content is None:
        return None
    if not isinstance(content, str):
        content = "".join(_content(item) for item in content)
    return Message("system" if part.part_kind == "system-prompt" else "user", content)


def _content(item: Any) -> str:
    if isinstance(item, str):
        return item
    text = getattr(item, "content", None)
    return text if isinstance(text, str) else f"[{getattr(item, 'kind', type(item).__name__)}]"
