"""The state of a session, from the entries of its journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter, with_config
from pydantic_ai import DeferredToolRequests
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    UserContent,
    UserPromptPart,
)

from .entries import Decision, fill_instructions, last_instructions, read_entry
from .errors import MessageRefused
from .ledger_rows import EffectRow, read_row
from .patches import apply_patch
from .plain import KEPT_PROMPT, TAIL
from .slot import RESPONSE_KEY
from .store import Entry, Mail, SessionInfo, Stored

__all__ = ["RUN", "Fold", "History", "Run", "fold", "kept_prompts"]


@dataclass
class History:
    """The conversation of the agent, or of a subagent, and the slots of its session.

    Attributes:
        messages: the conversation.
        slots: name -> what `SessionState.dump` wrote.
        joined: whether a run of this process has written it, so that its messages are that run's objects.
    """

    messages: list[ModelMessage] = field(default_factory=list[ModelMessage])
    slots: dict[str, Any] = field(default_factory=dict[str, Any])
    joined: bool = False

    def patch(self, slots: Mapping[str, Any]) -> None:
        """Change slots: name -> a patch, or None for a slot that is gone."""
        for name, patch in slots.items():
            if patch is None:
                self.slots.pop(name, None)
            else:
                self.slots[name] = apply_patch(self.slots.get(name), patch)


@with_config(ConfigDict(defer_build=True))
@dataclass
class Run:
    """The last run of a session.

    Attributes:
        id: the run's id.
        digest: of the agent's configuration.
        attempt: how often it was started.
        prompt: its message; None if it has none of its own.
        status: `running` also means that its process died.
        requests: the calls that wait; None if none do.
        decisions: what was decided about them.
        asked: the number of the entry that asks about them.
        error: `{"code", "message", "retryable", "retry_after"}` of a failed run.
        allowed_tools: names; None for no restriction.
        system_prompt: the base text that replaced the configuration's.
        usage: of all attempts, subagents included: the fields of `RunUsage` that are not 0.
        labels: what the application keeps with the run, such as the name of its model.
        began: when it began, in seconds since 1970.
        day: the same, as a day in UTC.
        before: what the runs of the session before it used, like `usage`.
        before_today: the same, of those that began on this day.
        steps: path -> how many responses, responses with calls, and calls that agent's run has made.
    """

    id: str
    digest: str = ""
    attempt: int = 1
    prompt: str | list[UserContent] | None = None
    status: Literal["running", "paused", "completed", "failed", "aborted"] = "running"
    requests: DeferredToolRequests | None = None
    decisions: dict[str, Decision] = field(default_factory=dict[str, Decision])
    asked: int = 0
    error: dict[str, Any] | None = None
    allowed_tools: list[str] | None = None
    system_prompt: str | None = None
    usage: dict[str, Any] = field(default_factory=dict[str, Any])
    labels: dict[str, str] = field(default_factory=dict[str, str])
    steps: dict[str, tuple[int, int, int]] = field(default_factory=dict[str, tuple[int, int, int]])

    began: float = 0.0
    day: str = ""
    before: dict[str, Any] = field(default_factory=dict[str, Any])
    before_today: dict[str, Any] = field(default_factory=dict[str, Any])

    def follow(self, last: Run | None, at: float) -> None:
        """Begin at a time, after the session's last run."""
        self.began, self.day = at, day_of(at)
        if last is not None:
            self.before = _sum(last.before, last.usage)
            self.before_today = _sum(last.before_today, last.usage) if last.day == self.day else {}

    @property
    def attempt_id(self) -> str:
        """The id of the attempt for Pydantic AI, which takes an id only once in a conversation."""
        return self.id if self.attempt == 1 else f"{self.id}~{self.attempt}"

    def progressed(self, messages: Iterable[ModelMessage]) -> None:
        """Forget the calls that waited, if a response follows them: they have run."""
        if any(isinstance(message, ModelResponse) for message in messages):
            self.requests, self.decisions = None, {}

    def count(self, path: str, gone: Iterable[ModelMessage], messages: Iterable[ModelMessage]) -> None:
        """Count the new responses of a path. In a compaction, some of `messages` are among those that they replace."""
        keys = {key_of_response(message) for message in gone} - {None}
        for message in messages:
            if isinstance(message, ModelResponse) and key_of_response(message) not in keys:
                iterations, rounds, calls = self.steps.get(path, (0, 0, 0))
                made = len(message.tool_calls)
                self.steps[path] = (iterations + 1, rounds + (made > 0), calls + made)

    def wrote(self, message: ModelMessage) -> bool:
        """Whether an attempt of this run added a message."""
        return message.run_id is not None and message.run_id.partition("~")[0] == self.id


