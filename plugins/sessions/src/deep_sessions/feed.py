"""The events of one session in this process: a bounded ring that any number of watchers read at their own pace."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from .events import (
    LIVE,
    Event,
    FilesChanged,
    RequestRetried,
    RunInterrupted,
    TextAdded,
    ThinkingAdded,
    ToolEnded,
    ToolStarted,
    events_of,
    message_events,
    number,
    result_text,
)
from .plain import preview
from .store import Entry

if TYPE_CHECKING:
    from .fold import Fold

__all__ = ["Feed"]

EVENTS = 4_096
CHARACTERS = 1 << 20
"""What a ring holds at most: events, and characters of text in them."""


class Feed:
    """The last events of a session.

    Args:
        seq: the number of the session's last entry now. Events of entries up to it are in the store only.
        plugin_of: returns the plugin of a tool, by the tool's name.
    """

    def __init__(self, seq: int, plugin_of: Callable[[str], str]) -> None:
        self.seq = seq
        """The last entry whose events are here."""
        self.floor = number(seq, LIVE)
        """Events with smaller numbers are in the store, or gone."""
        self.watchers = 0
        self.is_closed = False
        self._plugin_of = plugin_of
        self._ring: deque[Event] = deque()
        self._characters = 0
        self._place = LIVE
        self._ended: set[tuple[str, str]] = set()
        self._changed = asyncio.Event()

    # -- what happens --------------------------------------------------------------------------------------------------

    def committed(self, entries: Sequence[Entry]) -> None:
        """Add the events of the next entries."""
        for entry in entries:
            if entry.seq <= self.seq:
                continue
            if entry.seq > self.seq + 1:  # another process wrote what is between: watchers read it in the store
                self._ring.clear()
                self._characters, self.floor = 0, number(entry.seq)
            self.seq, self._place = entry.seq, LIVE
            for event in self.named(events_of(entry)):
                if isinstance(event, ToolEnded) and (event.path, event.call_id) in self._ended:
                    self._ended.discard((event.path, event.call_id))  # the run has told it
                else:
                    self._add(event)
        self.wake()

    def provisional(self, state: Fold) -> None:
        """Add how the calls of the last batch ended, if no message in the journal says it yet."""
        if state.seq != self.seq:
            return
        for path, request in state.tails.items():
            for event in self.named([e for e in message_events([request], path) if isinstance(e, ToolEnded)]):
                self._place += 1
                run_id = "" if state.run is None else state.run.id
                self._add(replace(event, n=number(self.seq, self._place), run_id=run_id))
                self._ended.add((event.path, cast("ToolEnded", event).call_id))
        self.wake()

    def live(self, kind: str, **fields: Any) -> None:
        """Add what happens in the run, after the last entry."""
        self._place += 1
        n = number(self.seq, self._place)
        if kind == "tool_ended":
            result = result_text(fields["tool"], fields.pop("result"))
            event: Event = ToolEnded(n=n, **fields, result=preview(result))
            self._ended.add((event.path, event.call_id))
        else:
            event = _LIVE[kind](n=n, **fields)
        self._add(event)
        self.wake()

    def named(self, events: Sequence[Event]) -> list[Event]:
        """Add the names of plugins, which the journal does not have."""
        return [
            replace(event, plugin=self._plugin_of(event.tool)) if isinstance(event, ToolStarted | ToolEnded) else event
            for event in events
        ]

    def close(self) -> None:
        """End all watchers."""
        self.is_closed = True
        self.wake()

    def _add(self, event: Event) -> None:
        self._ring.append(event)
        self._characters += _size(event)
        while len(self._ring) > EVENTS or self._characters > CHARACTERS:
            gone = self._ring.popleft()
            self._characters -= _size(gone)
            self.floor = gone.n + 1

    def wake(self) -> None:
        """Let all watchers look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    # -- watchers ------------------------------------------------------------------------------------------------------

    def after(self, n: int) -> list[Event]:
        """Return the events of the ring with larger numbers."""
        return [*self._ring][bisect_right(self._ring, n, key=lambda event: event.n) :]

    async def changed(self, pause: float | None) -> None:
        """Wait for another event, at most `pause` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._changed.wait()


_LIVE: Mapping[str, Callable[..., Event]] = {
    "text_added": TextAdded,
    "thinking_added": ThinkingAdded,
    "files_changed": FilesChanged,
    "request_retried": RequestRetried,
    "run_interrupted": RunInterrupted,
}


def _size(event: Event) -> int:
    return sum(len(value) for value in vars(event).values() if isinstance(value, str))
