"""The kinds of journal entries: how each is written and read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter, with_config
from pydantic_ai import DeferredToolRequests, ModelMessagesTypeAdapter
from pydantic_ai.messages import ModelMessage, ModelRequest, UserContent
from pydantic_core import PydanticSerializationError, to_json
from typing_extensions import TypedDict

from .errors import StoreError
from .plain import MESSAGE, VERSION, as_text, check_version
from .quick_json import write_quickly
from .store import Entry, NewEntry

__all__ = [
    "BaseData",
    "ConfigChangedData",
    "DecidedData",
    "Decision",
    "MessagesData",
    "PausedData",
    "RunEndedData",
    "RunStartedData",
    "RunStatus",
    "SlotsData",
    "dump",
    "dump_messages",
    "dump_plain",
    "encode",
    "fill_instructions",
    "labels_of_mail",
    "last_instructions",
    "messages_entry",
    "read_entry",
    "read_prompt",
    "slots_entry",
    "write_prompt",
]

RunStatus = Literal["completed", "failed", "aborted"]
_AS_MESSAGES = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64", defer_build=True)
"""As `ModelMessagesTypeAdapter` writes bytes. Built at first use: `deep chat` shows its prompt before."""


class Decision(TypedDict, total=False):
    """A person's decision on one waiting call.

    Attributes:
        approve: whether the call may run.
        args: the arguments that the person wrote instead; absent for the original ones.
        message: why it was denied, for the model.
        metadata: what the tool that asked reads, such as a subagent's decisions.
        result: of a call that runs elsewhere.
    """

    approve: bool
    args: dict[str, Any]
    message: str
    metadata: dict[str, Any]
    result: Any


@with_config(_AS_MESSAGES)
class RunStartedData(TypedDict, total=False):
    """An attempt to run began.

    Attributes:
        prompt: the message; absent where the attempt continues a run.
        digest: of the agent's configuration.
        attempt: 1, and one more each time the run is resumed.
        began: when the run began, in seconds since 1970; absent where the attempt continues a run.
        allowed_tools: names; absent for no restriction.
        system_prompt: the base text that replaced the configuration's in this run; absent for none.
        mail: the id of the mail that brought the prompt; absent where a call did.
        labels: what the application keeps with the run, such as the name of its model; absent for none.
    """

    prompt: str | list[UserContent]
    digest: str
    attempt: int
    began: float
    allowed_tools: list[str]
    system_prompt: str
    mail: int
    labels: dict[str, str]


@with_config(_AS_MESSAGES)
class _Placed(TypedDict, total=False):
    """Messages, and where they go.

    Attributes:
        path: "" for the agent; for a subagent the keys of the calls that lead to it.
        at: the index of the first message. What stood there and after it is gone from the history.
        messages: the messages.
        same: the indexes in `messages` whose `instructions` equal the last ones before them.
        usage: of the run so far, subagents included: the fields of `RunUsage` that are not 0.
        slots: the slots that changed: name -> a patch of what `SessionState.dump` says, or None for one that is gone.
        agent: the name of the subagent; absent for the agent.
        new: how many of the last messages no entry had before; absent where all are new. Watchers are told of these.
    """

    path: str
    agent: str
    at: int
    new: int
    messages: list[ModelMessage]
    same: list[int]
    slots: dict[str, Any]
    usage: dict[str, Any]


@with_config(_AS_MESSAGES)
class MessagesData(_Placed):
    """A settled boundary."""


@with_config(_AS_MESSAGES)
class BaseData(_Placed, total=False):
    """The session's whole state at path "".

    Attributes:
        run: the run under way, as `Run` in `fold.py` says; None without one.
        source: where the state is from: `{"session": …, "seq": …}` for a fork or rewind.
    """

    run: dict[str, Any] | None
    source: dict[str, Any]


@with_config(_AS_MESSAGES)
class PausedData(TypedDict):
    """Calls wait for a person."""

    requests: DeferredToolRequests


class DecidedData(TypedDict):
    """A run takes up decisions: call id -> decision."""

    decisions: dict[str, Decision]


class RunEndedData(TypedDict, total=False):
    """The run has ended.

    Attributes:
        status: how.
        error: `{"code", "message", "retryable", "retry_after"}` of a failed run.
        finish_reason: how its last request ended.
    """

    status: RunStatus
    error: dict[str, Any]
    finish_reason: str


class ConfigChangedData(TypedDict):
    """The configuration changed between two runs, or at a step of one."""

    before: str
    after: str


class SlotsData(TypedDict):
    """The agent's state changed beside the steps of a run: `slots` as in `MessagesData`."""

    slots: dict[str, Any]


class DeltasData(TypedDict):
    """Pieces of a message, as they came. Nothing is ever made of them again."""

    path: str
    text: str


_KINDS: Mapping[str, TypeAdapter[Any]] = {
    kind: TypeAdapter(data)
    for kind, data in {
        "run_started": RunStartedData,
        "messages": MessagesData,
        "base": BaseData,
        "paused": PausedData,
        "decided": DecidedData,
        "run_ended": RunEndedData,
        "config_changed": ConfigChangedData,
        "slots": SlotsData,
        "deltas": DeltasData,
    }.items()
}


