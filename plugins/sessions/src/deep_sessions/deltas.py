"""The pieces of messages in the journal, for debugging: `session.persist_delta`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.tools import RunContext

from .capability import journal_of
from .entries import encode
from .slot import CALL

if TYPE_CHECKING:
    from pydantic_ai.agent import EventStreamHandler

    from .journal import Journal

__all__ = ["stored_deltas", "text_of"]

SECONDS = 0.25
"""A batch is written at the earliest so long after the one before, unless it is large."""
BYTES = 64 * 1024


def stored_deltas(handler: EventStreamHandler[Any] | None) -> EventStreamHandler[Any]:
    """Return a handler that stores the pieces of text in batches, and passes all events on."""

    async def handle(ctx: RunContext[Any], events: AsyncIterable[Any]) -> None:
        journal = journal_of(ctx)
        seen = events if journal is None else _store(journal, events)
        if handler is not None:
            await handler(ctx, seen)
        async for _ in seen:  # what the handler left
            pass

    return handle


async def _store(journal: Journal, events: AsyncIterable[Any]) -> AsyncIterator[Any]:
    now = asyncio.get_running_loop().time
    texts: list[str] = []
    size, began = 0, now()
    try:
        async for event in events:
            if text := text_of(event):
                texts.append(text)
                size += len(text.encode())
                if size >= BYTES or now() - began >= SECONDS:
                    await _write(journal, texts)
                    size, began = 0, now()
            yield event
    finally:
        await _write(journal, texts)


async def _write(journal: Journal, texts: list[str]) -> None:
    if texts:
        data = {"path": CALL.get(), "text": "".join(texts)}
        texts.clear()
        await journal.write(encode("deltas", data, journal.run_id))


def text_of(event: object) -> str:
    """Return the text that an event of Pydantic AI's stream adds; "" for other events."""
    match event:
        case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            return text
        case _:
            return ""
