"""A model whose answers a test holds back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCalls, FunctionModel

from examples.server.scripted import scripted_model, turn

__all__ = ["Gate"]


class Gate:
    """A model that, told `hold …`, says one word and then waits until the test lets it go on; `fail` fails, as do
    `unpaid` and, then, `hold … and fail`.

    `flaky …` fails until the test lets it go on; then it says how often it was asked this.
    """

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.requests = 0
        plain = scripted_model(pause=0)

        async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
            self.requests += 1
            prompt, _, _ = turn(messages)
            if prompt.startswith("hold"):
                yield "holding "
                await self.go_on.wait()
                if prompt.endswith("and fail"):
                    raise ModelHTTPError(400, "gate", {"message": "the provider is away"})
                yield prompt.removeprefix("hold ")
            elif prompt.startswith("flaky"):
                if not self.go_on.is_set():
                    raise ModelHTTPError(400, "gate", {"message": "the account is locked"})
                asked = [part for message in messages for part in message.parts if part.part_kind == "user-prompt"]
                yield f"asked {sum(part.content == prompt for part in asked)} time"
            elif prompt == "unpaid":
                raise ModelHTTPError(402, "gate", {"message": "the account is empty"})
            elif prompt == "fail":
                raise ModelHTTPError(400, "gate", {"message": "the provider is away"})
            else:
                assert plain.stream_function is not None
                async for part in plain.stream_function(messages, info):
                    yield part  # pyright: ignore

        def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            return ModelResponse([TextPart("a subagent's answer")])

        self.model = FunctionModel(answer, stream_function=stream, model_name="gate")
