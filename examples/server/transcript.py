"""The page's view of a conversation: a list of items, from the session's events."""

from __future__ import annotations

import json
from typing import Any, TypedDict

from deep_sessions import Event

from .incidents import incident_text

__all__ = ["Item", "Transcript"]

OURS = ("limit_exceeded", "run_timed_out")
"""Errors whose text is written for people. Any other may quote a password."""
STOPPED = "The server was stopped while it worked on this. Files may have changed."
FAILED = "The run was interrupted, because its steps could not be stored. Files may have changed."


class Item(TypedDict, total=False):
    """One item of the page: a message, or a tool call with `tool`, `args`, `state` and `depth`.

    `kind` is `user`, `assistant`, `tool`, `note` or `error`; `state` is `running`, `waiting`, or an outcome.
    """

    kind: str
    text: str
    tool: str
    args: str
    state: str
    depth: int


class Transcript:
    """The items of a session, and how each event changes them.

    Attributes:
        items: the items.
        running: whether a run is under way.
        asked: the number of the event with which calls began to wait; 0 if none wait.
    """

    def __init__(self, session_id: str) -> None:
        self.items: list[Item] = []
        self.running = False
        self.asked = 0
        self._session_id = session_id
        self._calls: dict[tuple[str, str], int] = {}
        self._writing: int | None = None
        self._changes: list[dict[str, Any]] = []

    def hear(self, event: Event) -> list[dict[str, Any]]:
        """Take up an event; return the changes: `{"type": "item", "index", "item"}`, or `{"type": "delta", …, "text"}`.

        The same event may come again, and changes nothing then.
        """
        handler = getattr(self, f"_{event.kind}", None)
        if handler is not None:
            handler(event)
        return self.changes()

    def changes(self) -> list[dict[str, Any]]:
        """Return the changes since the last time."""
        changes, self._changes = self._changes, []
        return changes

    def add(self, kind: str, text: str) -> None:
        """Put a message at the end."""
        self._writing = None
        self._add({"kind": kind, "text": text})

    def interrupt(self, why: str = STOPPED) -> None:
        """End a run that has no end."""
        self._end()
        self.add("error", f"{why} Continue, or send another message.")

    def _run_started(self, event: Any) -> None:
        if self.running:
            self.interrupt()
        if event.attempt == 1:
            self.add("user", event.text)
        self.running, self.asked = True, 0
        self._change_states("waiting", "running")

    def _run_ended(self, event: Any) -> None:
        self._end()
        if event.status == "aborted":
            self.add("note", "Stopped.")
        elif event.status == "failed":
            text = event.message if event.code in OURS else incident_text(event.run_id)
            self.add("error", f"The run failed. {text}")

    def _run_interrupted(self, event: Any) -> None:
        self.interrupt(FAILED)

    def _text_added(self, event: Any) -> None:
        if self._writing is None:
            self.add("assistant", event.text)
            self._writing = len(self.items) - 1
        else:
            item = self.items[self._writing]
            item["text"] = item.get("text", "") + event.text
            self._changes.append({"type": "delta", "index": self._writing, "text": event.text})

    def _message_added(self, event: Any) -> None:
        if event.depth:
            return
        if self._writing is None:
            self.add(event.role, event.text)
        else:
            self._change(self._writing, text=event.text)  # it was read piece by piece, perhaps not from the start
        self._writing = None

    def _tool_started(self, event: Any) -> None:
        if event.path and (event.path, event.call_id) in self._calls:
            return  # a subagent that waited tells its calls again
        self._writing = None
        self._calls[event.path, event.call_id] = len(self.items)
        args = _indented(event.args)
        self._add(
            {"kind": "tool", "tool": event.tool, "args": args, "depth": event.depth, "state": "running", "text": ""}
        )

    def _tool_ended(self, event: Any) -> None:
        index = self._calls.get((event.path, event.call_id))
        if index is not None:
            # A failure's text is an exception's; only a denial's reason was written for people.
            hidden = event.outcome == "failed" and not event.result.startswith("Denied: ")
            text = incident_text(f"{self._session_id} {event.call_id}") if hidden else event.result
            self._change(index, state=event.outcome, text=text)

    def _approvals_asked(self, event: Any) -> None:
        self.running, self.asked = False, event.n
        self._change_states("running", "waiting")

    def _end(self) -> None:
        self.running, self.asked, self._writing = False, 0, None
        self._change_states("running", "interrupted")
        self._change_states("waiting", "interrupted")

    def _change_states(self, old: str, new: str) -> None:
        for index, item in enumerate(self.items):
            if item.get("state") == old:
                self._change(index, state=new)

    def _add(self, item: Item) -> None:
        self.items.append(item)
        self._changes.append({"type": "item", "index": len(self.items) - 1, "item": dict(item)})

    def _change(self, index: int, **values: str) -> None:
        item: Item = {**self.items[index], **values}  # type: ignore[typeddict-item]
        if item != self.items[index]:
            self.items[index] = item
            self._changes.append({"type": "item", "index": index, "item": dict(item)})


def _indented(args: str) -> str:
    try:
        return json.dumps(json.loads(args), indent=2, ensure_ascii=False)
    except ValueError:
        return args  # cut off, as long arguments are
