"""What watchers of a session see: numbered events, made from journal entries and from the run under way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, cast

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
    UserPromptPart,
)

from .entries import read_entry
from .ledger_rows import UNKNOWN
from .plain import MESSAGE, STEER, preview, prompt_text
from .requests.ends import words_of_end
from .store import Entry

__all__ = [
    "ApprovalsAsked",
    "ApprovalsDecided",
    "Event",
    "FilesChanged",
    "HistoryReplaced",
    "MessageAdded",
    "RequestRetried",
    "RunEnded",
    "RunInterrupted",
    "RunStarted",
    "SlotsChanged",
    "TextAdded",
    "ThinkingAdded",
    "ToolEnded",
    "ToolStarted",
    "UsageAdded",
    "event_from_json",
    "events_of",
    "message_events",
    "number",
]

SHIFT = 24
"""An event's number is `entry << 24 | place`: an exact JSON number up to half a billion entries."""
LIVE = 1 << 16
"""The first place of events that no entry holds: those of the run after that entry."""
PREVIEW = 2_000
"""Most characters of a tool's arguments or result in an event. The model's history has all of it."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """The base of all events.

    Attributes:
        n: its number in the session. Numbers grow, and have gaps.
        run_id: the run; "" for none.
        path: "" for the agent; for a subagent the keys of the calls that lead to it, joined by "/".
        agent: the subagent's name, where the process that watches also runs it; else "".
    """

    kind: ClassVar[str] = ""
    n: int = 0
    run_id: str = ""
    path: str = ""
    agent: str = ""

    @property
    def depth(self) -> int:
        """0 for the agent, 1 for its subagent, and so on."""
        return self.path.count("/") + 1 if self.path else 0

    def to_json(self) -> dict[str, Any]:
        """Return the event as JSON values, with its `kind`. Fields that are empty are left out."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"kind": self.kind, **{name: value for name, value in values.items() if value not in ("", None)}}


@dataclass(frozen=True, kw_only=True)
class RunStarted(Event):
    """A run began, or was resumed: then `attempt` is above 1. `text` is its message, `message_id` as of `queue`."""

    kind = "run_started"
    text: str = ""
    attempt: int = 1
    message_id: str = ""


@dataclass(frozen=True, kw_only=True)
class TextAdded(Event):
    """A piece of the model's text, while it writes."""

    kind = "text_added"
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class ThinkingAdded(Event):
    """A piece of the model's thinking, while it writes."""

    kind = "thinking_added"
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class MessageAdded(Event):
    """A message is stored. A model's text replaces the pieces before it: they are equal, joined.

    `role` is `user` or `assistant`. A message of the user that began a run is in `RunStarted` instead, unless the
    session was forked or imported after it.
    """

    kind = "message_added"
    role: str = "assistant"
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class UsageAdded(Event):
    """A request to the model has its response: the tokens that the provider counted."""

    kind = "usage_added"
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class RequestRetried(Event):
    """A request failed and is sent again: to `model` after `seconds`, or if they are 0 to the next model.

    `words` say all of it to people, `reason` is the cause alone, and `code` for programs. `replaces`: pieces of the
    failed answer were shown. What follows replaces them.
    """

    kind = "request_retried"
    model: str = ""
    reason: str = ""
    code: str = ""
    seconds: float = 0.0
    attempt: int = 0
    replaces: bool = False
    words: str = ""


@dataclass(frozen=True, kw_only=True)
class ToolStarted(Event):
    """A call of a tool. `args` are cut to 2,000 characters of JSON."""

    kind = "tool_started"
    call_id: str = ""
    tool: str = ""
    plugin: str = ""
    args: str = ""


@dataclass(frozen=True, kw_only=True)
class ToolEnded(Event):
    """A call has a result; `result` is cut.

    `outcome` is `success`, `failed`, `denied`, `retried`, `interrupted` (the call did not run), or `unknown` (the
    process died while it ran).
    """

    kind = "tool_ended"
    call_id: str = ""
    tool: str = ""
    plugin: str = ""
    outcome: str = "success"
    result: str = ""


@dataclass(frozen=True, kw_only=True)
class FilesChanged(Event):
    """A tool that writes has run. `file` is its argument `path`; "" if any file may have changed."""

    kind = "files_changed"
    file: str = ""


