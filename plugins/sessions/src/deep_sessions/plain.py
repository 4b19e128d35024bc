"""Entries of a journal as the JSON that they are, for people who read or copy them. It loads no Pydantic AI.

What continues a conversation validates it instead: `entries.py`, `fold.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from deep_core.plugin_api import visible

from .door.text import clean
from .errors import MessageRefused, StoreError
from .patches import apply_patch, make_patch
from .store import Entry, NewEntry, SessionInfo, Stored

if TYPE_CHECKING:
    from deep_core import SessionState

__all__ = [
    "KEPT",
    "KEPT_PROMPT",
    "MESSAGE",
    "STEER",
    "TAIL",
    "VERSION",
    "Said",
    "args_of",
    "args_text",
    "as_text",
    "base_of",
    "check_version",
    "preview",
    "prompt_text",
    "read_plain",
    "read_said",
    "said_by",
    "slots_of",
    "texts_of",
]

VERSION = 1
"""The version of the entries that this package writes."""
STEER = "deep_steer"
"""Where the metadata of a request has the id of the mail that brought it."""
MESSAGE = "message"
"""The label of a message that was queued or steered: the id that its sender gave it."""
KEPT = "kept:"
"""Prefix of the slots whose data did not validate, and that were set since."""
KEPT_PROMPT = "deep_prompt"
"""In the metadata of a user's message whose run ended before the model answered it."""
TAIL = "tail:"
"""Begins the key of a ledger's row with the results of the last batch of tools."""
PREVIEW = 2_000
"""Characters of a call's arguments and result in an event."""

Json = Mapping[str, Any]


def read_plain(entry: Entry) -> Json:
    """Return an entry's data.

    Raises:
        StoreError: the data cannot be read.
    """
    check_version(entry)
    try:
        return json.loads(entry.data)
    except ValueError as error:
        raise StoreError(f"entry {entry.seq} ({entry.kind}) cannot be read: {error}") from error


def check_version(entry: Entry) -> None:
    """Raise StoreError if a later version of this package wrote an entry."""
    if entry.version > VERSION:
        raise StoreError(
            f"entry {entry.seq} ({entry.kind}) was written by a later deep-sessions (version {entry.version}, this "
            f"one reads {VERSION}): pip install -U deep-sessions. Nothing was changed"
        )


def prompt_text(prompt: str | Sequence[object]) -> str:
    """Return the text of a message."""
    return prompt if isinstance(prompt, str) else "\n".join(part for part in prompt if isinstance(part, str))


def preview(text: str) -> str:
    """Cut a text for people, with a count of what is left out."""
    shown = visible(text)
    return shown if len(shown) <= PREVIEW else f"{shown[:PREVIEW]} … {len(shown) - PREVIEW:,} characters hidden"


def args_text(call: Json) -> str:
    """Return the arguments of a call as JSON, as Pydantic AI writes them."""
    args: object = call.get("args") or "{}"
    return args if isinstance(args, str) else json.dumps(args, ensure_ascii=False, separators=(",", ":"))


# -- one entry ---------------------------------------------------------------------------------------------------------


def texts_of(entry: Entry) -> list[tuple[str, str]]:
    """Return the texts that an entry adds to the conversation, as `events_of` has them, each with who wrote it.

    That is `user`, `assistant`, or `tool` for the arguments of a call.

    Raises:
        StoreError: the entry cannot be read.
    """
    if entry.kind not in ("run_started", "messages", "base"):
        return []
    data = read_plain(entry)
    try:
        if entry.kind == "run_started":
            return [("user", prompt_text(data.get("prompt") or ""))] if data.get("attempt", 1) == 1 else []
        messages: Sequence[Json] = data["messages"]
        is_made = entry.kind == "base" and entry.run_id is None
        if is_made and entry.seq > 1:  # what a rewind goes back to was there before
            return []
        # The entry of a compaction has the new response too, and what the tools returned.
        new = len(messages) if is_made else data.get("new", 2 if entry.kind == "base" else len(messages))
        added = messages[max(0, len(messages) - new) :]
        return [text for message in added for text in _texts(message, has_prompts=is_made)]
    except (KeyError, TypeError) as error:
        raise StoreError(f"entry {entry.seq} ({entry.kind}) cannot be read: {error!r}") from error


