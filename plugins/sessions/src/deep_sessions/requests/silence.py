"""Limits on the time of a request: of the whole, and of silence in what it says."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import anyio
from pydantic_ai.messages import (
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPartDelta,
)

from .ends import End, RequestFailed
from .patience import THINKING, Patience

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponseStreamEvent

T = TypeVar("T")

__all__ = ["Watch"]

Content = Literal["", "thinking", "answer"]


class Watch:
    """The time of one request, from now on.

    Args:
        model_name: for errors.
        patience: the limits.
    """

    def __init__(self, model_name: str, patience: Patience) -> None:
        self._model_name = model_name
        self._patience = patience
        self._ends = math.inf if patience.timeout is None else anyio.current_time() + patience.timeout
        self._allowed = patience.stall * THINKING
        """Seconds of silence that are left."""

    async def of(self, request: Awaitable[T]) -> T:
        """Wait for the whole answer, or for the next piece of one.

        Raises:
            RequestFailed: it took too long.
        """
        began = anyio.current_time()
        with anyio.CancelScope(deadline=min(self._ends, began + self._allowed)):
            answer = await request
            # Time that the consumer takes between two pieces is not the provider's silence.
            self._allowed -= anyio.current_time() - began
            return answer
        raise self._failure()  # the scope was cancelled: nothing else leaves it without an answer

    async def pieces(self, stream: AsyncIterator[ModelResponseStreamEvent]) -> AsyncGenerator[ModelResponseStreamEvent]:
        """Pass a stream on.

        Raises:
            RequestFailed: it took too long, or was silent too long. What is no content, such as a comment that keeps
                the connection alive, counts as silence.
        """
        while True:
            try:
                event = await self.of(cast("Awaitable[Any]", anext(stream)))
            except StopAsyncIteration:
                return
            content = content_of(event)
            if content:
                self._allowed = self._patience.stall * (THINKING if content == "thinking" else 1)
            yield event

    def _failure(self) -> RequestFailed:
        if anyio.current_time() >= self._ends:
            words = f"the request took longer than {self._patience.timeout:g} s (agent.model.timeout_ms)"
            return RequestFailed(self._model_name, End(kind="transient", code="timed_out", words=words))
        words = "the model said nothing for too long (agent.model.stall_ms)"
        return RequestFailed(self._model_name, End(kind="transient", code="stalled", words=words))


def content_of(event: ModelResponseStreamEvent) -> Content:
    """Return what a piece of a stream adds: `answer` for text, calls and files, `thinking`, or nothing."""
    if isinstance(event, PartStartEvent):
        part = event.part
        if isinstance(part, TextPart):
            return "answer" if part.content else ""
        if isinstance(part, ThinkingPart):
            return "thinking" if part.content or part.signature else ""
        return "answer"
    if isinstance(event, PartDeltaEvent):
        delta = event.delta
        if isinstance(delta, TextPartDelta):
            return "answer" if delta.content_delta else ""
        if isinstance(delta, ThinkingPartDelta):
            return "thinking" if delta.content_delta or delta.signature_delta else ""
        if isinstance(delta, ToolCallPartDelta):
            return "answer" if delta.args_delta or delta.tool_name_delta else ""
        return "answer"
    return ""