@dataclass(frozen=True, kw_only=True)
class ApprovalsAsked(Event):
    """Calls wait for a person: `Sessions.waiting` returns them whole, with the subagents' calls."""

    kind = "approvals_asked"
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ApprovalsDecided(Event):
    """The run took up decisions: call id -> approved."""

    kind = "approvals_decided"
    decisions: Mapping[str, bool] | None = None


@dataclass(frozen=True, kw_only=True)
class SlotsChanged(Event):
    """Parts of the session's state changed, such as `todos`: `Sessions.slots` returns them."""

    kind = "slots_changed"
    names: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HistoryReplaced(Event):
    """A compaction, a rewind or a fork replaced what the model reads. The journal keeps what was there.

    `to` is the number of the first event that a rewind took back: what has it or a larger one, up to this event, is no
    part of the conversation any more. None for all else.
    """

    kind = "history_replaced"
    to: int | None = None


@dataclass(frozen=True, kw_only=True)
class RunEnded(Event):
    """The run ended: `completed`, `failed` or `aborted`. `code` and `message` say why it failed.

    `finish_reason` is how its last request ended: an answer with `length` or `filtered` is not whole, and `words` says
    so for people, where the run completed. `retryable` says whether the run can succeed if it is tried again,
    `retry_after` after how many seconds, where a provider says so.
    """

    kind = "run_ended"
    status: str = "completed"
    code: str = ""
    message: str = ""
    finish_reason: str = ""
    retryable: bool | None = None
    retry_after: float | None = None
    words: str = ""


@dataclass(frozen=True, kw_only=True)
class RunInterrupted(Event):
    """The run stopped and has no end: its store failed, or another process took the session. It can be resumed.

    Only watchers in the process of the run get it.
    """

    kind = "run_interrupted"
    code: str = ""
    message: str = ""


_CLASSES: Mapping[str, type[Event]] = {
    found.kind: found
    for found in (
        RunStarted,
        TextAdded,
        ThinkingAdded,
        MessageAdded,
        UsageAdded,
        RequestRetried,
        ToolStarted,
        ToolEnded,
        FilesChanged,
        ApprovalsAsked,
        ApprovalsDecided,
        SlotsChanged,
        HistoryReplaced,
        RunEnded,
        RunInterrupted,
    )
}


def event_from_json(data: Mapping[str, Any]) -> Event | None:
    """Return the event that `to_json` wrote; None for a kind that a later version wrote."""
    made = _CLASSES.get(data["kind"])
    if made is None:
        return None
    values: dict[str, Any] = {field.name: data[field.name] for field in fields(made) if field.name in data}
    for name, value in values.items():
        if isinstance(value, list):
            values[name] = tuple(cast("list[str]", value))
    return made(**values)


def number(entry: int, place: int = 0) -> int:
    """Return the number of an event: its entry's, and its place there or after it."""
    return entry << SHIFT | place


def events_of(entry: Entry) -> list[Event]:
    """Return the events that an entry of the journal stands for: the same in every process.

    Raises:
        StoreError: the entry cannot be read.
    """
    data = read_entry(entry)
    if data is None:
        return []
    found: Iterator[Event] = _EVENTS[entry.kind](data, entry) if entry.kind in _EVENTS else iter(())
    return [_numbered(event, number(entry.seq, place), entry.run_id or "") for place, event in enumerate(found)]


def _numbered(event: Event, n: int, run_id: str) -> Event:
    # Only this module and the feed see an event before it has its number.
    object.__setattr__(event, "n", n)
    object.__setattr__(event, "run_id", run_id)
    return event


def _run_started(data: Mapping[str, Any], entry: Entry) -> Iterator[Event]:
    message_id = data.get("labels", {}).get(MESSAGE, "")
    yield RunStarted(text=prompt_text(data.get("prompt", "")), attempt=data.get("attempt", 1), message_id=message_id)


def _messages(data: Mapping[str, Any], entry: Entry) -> Iterator[Event]:
    yield from message_events(_new_messages(data), data["path"], data.get("agent", ""))
    if data["slots"]:
        yield SlotsChanged(path=data["path"], names=tuple(data["slots"]))


def _slots(data: Mapping[str, Any], entry: Entry) -> Iterator[Event]:
    yield SlotsChanged(names=tuple(data["slots"]))