@dataclass
class Fold:
    """What a session is now.

    Attributes:
        info: the session.
        seq: the number of the last entry.
        histories: path -> the conversation; those of subagents only while their call is open.
        run: the last run; None before the first.
        effects: key -> an effect whose result the journal does not show.
        tails: path -> the provisional results of the last batch of tools.
        mail: what waits.
    """

    info: SessionInfo
    seq: int = 0
    histories: dict[str, History] = field(default_factory=lambda: {"": History()})
    run: Run | None = None
    effects: dict[str, EffectRow] = field(default_factory=dict[str, EffectRow])
    tails: dict[str, ModelRequest] = field(default_factory=dict[str, ModelRequest])
    mail: list[Mail] = field(default_factory=list[Mail])

    @property
    def root(self) -> History:
        """The agent's conversation."""
        return self.histories[""]

    def messages(self, path: str = "") -> list[ModelMessage]:
        """Return the messages of a path, with the results of its last batch of tools."""
        history = self.histories.get(path)
        if history is None:
            return []
        found = [*history.messages]
        if path in self.tails:
            found.insert(len(found) - len(kept_prompts(found)), self.tails[path])
        return found

    def keep_prompt(self) -> None:
        """Let the message of the last run stay in the conversation, if the run ended before the model answered it.

        One that a plugin refused does not: the next request would send it.
        """
        run, messages = self.run, self.root.messages
        if run is None or run.status == "completed" or not run.prompt:
            return
        if run.error is not None and run.error.get("code") == MessageRefused.code:
            return
        if any(run.wrote(message) for message in messages[-2:]):
            return
        at = datetime.fromtimestamp(run.began, UTC)
        prompt = UserPromptPart(run.prompt, timestamp=at)
        messages.append(ModelRequest([prompt], timestamp=at, run_id=run.id, metadata={KEPT_PROMPT: True}))

    def settled(self, path: str) -> None:
        """Forget the unfinished step of a path: its calls are settled, and so are the subagents that they started."""
        for found in (self.histories, self.tails, self.effects):
            for key in [key for key in found if is_below(key, path)]:
                del found[key]
        if self.run is not None:
            self.run.steps = {key: done for key, done in self.run.steps.items() if not is_below(key, path)}
        self.tails.pop(path, None)

    def apply(self, entry: Entry) -> None:
        """Take up the next entry. Raises StoreError if it cannot be read."""
        self.seq = entry.seq
        data = read_entry(entry)
        if data is not None:
            getattr(self, f"_{entry.kind}")(data, entry)

    def _run_started(self, data: Mapping[str, Any], entry: Entry) -> None:
        if self.run is not None and entry.run_id == self.run.id:  # resumed
            self.run.attempt, self.run.status = data.get("attempt", self.run.attempt + 1), "running"
            self.run.error = None
            return
        self.keep_prompt()
        last, self.run = (
            self.run,
            Run(
                entry.run_id or "",
                data.get("digest", ""),
                data.get("attempt", 1),
                data.get("prompt"),
                allowed_tools=data.get("allowed_tools"),
                system_prompt=data.get("system_prompt"),
                labels=data.get("labels", {}),
            ),
        )
        self.run.follow(last, data.get("began", entry.at))

    def _messages(self, data: Mapping[str, Any], entry: Entry) -> None:
        path = data["path"]
        history = self.histories.setdefault(path, History())
        if self.run is not None:
            self.run.count(path, history.messages[data["at"] :], data["messages"])
        del history.messages[data["at"] :]
        history.messages += fill_instructions(data, last_instructions(history.messages))
        history.patch(data["slots"])
        self.settled(path)
        if self.run is not None:
            self.run.usage = data.get("usage", {})
            if path == "":
                self.run.progressed(data["messages"])

    def _slots(self, data: Mapping[str, Any], entry: Entry) -> None:
        self.root.patch(data["slots"])

    def _base(self, data: Mapping[str, Any], entry: Entry) -> None:
        slots = {name: apply_patch(None, patch) for name, patch in data["slots"].items()}
        self.histories = {"": History(fill_instructions(data, None), slots)}
        run = data.get("run")
        self.run = None if run is None else RUN.validate_python(run)
        if self.run is not None:
            self.run.asked = entry.seq  # a rewind asks again: an answer from before it is not to this question

    def _paused(self, data: Mapping[str, Any], entry: Entry) -> None:
        if self.run is not None:
            self.run.status, self.run.requests, self.run.decisions = "paused", data["requests"], {}
            self.run.asked = entry.seq

    def _decided(self, data: Mapping[str, Any], entry: Entry) -> None:
        if self.run is not None:
            self.run.decisions = {**data["decisions"], **self.run.decisions}  # the first decision on a call counts

    def _run_ended(self, data: Mapping[str, Any], entry: Entry) -> None:
        if self.run is not None:
            self.run.status, self.run.error = data["status"], data.get("error")
            self.run.requests, self.run.decisions = None, {}
            self.keep_prompt()

    def _config_changed(self, data: Mapping[str, Any], entry: Entry) -> None:
        if self.run is not None:
            self.run.digest = data["after"]

    def _deltas(self, data: Mapping[str, Any], entry: Entry) -> None:
        """Do nothing: the message comes as a whole."""


