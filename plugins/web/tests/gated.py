"""The scripted model, with answers that stop in the middle until the test opens a gate: a file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaThinkingCalls, DeltaThinkingPart, DeltaToolCalls, FunctionModel

from examples.server.scripted import scripted_model, turn

__all__ = ["gated_model"]


def gated_model(gate: Path) -> FunctionModel:
    """Create the model.

    It understands what `examples/server/scripted.py` does, `think something`, and `hold one | two`: it answers the
    first half, and the second once the file `gate` exists.
    """
    scripted = scripted_model(0)
    assert scripted.stream_function is not None
    stream_function: Any = scripted.stream_function

    async def stream(
        messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | DeltaToolCalls | DeltaThinkingCalls]:
        prompt, _, _ = turn(messages)
        kind, _, text = prompt.partition(" ")
        if kind == "think":
            yield {0: DeltaThinkingPart(content=f"about {text}")}
            yield text
        elif kind == "hold":
            first, _, second = text.partition("|")
            if first.strip():
                yield first
            while not gate.exists():
                await anyio.sleep(0.01)
            yield second
        else:
            async for piece in stream_function(messages, info):
                yield piece

    return FunctionModel(scripted.function, stream_function=stream, model_name="gated")
