"""Ours, with a model that has no tool calls: tools are text in its instructions, calls are read from its text."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from benchmarks.contenders.ours import kernel, session
from benchmarks.contenders.pydantic_ai_contender import PROMPT, UNLIMITED, PydanticAIContender
from benchmarks.scripted import ours_and_floors
from benchmarks.work import WINDOW, step

__all__ = ["CONTENDER"]


class PromptedContender(PydanticAIContender):
    """Does the work with a text-only model."""

    async def work(self, root: Path, turns: int, pause: Callable[[int], None], *, streamed: bool = False) -> None:
        """Run one session in a prepared directory; call `pause(n)` at request `n`."""
        agent = self.build(_text_model(turns, pause))
        result = await agent.run(
            PROMPT,
            **self.run_options(root),
            usage_limits=UNLIMITED,
            event_stream_handler=_ignore if streamed else None,
        )
        assert result.output == "done"


def _text_model(turns: int, pause: Callable[[int], None]) -> FunctionModel:
    requests = 0

    def write() -> str:
        nonlocal requests
        requests += 1
        pause(requests - 1)
        if requests > turns:
            return "done"
        calls = ours_and_floors(step(requests - 1))
        # Written here and not by the driver, whose work would count as the harness's.
        return "\n".join(
            f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"
            for name, arguments in calls
        )

    async def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert not info.function_tools
        return ModelResponse(parts=[TextPart(write())], usage=RequestUsage(input_tokens=1, output_tokens=1))

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield write()

    profile = {"context_window": WINDOW, "supports_tools": False}
    return FunctionModel(respond, stream_function=stream, model_name="text-only", profile=profile)  # pyright: ignore[reportArgumentType]


def _build(model: Model) -> Agent[Any, Any]:
    return kernel("universe", "prompted_tools").create_agent(model)


async def _ignore(context: object, events: object) -> None:
    async for _ in events:  # type: ignore[attr-defined]
        pass


CONTENDER = PromptedContender(_build, session)
