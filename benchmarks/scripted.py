"""The scripted model of the contenders on Pydantic AI: no network and no sleep, so the harness alone is timed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.usage import RequestUsage

from benchmarks.work import WINDOW, Step, step

__all__ = ["Calls", "either_way", "ours_and_floors", "scripted", "work_model"]

Calls = list[tuple[str, dict[str, object]]]
"""Tools to call, with their arguments; an empty list ends the run."""


Respond = Callable[[list[ModelMessage], AgentInfo], Awaitable[ModelResponse]]


def either_way(respond: Respond, *, window: int = WINDOW) -> FunctionModel:
    """Make a model that answers with what `respond` returns, streamed or not."""

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        for index, part in enumerate((await respond(messages, info)).parts):
            if isinstance(part, ToolCallPart):
                yield {index: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}
            elif isinstance(part, TextPart):
                yield part.content

    return FunctionModel(respond, stream_function=stream, model_name="scripted", profile={"context_window": window})


def scripted(answer: Callable[[int], Calls]) -> FunctionModel:
    """Make a model that answers request `n` (from 0) with `answer(n)`.

    It reports usage. Without, a FunctionModel counts the words of the whole history at each request, and that time
    would count as the harness's.
    """
    requests = 0

    async def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        nonlocal requests
        requests += 1
        calls = answer(requests - 1)
        parts = [ToolCallPart(name, args, tool_call_id=f"c{requests}_{i}") for i, (name, args) in enumerate(calls)]
        return ModelResponse(parts=parts or [TextPart("done")], usage=RequestUsage(input_tokens=1, output_tokens=1))

    return either_way(respond)


def ours_and_floors(this: Step) -> Calls:
    """Return the calls of a turn, by the names of the floor's tools, which are ours too."""
    return [
        ("write_file", {"path": this.write, "content": this.content}),
        ("read_file", {"path": this.read}),
        ("ls", {"path": this.ls}),
    ]


def work_model(
    turns: int, pause: Callable[[int], None] = lambda turn: None, calls: Callable[[Step], Calls] = ours_and_floors
) -> FunctionModel:
    """Make a model that asks for `turns` turns of the work, and calls `pause` at each request."""

    def answer(request: int) -> Calls:
        pause(request)
        return calls(step(request)) if request < turns else []

    return scripted(answer)