def _base(data: Mapping[str, Any], entry: Entry) -> Iterator[Event]:
    source: Mapping[str, Any] | None = data.get("source")
    is_rewind = entry.seq > 1  # a fork begins a session
    yield HistoryReplaced(to=number(int(source["seq"]) + 1) if source is not None and is_rewind else None)
    if entry.run_id is not None:  # a compaction; its entry has the new response too, and what the tools returned
        yield from message_events(_new_messages({"new": 2, **data}))
    elif entry.seq == 1:  # a fork, or an import: no entry says what was written before
        yield from message_events(data["messages"], has_prompts=True)
    yield SlotsChanged(names=tuple(data["slots"]))


def _new_messages(data: Mapping[str, Any]) -> Sequence[ModelMessage]:
    messages: Sequence[ModelMessage] = data["messages"]
    return messages[max(0, len(messages) - data.get("new", len(messages))) :]


def message_events(
    messages: Sequence[ModelMessage], path: str = "", agent: str = "", *, has_prompts: bool = False
) -> Iterator[Event]:
    """Yield the events that messages stand for; with `has_prompts`, those of the user's too, which runs begin with."""
    for message in messages:
        if isinstance(message, ModelResponse):
            if text := "".join(part.content for part in message.parts if isinstance(part, TextPart)):
                yield MessageAdded(path=path, agent=agent, text=text)
            yield _usage(message, path, agent)
            for part in message.parts:
                if isinstance(part, ToolCallPart):
                    args = preview(part.args_as_json_str())
                    yield ToolStarted(path=path, agent=agent, call_id=part.tool_call_id, tool=part.tool_name, args=args)
            continue
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                yield ToolEnded(
                    path=path,
                    agent=agent,
                    call_id=part.tool_call_id,
                    tool=part.tool_name,
                    outcome="unknown" if part.content == UNKNOWN else part.outcome,
                    result=preview(result_text(part.tool_name, part.content)),
                )
            elif part.part_kind == "retry-prompt" and part.tool_name:  # before Pydantic AI 2.68
                call_id, text = part.tool_call_id, preview(part.model_response())
                yield ToolEnded(
                    path=path, agent=agent, call_id=call_id, tool=part.tool_name, outcome="retried", result=text
                )
            elif (
                isinstance(part, UserPromptPart)
                and (has_prompts or is_steered(message))
                and (text := prompt_text(part.content))  # "" for a section of a plugin
            ):
                yield MessageAdded(path=path, agent=agent, role="user", text=text)


def _usage(response: ModelResponse, path: str, agent: str) -> UsageAdded:
    used = response.usage
    return UsageAdded(
        path=path,
        agent=agent,
        model=response.model_name or "",
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cache_read_tokens=used.cache_read_tokens,
        cache_write_tokens=used.cache_write_tokens,
    )


def is_steered(message: ModelRequest) -> bool:
    """Whether a request came from `Sessions.steer`."""
    return STEER in (message.metadata or {})


def _paused(data: Mapping[str, Any], entry: Entry) -> Iterator[Event]:
    requests = data["requests"]
    yield ApprovalsAsked(calls=tuple(call.tool_call_id for call in (*requests.approvals, *requests.calls)))


def _decided(data: Mapping[str, Any], entry: Entry) -> Iterator[Event]:
    yield ApprovalsDecided(decisions={key: bool(said.get("approve", True)) for key, said in data["decisions"].items()})


def _run_ended(data: Mapping[str, Any], entry: Entry) -> Iterator[Event]:
    error: Mapping[str, Any] = data.get("error") or {}
    yield RunEnded(
        status=data["status"],
        code=error.get("code", ""),
        message=error.get("message", ""),
        finish_reason=data.get("finish_reason", ""),
        words=words_of_end(data.get("finish_reason", "")) if data["status"] == "completed" else "",
        retryable=error.get("retryable"),
        retry_after=error.get("retry_after"),
    )


_EVENTS: Mapping[str, Any] = {
    "run_started": _run_started,
    "messages": _messages,
    "slots": _slots,
    "base": _base,
    "paused": _paused,
    "decided": _decided,
    "run_ended": _run_ended,
}


def result_text(tool: str, result: object) -> str:
    """Return the text of a tool's result, also where Pydantic AI wraps it as an error for the model."""
    value = cast("ToolReturn[Any]", result).return_value if isinstance(result, ToolReturn) else result
    return ToolReturnPart(tool, value).model_response_str()
