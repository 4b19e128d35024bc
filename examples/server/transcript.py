"""The page's view of a conversation: a list of items, updated from the events of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypedDict

from pydantic_ai.messages import (
    AgentStreamEvent,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)

from deep_core import RunEvent, ToolEvent

from .incidents import record

__all__ = ["Item", "Transcript"]

RESULT_CHARS = 4_000
"""Maximum characters of a tool's arguments or result for the page; the model has all of it."""
State = Literal["running", "waiting", "success", "failed", "retried", "denied", "interrupted"]


class Item(TypedDict, total=False):
    """One item of the page: a message, or a tool call with `id`, `tool`, `args`, `state`, `depth`."""

    kind: Literal["user", "assistant", "tool", "note", "error"]
    text: str
    id: str
    tool: str
    args: str
    state: State
    depth: int


class Transcript:
    """The items, and their changes as they happen.

    Args:
        items: the present items.
        tell: receives every change: `{"type": "item", "index", "item"}`, or `{"type": "delta", "index", "text"}`.
    """

    def __init__(self, items: list[Item], tell: Callable[[dict[str, Any]], None]) -> None:
        self.items = items
        self._tell = tell
        self._writing: int | None = None

    def add(self, item: Item) -> None:
        """Put an item at the end."""
        self._writing = None
        self.items.append(item)
        self._changed(len(self.items) - 1)

    def hear(self, event: AgentStreamEvent) -> None:
        """Receive an event of the agent's own run."""
        match event:
            case PartStartEvent(part=TextPart(content=text)) if text:
                self._write(text)
            case PartDeltaEvent(delta=TextPartDelta(content_delta=text)) if text:
                self._write(text)
            case PartStartEvent():
                self._writing = None
            case FunctionToolCallEvent(part=call):
                self._call(call.tool_call_id, call.tool_name, call.args_as_dict(), 0)
            case FunctionToolResultEvent(part=part):
                self._result(part.tool_call_id, part.outcome, part.model_response_str(wrap_if_error=False))
            case _:
                pass

    def hear_child(self, event: RunEvent) -> None:
        """Receive an event of a subagent's run, which the agent's own events do not include."""
        match event:
            case ToolEvent(outcome="started"):
                self._call(event.call_id, event.tool, event.args, event.depth)
            case ToolEvent(outcome=("success" | "failed" | "retried") as outcome):
                self._result(event.call_id, outcome, event.error or "")
            case _:
                pass

    def wait(self, path: str, tool: str, args: Mapping[str, Any]) -> None:
        """Mark a call that waits, and the `task` calls above it; the path has their ids and its own."""
        *above, call_id = path.split("/")
        for waiting in above:
            self._result(waiting, "waiting", "")
        if self._index(call_id) is None:
            self._call(call_id, tool, args, len(above))
        self._result(call_id, "waiting", "")

    def deny(self, path: str, reason: str) -> None:
        """Mark a call that the user denied; for a subagent's call, no event of the run reports it."""
        self._result(path.split("/")[-1], "denied", reason)

    def end(self) -> None:
        """End the run: unfinished items will never finish."""
        self._writing = None
        for index, item in enumerate(self.items):
            if item.get("state") == "running":
                item["state"] = "interrupted"
                self._changed(index)

    def _write(self, text: str) -> None:
        if self._writing is None:
            self.add({"kind": "assistant", "text": text})
            self._writing = len(self.items) - 1
        else:
            item = self.items[self._writing]
            item["text"] = item.get("text", "") + text
            self._tell({"type": "delta", "index": self._writing, "text": text})

    def _call(self, call_id: str, tool: str, args: Mapping[str, Any], depth: int) -> None:
        index = self._index(call_id)
        if index is None:
            text = json.dumps(dict(args), indent=2, ensure_ascii=False, default=str)
            item: Item = {"kind": "tool", "id": call_id, "tool": tool, "args": _clipped(text), "depth": depth}
            self.add({**item, "state": "running", "text": ""})
        else:  # it waited for an approval, and runs now
            self.items[index]["state"] = "running"
            self._changed(index)

    def _result(self, call_id: str, outcome: State, text: str) -> None:
        index = self._index(call_id)
        if index is not None:
            # A failure's text is an exception's; only a denial's reason was written for people.
            if outcome == "failed" and not text.startswith("Denied: "):
                text = record(f"the call {call_id} of {self.items[index].get('tool')} failed", text)
            self.items[index]["state"] = outcome
            self.items[index]["text"] = _clipped(text)
            self._changed(index)

    def _index(self, call_id: str) -> int | None:
        # From the end: a model may reuse an id in a later turn.
        places = range(len(self.items) - 1, -1, -1)
        mine = (n for n in places if self.items[n].get("id") == call_id)
        return next((n for n in mine if self.items[n].get("state") in ("running", "waiting")), None)

    def _changed(self, index: int) -> None:
        self._tell({"type": "item", "index": index, "item": dict(self.items[index])})


def _clipped(text: str) -> str:
    if len(text) <= RESULT_CHARS:
        return text
    return f"{text[:RESULT_CHARS]}\n… ({len(text) - RESULT_CHARS:,} more characters)"