def _texts(message: Json, *, has_prompts: bool) -> Iterator[tuple[str, str]]:
    parts: Sequence[Json] = message["parts"]
    if message["kind"] == "response":
        if text := "".join(part["content"] for part in parts if part["part_kind"] == "text"):
            yield "assistant", text
        for part in parts:
            if part["part_kind"] == "tool-call":
                yield "tool", f"{part['tool_name']} {preview(args_text(part))}"
    elif has_prompts or STEER in (message.get("metadata") or {}):
        for part in parts:
            if part["part_kind"] == "user-prompt" and (text := prompt_text(part["content"])):
                yield "user", text


# -- a conversation ----------------------------------------------------------------------------------------------------


@dataclass
class Said:
    """What a session is now, for people.

    Attributes:
        info: the session.
        messages: the conversation, as JSON.
        run: the last run, as JSON: `id`, `status`, `prompt`, `began`, `error`, `finish_reason`, `requests`; None before
            it.
        slots: name -> what `SessionState.dump` wrote.
        seq: the number of the last entry.
    """

    info: SessionInfo
    messages: list[Json] = field(default_factory=list[Json])
    run: dict[str, Any] | None = None
    slots: dict[str, Any] = field(default_factory=dict[str, Any])
    seq: int = 0

    @property
    def lines(self) -> Iterator[tuple[str, str]]:
        """What was said, by whom: `user`, `agent` or `tool`."""
        for message in self.messages:
            for part in message["parts"]:
                kind, content = part["part_kind"], part.get("content")
                if kind == "user-prompt" and isinstance(content, str):
                    yield "user", content
                elif kind == "text":
                    yield "agent", content
                elif kind == "tool-call":
                    yield "tool", f"{part['tool_name']} {args_text(part)}"

    @property
    def waiting(self) -> Iterator[tuple[str, Json]]:
        """The calls that wait, with what for: `approval` or `an answer`."""
        requests: Json = (self.run or {}).get("requests") or {}
        for name, what in (("approvals", "approval"), ("calls", "an answer")):
            yield from ((what, call) for call in requests.get(name, ()))

    def apply(self, entry: Entry) -> None:
        """Take up the next entry, as `Fold.apply` does."""
        run, self.seq = self.run, entry.seq
        if entry.kind == "run_started":
            data = read_plain(entry)
            if run is not None and run["id"] == entry.run_id:
                run |= {"status": "running", "error": None}
                return
            self.keep_prompt()
            began = data.get("began", entry.at)
            self.run = {"id": entry.run_id or "", "status": "running", "prompt": data.get("prompt"), "began": began}
        elif entry.kind == "messages":
            data = read_plain(entry)
            if data["path"] == "":
                del self.messages[data["at"] :]
                self._add(data)
                if run is not None and any(message["kind"] == "response" for message in data["messages"]):
                    run["requests"] = None
        elif entry.kind == "base":
            data = read_plain(entry)
            self.messages, self.slots, self.run = [], {}, data.get("run")
            self._add(data)
        elif entry.kind == "slots":
            self._patch(read_plain(entry)["slots"])
        elif run is not None and entry.kind == "paused":
            run |= {"status": "paused", "requests": read_plain(entry)["requests"]}
        elif run is not None and entry.kind == "run_ended":
            data = read_plain(entry)
            run |= {"error": None, "finish_reason": None, **data, "requests": None}
            self.keep_prompt()

    def _add(self, data: Json) -> None:
        same, last = set(data["same"]), _last_instructions(self.messages)
        for index, message in enumerate(data["messages"]):
            if index in same:
                message["instructions"] = last
            last = message.get("instructions", last)
            self.messages.append(message)
        self._patch(data["slots"])

    def _patch(self, slots: Json) -> None:
        for name, patch in slots.items():
            if patch is None:
                self.slots.pop(name, None)
            else:
                self.slots[name] = apply_patch(self.slots.get(name), patch)

    def end(self, tail: bytes | None) -> None:
        """Take up what the ledger has of the last batch of tools."""
        if tail is not None:
            at = len(self.messages)
            while at and KEPT_PROMPT in (self.messages[at - 1].get("metadata") or {}):
                at -= 1
            self.messages[at:at] = json.loads(tail)
            if self.run is not None:
                self.run["requests"] = None

    def keep_prompt(self) -> None:
        """Let the message of the last run stay, as `Fold.keep_prompt` does."""
        run = self.run
        if run is None or run.get("status") == "completed" or not run.get("prompt"):
            return
        error: Json | None = run.get("error")
        if error is not None and error.get("code") == MessageRefused.code:
            return
        if any((each.get("run_id") or "").partition("~")[0] == run["id"] for each in self.messages[-2:]):
            return
        at = datetime.fromtimestamp(run.get("began", 0.0), UTC).isoformat()
        prompt = {"part_kind": "user-prompt", "content": run["prompt"], "timestamp": at}
        kept = {"kind": "request", "parts": [prompt], "timestamp": at, "run_id": run["id"]}
        self.messages.append({**kept, "metadata": {KEPT_PROMPT: True}})


