"""The models `demo:*`: Pydantic AI's FunctionModel with a script."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models import ModelRequestParameters, StreamedResponse
from pydantic_ai.models.function import (
    AgentInfo,
    DeltaThinkingCalls,
    DeltaThinkingPart,
    DeltaToolCall,
    DeltaToolCalls,
    FunctionModel,
)
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RequestUsage

from .player import Answer, Script, Steps, play
from .transcript import CHARS_PER_TOKEN, Transcript, chars_sent

__all__ = ["DEMO_MODELS", "DemoModel", "demo_model"]

Item: TypeAlias = "str | DeltaToolCalls | DeltaThinkingCalls"


def echo(transcript: Transcript) -> Steps:
    """Repeat the prompt."""
    yield from ()
    return transcript.prompt or "(an empty prompt)"


def tour(transcript: Transcript) -> Steps:
    """Look around a folder, repair it, and report."""
    from .tour import tour as script  # its patterns and records take 7 ms, which `demo:echo` does not need

    return (yield from script(transcript))


DEMO_MODELS: dict[str, Script] = {"demo:echo": echo, "demo:tour": tour}
"""The models, by id."""


def demo_model(model_id: str) -> DemoModel:
    """Create the model of an id that begins with `demo:`.

    An unknown one is a model too, whose first request lists the known ones: the kernel skips a plugin that
    raises here, and the user would only read that Pydantic AI does not know the id.
    """
    return DemoModel(model_id, DEMO_MODELS.get(model_id) or _unknown(model_id))


def _unknown(model_id: str) -> Script:
    def refuse(transcript: Transcript) -> Steps:
        raise UserError(f"there is no demo model {model_id!r}. deep-demo has: {', '.join(DEMO_MODELS)}")

    return refuse


class DemoModel(FunctionModel):
    """A scripted model, streamed or not. It stores nothing between requests."""

    def __init__(self, model_id: str, script: Script) -> None:
        self.script = script
        super().__init__(self._respond, stream_function=self._stream, model_name=model_id.removeprefix("demo:"))
        self._system = "demo"

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> tuple[Answer, RequestUsage]:
        answer = play(self.script, Transcript.of(messages, info))
        if answer.text and not info.allow_text_output:
            raise UserError(
                f"the model demo:{self.model_name} answers with text, which this agent's output_type excludes: "
                "add str to it, as in output_type=[str, …]"
            )
        output_chars = len(answer.text) + len(answer.thought)
        output_chars += sum(len(call.tool) + len(json.dumps(call.call.args)) for call in answer.calls)
        usage = RequestUsage(
            input_tokens=_tokens(chars_sent(messages, info)),
            output_tokens=_tokens(output_chars),
        )
        return answer, usage

    def _respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        answer, usage = self._answer(messages, info)
        if answer.text:
            return ModelResponse(parts=[TextPart(answer.text)], usage=usage, finish_reason="stop")
        # A thought, because text before a call would be the final answer of agent.run_stream().
        calls = [ToolCallPart(call.tool, dict(call.call.args), tool_call_id=call.id) for call in answer.calls]
        thoughts = [ThinkingPart(answer.thought)] if answer.thought else []
        return ModelResponse(parts=[*thoughts, *calls], usage=usage, finish_reason="tool_call")

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Stream as the base class does, with this model's usage instead of an estimate."""
        stream = _Counted(self)
        inner = FunctionModel(stream_function=stream, model_name=self.model_name, profile=self.profile)
        async with inner.request_stream(messages, model_settings, model_request_parameters, run_context) as response:
            stream.response = response
            yield response

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Item]:
        for item in _items(self._answer(messages, info)[0]):
            yield item


class _Counted:
    """One streamed answer, which sets its usage on the response when it ends."""

    def __init__(self, model: DemoModel) -> None:
        self.model = model
        self.response: StreamedResponse | None = None

    async def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Item]:
        answer, usage = self.model._answer(messages, info)  # pyright: ignore[reportPrivateUsage]
        for item in _items(answer):
            yield item
        if self.response is not None:
            self.response.finish_reason = "tool_call" if answer.calls else "stop"
            # The response adds up an estimate, in this object: this is what a provider would have reported.
            reported = self.response.usage
            reported.input_tokens, reported.output_tokens = usage.input_tokens, usage.output_tokens
            reported.cache_read_tokens, reported.cache_write_tokens = usage.cache_read_tokens, usage.cache_write_tokens


def _tokens(chars: int) -> int:
    return -(-chars // CHARS_PER_TOKEN)  # rounded up


def _items(answer: Answer) -> Iterator[Item]:
    if answer.text:
        yield from answer.text.splitlines(keepends=True)
        return
    first = 0
    if answer.thought:
        yield {0: DeltaThinkingPart(content=answer.thought)}
        first = 1
    for index, call in enumerate(answer.calls, first):
        yield {index: DeltaToolCall(name=call.tool, tool_call_id=call.id)}
        yield {index: DeltaToolCall(json_args=json.dumps(dict(call.call.args)))}