RUN: TypeAdapter[Run] = TypeAdapter(Run)


def fold(stored: Stored) -> Fold:
    """Return the state that a store loaded.

    Raises:
        StoreError: an entry or a row cannot be read.
    """
    state = fold_entries(stored.info, stored.entries)
    state.mail = [*stored.mail]
    for key, row in stored.ledger.items():
        if key.startswith(TAIL):
            path = key.removeprefix(TAIL)
            (state.tails[path],) = ModelMessagesTypeAdapter.validate_json(row)  # type: ignore[assignment]
        else:
            state.effects[key] = read_row(key, row)
    if "" in state.tails and state.run is not None:
        state.run.requests, state.run.decisions = None, {}  # the calls that waited have run
    return state


def fold_entries(info: SessionInfo, entries: Iterable[Entry]) -> Fold:
    """Return the state that entries lead to, without the unfinished step."""
    state = Fold(info)
    for entry in entries:
        state.apply(entry)
    return state


def day_of(at: float) -> str:
    """Return the day of a time, in UTC."""
    return datetime.fromtimestamp(at, UTC).date().isoformat()


def _sum(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sum of what budgets count. A price is a text in JSON."""
    found: dict[str, Any] = {}
    for key in ("requests", "input_tokens", "output_tokens"):
        found[key] = int(one.get(key, 0)) + int(other.get(key, 0))
    found["cost"] = str(Decimal(str(one.get("cost") or 0)) + Decimal(str(other.get("cost") or 0)))
    return {key: value for key, value in found.items() if value not in (0, "0")}


def key_of_response(message: ModelMessage) -> object:
    """Return the key that a run gave to a response; None for a request, or a response of another program."""
    return (message.metadata or {}).get(RESPONSE_KEY) if isinstance(message, ModelResponse) else None


def kept_prompts(messages: Sequence[ModelMessage]) -> Sequence[ModelMessage]:
    """Return the messages of the user at the end that the model has not answered: their runs have ended."""
    at = len(messages)
    while at and KEPT_PROMPT in (messages[at - 1].metadata or {}):
        at -= 1
    return messages[at:]


def is_below(path: str, above: str) -> bool:
    """Whether a path, or the key of a call, is below another path."""
    return path != "" if above == "" else path.startswith(above + "/")