def read_said(stored: Stored) -> Said:
    """Return what a store loaded.

    Raises:
        StoreError: an entry cannot be read.
    """
    said = said_by(stored.info, stored.entries)
    said.end(stored.ledger.get(TAIL))
    return said


def said_by(info: SessionInfo, entries: Iterable[Entry]) -> Said:
    """Return what entries lead to, without the unfinished step.

    Raises:
        StoreError: an entry cannot be read.
    """
    said = Said(info)
    for entry in entries:
        try:
            said.apply(entry)
        except (KeyError, TypeError) as error:
            raise StoreError(f"entry {entry.seq} ({entry.kind}) cannot be read: {error!r}") from error
    return said


def _last_instructions(messages: Sequence[Json]) -> str | None:
    return next((text for each in reversed(messages) if (text := each.get("instructions")) is not None), None)


def base_of(messages: Iterable[Json], slots: Json, *, run: Json | None = None, source: Json | None = None) -> NewEntry:
    """Return a `base` entry, as `journal.base_entry` does, of messages and a run that are JSON."""
    last, written, same = None, list[Json](), list[int]()
    for index, message in enumerate(messages):
        if (instructions := message.get("instructions")) is not None and instructions == last:
            same.append(index)
            message = {key: value for key, value in message.items() if key != "instructions"}
        last = last if instructions is None else instructions
        written.append(message)
    whole = {name: make_patch(None, stored) for name, stored in slots.items()}
    more = {} if source is None else {"source": source}
    data = {"path": "", "at": 0, "same": same, "slots": whole, "usage": {}, "run": run, **more, "messages": written}
    text = json.dumps(as_text(data), ensure_ascii=False, separators=(",", ":"))
    return NewEntry("base", text.encode(), None, VERSION, base=True)


def slots_of(session: SessionState) -> dict[str, Any]:
    """Return a session's slots as the journal has them."""
    return {**session.dump(), **{KEPT + name: stored for name, stored in session.overwritten().items()}}


def as_text(value: Any) -> Any:
    """Return a plain value with U+FFFD for each half of a surrogate pair, and each NUL, in it."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {as_text(key): as_text(inner) for key, inner in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [as_text(inner) for inner in cast("Sequence[Any]", value)]
    return value


def args_of(call: Json) -> Json:
    """Return the arguments of a call as an object; what is none, under `INVALID_JSON`, as Pydantic AI does."""
    text = args_text(call)
    try:
        found: Any = json.loads(text)
    except ValueError:
        found = None
    return cast("Json", found) if isinstance(found, dict) else {"INVALID_JSON": text}