def dump(adapter: TypeAdapter[Any], value: Any) -> bytes:
    """Return a value as JSON, without what is None.

    Models and tools make what JSON cannot hold. It is stored as it can be read: half of a surrogate pair as U+FFFD, an
    object of an unknown type as its `str`.
    """
    try:
        return adapter.dump_json(value, exclude_none=True)
    except PydanticSerializationError:
        return to_json(as_text(adapter.dump_python(value, mode="json", exclude_none=True, fallback=str)))


def dump_messages(messages: Sequence[ModelMessage]) -> bytes:
    """Return messages as JSON that `ModelMessagesTypeAdapter` reads."""
    written = [write_quickly(message) or dump(ModelMessagesTypeAdapter, [message])[1:-1] for message in messages]
    return b"[" + b",".join(written) + b"]"


def dump_plain(value: Any) -> bytes:
    """Return plain values as JSON; see `dump`."""
    try:
        return to_json(value)
    except PydanticSerializationError:
        return to_json(as_text(value), fallback=str)


def encode(kind: str, data: Mapping[str, Any], run_id: str | None = None) -> NewEntry:
    """Return an entry for the journal."""
    return NewEntry(kind, dump(_KINDS[kind], data), run_id, VERSION)


def slots_entry(slots: Mapping[str, Any], run_id: str | None) -> NewEntry:
    """Return a `slots` entry. A None in it is a value: `encode` would leave it out."""
    return NewEntry("slots", dump_plain({"slots": slots}), run_id, VERSION)


def write_prompt(
    prompt: str | Sequence[UserContent], labels: Mapping[str, str] | None = None, *, message_id: str | None = None
) -> bytes:
    """Return a message as mail has it, with the labels of the run that it begins and an id of its sender's."""
    data: RunStartedData = {"prompt": prompt if isinstance(prompt, str) else [*prompt]}
    if message_id is not None:
        labels = {**(labels or {}), MESSAGE: message_id}
    if labels:
        data["labels"] = {**labels}
    return dump(_KINDS["run_started"], data)


def read_prompt(data: bytes) -> str | list[UserContent]:
    """Return the message of a mail."""
    return _KINDS["run_started"].validate_json(data)["prompt"]


def labels_of_mail(data: bytes) -> Mapping[str, str]:
    """Return the labels of a mail's message."""
    return _KINDS["run_started"].validate_json(data).get("labels", {})


def messages_entry(
    path: str,
    at: int,
    messages: Sequence[ModelMessage],
    slots: Mapping[str, Any],
    run_id: str | None,
    *,
    usage: Mapping[str, Any] | None = None,
    before: Sequence[ModelMessage] = (),
    agent: str = "",
    new: int | None = None,
    base: Mapping[str, Any] | None = None,
) -> NewEntry:
    """Return a `messages` entry, or a `base` entry.

    Instructions are a third of a conversation's bytes, and nearly always the same: each text is written once.

    Args:
        path: see `MessagesData`.
        at: see `MessagesData`.
        messages: the messages from `at` on.
        slots: see `MessagesData`.
        run_id: the run that wrote them.
        usage: see `MessagesData`.
        before: the messages before `at`.
        agent: see `MessagesData`.
        new: see `MessagesData`; None for all.
        base: the further fields of a `base` entry; None for a `messages` entry.
    """
    instructed = any(isinstance(message, ModelRequest) and message.instructions is not None for message in messages)
    instructions = last_instructions(before) if instructed else None
    stripped: list[ModelMessage] = []
    same: list[int] = []
    for index, message in enumerate(messages):
        if isinstance(message, ModelRequest) and message.instructions is not None:
            if message.instructions == instructions:
                same.append(index)
                message = replace(message, instructions=None)
            else:
                instructions = message.instructions
        stripped.append(message)
    more = {**({"agent": agent} if agent else {}), **({} if new is None else {"new": new}), **(base or {})}
    head = dump_plain({"path": path, "at": at, "same": same, "slots": slots, "usage": usage or {}, **more})
    data = head[:-1] + b',"messages":' + dump_messages(stripped) + b"}"
    kind = "messages" if base is None else "base"
    return NewEntry(kind, data, run_id, VERSION, base=base is not None)


def read_entry(entry: Entry) -> Any:
    """Return an entry's data; None for a kind that this package does not know. See `fill_instructions`.

    Raises:
        StoreError: the data cannot be read.
    """
    adapter = _KINDS.get(entry.kind)
    if adapter is None:
        return None
    check_version(entry)
    try:
        return adapter.validate_json(entry.data)
    except ValueError as error:
        raise StoreError(f"entry {entry.seq} ({entry.kind}) cannot be read: {str(error).splitlines()[0]}") from error


def fill_instructions(data: Mapping[str, Any], instructions: str | None) -> list[ModelMessage]:
    """Return the messages of an entry with the instructions that were written once.

    Args:
        data: the entry's data.
        instructions: the last instructions before `at`.
    """
    same: set[int] = set(data["same"])
    messages: list[ModelMessage] = data["messages"]
    for index, message in enumerate(messages):
        if isinstance(message, ModelRequest):
            if index in same:
                message.instructions = instructions
            elif message.instructions is not None:
                instructions = message.instructions
    return messages


def last_instructions(messages: Sequence[ModelMessage]) -> str | None:
    """Return the last instructions in messages."""
    found = (message.instructions for message in reversed(messages) if isinstance(message, ModelRequest))
    return next((text for text in found if text is not None), None)
