"""A streamed reply of which only text and calls come out, never markup."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from deep_universe import InvalidCall, ReasoningTag, ToolCall, UnopenedTag
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import StreamedResponse
from pydantic_ai.usage import RequestUsage

from .history import mark_invalid
from .reply_parts import THINKING

if TYPE_CHECKING:
    from .constrained import ConstrainedReader, Reader
    from .reply import MisreadCall, Piece, ReplyReader

__all__ = ["PromptedStream"]


@dataclass
class PromptedStream(StreamedResponse):
    """Reads the text of another stream through a dialect. Everything else passes.

    Attributes:
        inner: the model's stream; after calls written wrongly, the stream of the next attempt.
        reader: makes the reader of one text.
        ask_again: sends the request again after calls written wrongly; None when the reply stands as text.
        needs_call: whether it is asked, too, after a text without a call.
    """

    inner: StreamedResponse
    reader: Reader
    ask_again: Callable[[ModelResponse, Sequence[InvalidCall]], Awaitable[StreamedResponse | None]]
    needs_call: bool = False
    _spent: RequestUsage = field(default_factory=RequestUsage, init=False)
    _calls: int = field(default=0, init=False)
    _last: tuple[str, int, int] | None = field(default=None, init=False)
    """Where text was shown last: the attempt, and the texts before it."""
    _thinking: bool = field(default=False, init=False)
    _invalid: list[InvalidCall] = field(default_factory=list[InvalidCall], init=False)
    _thoughts: set[str] = field(default_factory=set[str], init=False)
    """The ids of calls that turned out to be part of the reasoning, after their events."""
    _read: list[str] = field(default_factory=list[str], init=False)
    """The ids of calls in the text that is being read."""
    _before: int = field(default=0, init=False)
    """How many calls were written wrongly before that text."""
    _texts: int = field(default=0, init=False)
    """How many texts ended, each where a call stands."""

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        attempt = 0
        while True:
            attempt += 1
            held: list[str | MisreadCall] = []
            async for event in self._attempt(attempt, held):
                yield event
            following = None
            if (self._invalid or self.needs_call) and not self._calls:
                following = await self.ask_again(self.inner.get(), self._invalid)
            if following is None:
                break
            self._spent = self._spent + self.inner.usage
            self.inner, self._invalid = following, []
        alone = bool(self._invalid) and not self._calls
        for piece in held:
            # Beside calls that run, what was wrong is told with their results; alone, it stands as text.
            if not isinstance(piece, str):
                source = piece.source if alone else ""
                piece = f"{source}\n" if source and self._last is None else f"\n{source}\n" if source else ""
            for event in self._show(attempt, piece):
                yield event
        if alone:
            self._invalid = []

    async def _attempt(self, attempt: int, held: list[str | MisreadCall]) -> AsyncIterator[ModelResponseStreamEvent]:
        reading: tuple[int, ReplyReader | ConstrainedReader] | None = None
        async for event in self.inner:
            if not isinstance(event, (PartStartEvent, PartDeltaEvent)):
                continue
            chunk = _text(event)
            if reading is not None and (chunk is None or event.index != reading[0]):
                for out in self._take(attempt, reading[1].finish(), held):
                    yield out
                reading = None
            if chunk is None:
                for out in self._pass_on((attempt, event.index), event):
                    yield out
                continue
            if reading is None:
                reading = event.index, self.reader()
                self._read, self._before = [], len(self._invalid)
            for out in self._take(attempt, reading[1].feed(chunk), held):
                yield out
        if reading is not None:
            for out in self._take(attempt, reading[1].finish(), held):
                yield out

    def _take(
        self, attempt: int, pieces: Sequence[Piece], held: list[str | MisreadCall]
    ) -> list[ModelResponseStreamEvent]:
        """Show what is sure. After the first call written wrongly, text waits: it may be asked for again."""
        out: list[ModelResponseStreamEvent] = []
        for piece in pieces:
            if isinstance(piece, ToolCall):
                self._calls += 1
                self._texts += 1
                part = ToolCallPart(piece.name, dict(piece.arguments))
                self._read.append(part.tool_call_id)
                out.append(self._parts_manager.handle_part(vendor_part_id=None, part=part))
            elif isinstance(piece, UnopenedTag):
                self._disown()
            elif isinstance(piece, InvalidCall):
                self._invalid.append(piece)
                held.append(piece)
            elif held:
                held.append(piece)
            else:
                out += self._show(attempt, piece)
        return out

    def _disown(self) -> None:
        """Leave the calls of this text out of the reply: all of it so far was reasoning."""
        self._thoughts.update(self._read)
        self._calls -= len(self._read)
        self._read = []
        del self._invalid[self._before :]

    def _show(self, attempt: int, text: str) -> list[ModelResponseStreamEvent]:
        if not text:
            return []
        # A part for each attempt and for what stands between two calls.
        key = ("text", attempt, self._texts)
        if self._last is not None and self._last[1] != attempt and not self._calls:
            text = f"\n\n{text}"  # below what an earlier attempt showed
        self._last = key
        is_tag = isinstance(text, ReasoningTag) and text in THINKING
        # In a code fence, a chunk may be a tag by chance.
        tags = THINKING if self._thinking or is_tag else None
        self._thinking = text == THINKING[0] if is_tag else self._thinking
        return [*self._parts_manager.handle_text_delta(vendor_part_id=key, content=text, thinking_tags=tags)]

    def _pass_on(self, key: object, event: PartStartEvent | PartDeltaEvent) -> list[ModelResponseStreamEvent]:
        parts = self._parts_manager
        if isinstance(event, PartStartEvent):
            if isinstance(event.part, ToolCallPart):
                self._calls += 1
                self._texts += 1
            return [parts.handle_part(vendor_part_id=key, part=event.part)]
        delta = event.delta
        if isinstance(delta, ThinkingPartDelta):
            return [
                *parts.handle_thinking_delta(
                    vendor_part_id=key,
                    content=delta.content_delta,
                    signature=delta.signature_delta,
                    provider_name=delta.provider_name,
                    provider_details=delta.provider_details,
                )
            ]
        part: Any = parts.get_part_by_vendor_id(key)
        if part is None or isinstance(part, ToolCallPartDelta):
            return []
        changed: Any = delta.apply(part)
        start = parts.handle_part(vendor_part_id=key, part=changed)
        return [PartDeltaEvent(index=start.index, delta=delta)] if isinstance(start, PartStartEvent) else []

    # -- what the caller asks of a stream --------------------------------------------------------------------------

    def get(self) -> ModelResponse:
        """Return the reply so far: the model's facts, our parts."""
        self.state = self.inner.state
        parts = self._parts_manager.get_parts()
        if self._thoughts:
            parts = [part for part in parts if getattr(part, "tool_call_id", None) not in self._thoughts]
        reply = replace(self.inner.get(), parts=parts, usage=self.usage)
        reply = replace(reply, state=super().get().state)
        if self._calls and reply.finish_reason == "stop":
            reply = replace(reply, finish_reason="tool_call")
        return mark_invalid(reply, self._invalid) if self._invalid and self._calls else reply

    async def close_stream(self) -> None:
        """Close the model's stream."""
        await self.inner.cancel()

    def get_stream_cancel_errors(self) -> tuple[type[BaseException], ...]:
        """Return what the model's stream raises when it is closed."""
        return self.inner.get_stream_cancel_errors()

    @property
    def usage(self) -> RequestUsage:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the usage of all attempts."""
        return self._spent + self.inner.usage

    @property
    def model_name(self) -> str:
        """Return the model's name."""
        return self.inner.model_name

    @property
    def provider_name(self) -> str | None:
        """Return the provider's name."""
        return self.inner.provider_name

    @property
    def provider_url(self) -> str | None:
        """Return the provider's address."""
        return self.inner.provider_url

    @property
    def timestamp(self) -> datetime:
        """Return when the reply began."""
        return self.inner.timestamp


def _text(event: PartStartEvent | PartDeltaEvent) -> str | None:
    if isinstance(event, PartStartEvent):
        return event.part.content if isinstance(event.part, TextPart) else None
    return event.delta.content_delta if isinstance(event.delta, TextPartDelta) else None
