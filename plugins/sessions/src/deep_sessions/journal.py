"""What a run under a lease writes: a commit at each settled boundary, and around each effect."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from operator import eq, is_
from typing import Any, Literal, Protocol

from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai.usage import RunUsage

from deep_core import SessionState

from .entries import dump_messages, labels_of_mail, messages_entry, read_prompt, slots_entry
from .errors import AgentError, StoreError
from .fold import RUN, Fold, History, Run, is_below, key_of_response
from .ledger_rows import EffectRow, tail_key, write_row
from .patches import common_start, make_patch
from .plain import KEPT, STEER, slots_of
from .slot import ASIDE, CALL
from .store import Commit, Entry, Lease, Mail, NewEntry, SessionStatus, SessionStore

__all__ = ["LABELS", "ChildRun", "Journal", "Tap", "base_entry", "session_of", "usage_of"]

SOON = 0.005
"""Seconds that a response, or the result of an effect, waits for another commit.

A crash in this time loses the response, or makes the effect unknown.
"""

LABELS = "deep_labels"
"""Where it has the labels of that mail."""


class Tap(Protocol):
    """What receives the events of the runs of this process."""

    def committed(self, session_id: str, entries: Sequence[Entry]) -> None:
        """Receive entries that were written."""

    def live(self, session_id: str, seq: int, kind: str, **fields: Any) -> None:
        """Receive what happened after the entry `seq`: the kind and the fields of an event."""


@dataclass(frozen=True)
class ChildRun:
    """A subagent's run that a crash interrupted.

    Attributes:
        messages: its conversation.
        slots: the slots of its session.
    """

    messages: Sequence[ModelMessage]
    slots: Mapping[str, Any]

    def session(self, caller: SessionState) -> SessionState:
        """Return the subagent's session."""
        return session_of(self.slots, caller)


class Journal:
    """The journal of a session, for one attempt to run it.

    Args:
        store: where it is written.
        lease: the right to write.
        state: the session as it was loaded. The journal keeps it up to date.
        run_id: the run.
        tap: receives what is written.
    """

    def __init__(self, store: SessionStore, lease: Lease, state: Fold, run_id: str, tap: Tap | None = None) -> None:
        self.store = store
        self.lease = lease
        self.state = state
        self.run_id = run_id
        self.phase: Literal["preparing", "model_running", "tool_running"] = "preparing"
        """What the agent does now."""
        self.tap = tap
        self.enqueue: Callable[[ModelRequest], object] | None = None
        """Adds a request to the run under way; None before its first step."""
        self.stops: list[int] = []
        """The mail that asks the run to stop."""
        self._late: list[tuple[str, dict[str, Any]]] = []
        """What happened after a response that is not written yet: watchers hear of the response first."""
        self._steering: dict[int, Mail] = {}
        self._steered: set[int] = set()
        self.effects = state.effects
        """The ledger's rows, by key."""
        for history in state.histories.values():
            history.joined = False
        self._soon: Commit | None = None
        """What the next commit also writes."""
        self._rows: dict[str, EffectRow] = {}
        """Rows that it writes before, unless it drops them."""
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Future[None] | None = None
        self.failure: AgentError | None = None
        """Why the journal cannot be written any more."""
        self._lock = asyncio.Lock()  # subagents that work side by side write too

    # -- boundaries ----------------------------------------------------------------------------------------------------

    async def settle(
        self,
        path: str,
        messages: Sequence[ModelMessage],
        session: SessionState,
        usage: RunUsage,
        *,
        results: ModelRequest | None = None,
        entries: Sequence[NewEntry] = (),
        status: SessionStatus | None = None,
        agent: str = "",
    ) -> None:
        """Write a settled step, in one transaction.

        Args:
            path: of the conversation.
            messages: the conversation.
            session: its session.
            usage: of the run so far.
            results: of a batch of tools. Pydantic AI still completes them before the next request, so they are written
                as provisional, and the conversation only if it is not in the journal yet.
            entries: further entries.
            status: the session's new status.
            agent: the name of the subagent, if it is one.
        """
        history = self.state.histories.setdefault(path, History())
        new: list[NewEntry] = []
        slots: dict[str, Any] | None = None
        if results is None or not history.joined:
            slots = slots_of(session)
            new = self._new(path, history, messages, slots, usage, agent)
        settled = [*messages]

        def apply() -> None:
            if slots is not None:
                history.messages, history.slots, history.joined = settled, slots, True
            self.state.settled(path)
            if results is not None:
                self.state.tails[path] = results
            if status == "awaiting" and self.state.run is not None:
                self.state.run.asked = self.state.seq  # the entry `paused` is the last one of its commit

        put: dict[str, bytes] = {}
        drop = [*map(tail_key, self._tails(path)), *self._effects(path)]
        if results is not None:
            put = {tail_key(path): dump_messages([results])}
            drop = [key for key in drop if key not in put]
        read = [number for message in messages[-3:] if (number := self._steer_id(message))]
        commit = Commit([*new, *entries], put, drop, read, status)
        if results is None and not entries and self.failure is None:
            # A response. The first effect that it asks for is committed before it runs, and the response with it.
            apply()
            self._add(commit)
        else:
            await self._commit(commit, apply)

    def _new(
        self,
        path: str,
        history: History,
        messages: Sequence[ModelMessage],
        slots: Mapping[str, Any],
        usage: RunUsage,
        agent: str,
    ) -> list[NewEntry]:
        at = _common(history, messages)
        changed = _changes(history.slots, slots)
        spent = usage_fields(usage)
        if self.state.run is not None:
            self.state.run.usage = spent
            self.state.run.count(path, history.messages[at:], messages[at:])
            if path == "":
                self.state.run.progressed(messages[at:])
        added = None if at == len(history.messages) else _count_new(history.messages, messages)
        if path == "" and at < len(history.messages) - 1:  # a compaction: loading begins here
            return [base_entry(messages, slots, self.state.run, self.run_id, new=added)]
        if at == len(history.messages) == len(messages) and not changed:
            return []
        more: dict[str, Any] = {"usage": spent, "before": messages[:at], "agent": agent, "new": added}
        return [messages_entry(path, at, messages[at:], changed, self.run_id, **more)]

    async def write(self, *entries: NewEntry, read: Sequence[int] = (), status: SessionStatus | None = None) -> None:
        """Write entries."""
        await self._commit(Commit(entries, read=read, status=status))

    async def write_slots(self, slots: Mapping[str, Any]) -> None:
        """Write changes of the agent's state beside the steps: name -> what is stored; None for a slot that is gone."""
        root = self.state.root
        changed = _changes({name: root.slots[name] for name in slots if name in root.slots}, _without_none(slots))
        if changed:
            await self._commit(Commit([slots_entry(changed, self.run_id or None)]), lambda: root.patch(changed))

    def unfinished_child(self) -> ChildRun | None:
        """Return the subagent's run that an earlier attempt began in the call that runs now; None if it began none."""
        path = CALL.get()
        history = self.state.histories.get(path)
        return None if history is None else ChildRun(self.state.messages(path), history.slots)

    @contextmanager
    def aside(self) -> Generator[None]:
        """Write nothing of the subagent that runs in this block: it outlives its call, whose end would settle it.

        Its budgets count. Its effects are not in the ledger, so whoever starts it must not run it again after a crash.
        """
        token = ASIDE.set(True)
        try:
            yield
        finally:
            ASIDE.reset(token)

    def tell(self, kind: str, **fields: Any) -> None:
        """Tell watchers what happened, after all that happened before."""
        self._late.append((kind, fields))
        if self._soon is None:
            self._tell_late()

    def _tell_late(self) -> None:
        late, self._late = self._late, []
        if self.tap is not None:
            for kind, fields in late:
                self.tap.live(self.lease.session_id, self.state.seq, kind, **fields)

    # -- messages to the run -------------------------------------------------------------------------------------------

    def steer(self, mail: Mail) -> None:
        """Add a message to the next request. Its mail is read once the journal has that request."""
        if mail.id not in self._steered:
            self._steering[mail.id] = mail
            self.deliver()

    def deliver(self) -> None:
        """Hand the messages that came to the run, if it has begun."""
        if self.enqueue is None:
            return
        waiting, self._steering = self._steering, {}
        for number, mail in sorted(waiting.items()):
            self._steered.add(number)
            with suppress(UserError):  # the run has ended: the mail stays, and becomes the next message
                about = {STEER: number, LABELS: {**labels_of_mail(mail.data)}}
                self.enqueue(ModelRequest([UserPromptPart(read_prompt(mail.data))], metadata=about))

    def _steer_id(self, message: ModelMessage) -> int | None:
        number = (message.metadata or {}).get(STEER)
        return number if number in self._steered else None

    # -- effects -------------------------------------------------------------------------------------------------------

    async def put(self, key: str, row: EffectRow) -> None:
        """Write a row of the ledger."""
        await self._commit(Commit(put={key: write_row(row)}), lambda: self.effects.update({key: row}))

    def put_soon(self, key: str, row: EffectRow) -> None:
        """Write a row with the next commit, or after `SOON`. Often the batch ends by then, and needs no row."""
        self.effects[key] = self._rows[key] = row
        self._add(Commit())

    def _add(self, late: Commit) -> None:
        """Write something with the next commit, or after `SOON`."""
        self._soon = late if self._soon is None else joined(self._soon, late)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SOON, self._flush_soon)

    def _flush_soon(self) -> None:
        self._flushing = asyncio.ensure_future(self.flush())
        self._flushing.add_done_callback(_seen)  # the next commit raises it

    async def flush(self) -> None:
        """Write what waits."""
        if self._soon is not None and self.failure is None:
            with suppress(AgentError):  # the next commit raises it
                await self._commit(Commit())

    async def drop(self, key: str) -> None:
        """Remove a row of the ledger: the call waits, and has not run."""
        await self._commit(Commit(drop=[key]), lambda: self.effects.pop(key, None))

    # ------------------------------------------------------------------------------------------------------------------

    async def _commit(self, commit: Commit, apply: Callable[[], object] = lambda: None) -> None:
        """Commit, then apply the same to the state: both, or neither, also where the run is cancelled meanwhile."""
        if not self._lock.locked() and self._commit_now(commit, apply):
            return
        task = asyncio.ensure_future(self._wait_and_commit(commit, apply))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            _seen(task)
            raise

    def _commit_now(self, commit: Commit, apply: Callable[[], object]) -> bool:
        """Commit if the store need not wait; return whether it did."""
        whole = self._with_soon(commit)
        with self._failing():
            seq = self.store.commit_now(self.lease, whole)
        if seq is None:
            return False
        self._wrote(whole, seq, self._forget_soon(), apply)
        return True

    async def _wait_and_commit(self, commit: Commit, apply: Callable[[], object]) -> None:
        async with self._lock:
            whole = self._with_soon(commit)
            earlier = self._forget_soon()
            with self._failing():
                seq = await self.store.commit(self.lease, whole)
            self._wrote(whole, seq, earlier, apply)

    def _with_soon(self, commit: Commit) -> Commit:
        """Return a commit with what waits for the next one."""
        if self._soon is None:
            return commit
        commit = joined(self._soon, commit)
        known = {*commit.drop, *commit.put}
        rows = {key: write_row(row) for key, row in self._rows.items() if key not in known}
        return replace(commit, put={**rows, **commit.put}) if rows else commit

    def _forget_soon(self) -> int:
        """Forget what waits; return how many entries it had."""
        soon, self._soon, self._rows = self._soon, None, {}
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return 0 if soon is None else len(soon.entries)

    @contextmanager
    def _failing(self) -> Generator[None]:
        """Remember what fails: the kernel shows a tool's exception to the model, and this one must end the run."""
        if self.failure is not None:
            raise self.failure
        try:
            yield
        except Exception as error:
            self.failure = error if isinstance(error, AgentError) else StoreError(f"the store failed: {error!r}")
            raise

    def _wrote(self, commit: Commit, seq: int, earlier: int, apply: Callable[[], object]) -> None:
        """Apply a commit to the state, and tell watchers.

        Args:
            commit: what was written.
            seq: the number of its last entry.
            earlier: how many of its entries waited: watchers hear of these before what happened since.
            apply: changes the state.
        """
        self.state.seq = seq
        apply()
        if self.tap is not None and commit.entries:
            entries = numbered(commit.entries, seq - len(commit.entries) + 1)
            self._committed(entries[:earlier])
            self._tell_late()
            self._committed(entries[earlier:])
        else:
            self._tell_late()

    def _committed(self, entries: Sequence[Entry]) -> None:
        if self.tap is not None and entries:
            self.tap.committed(self.lease.session_id, entries)

    def _tails(self, path: str) -> list[str]:
        return [other for other in self.state.tails if other == path or is_below(other, path)]

    def _effects(self, path: str) -> list[str]:
        return [key for key in self.state.effects if is_below(key, path)]


def _seen(task: asyncio.Future[None]) -> None:
    """Keep asyncio from logging an exception that `Journal.failure` has."""
    if not task.cancelled():
        task.exception()


def joined(first: Commit, second: Commit) -> Commit:
    """Return one commit that does what two do, one after the other."""
    dropped = {*first.drop, *second.drop}
    put = {key: row for key, row in first.put.items() if key not in dropped}
    return Commit(
        [*first.entries, *second.entries],
        {**put, **second.put},
        [*(key for key in first.drop if key not in second.put), *second.drop],
        [*first.read, *second.read],
        second.status or first.status,
    )


def numbered(entries: Sequence[NewEntry], first: int) -> list[Entry]:
    """Return entries that were just written, as a store would."""
    now = time.time()
    return [
        Entry(new.kind, new.data, new.run_id, new.version, new.base, seq, now) for seq, new in enumerate(entries, first)
    ]


def base_entry(
    messages: Sequence[ModelMessage],
    slots: Mapping[str, Any],
    run: Run | None,
    run_id: str | None,
    source: Mapping[str, Any] | None = None,
    new: int | None = None,
) -> NewEntry:
    """Return an entry with a session's whole state."""
    more = {"run": None if run is None else RUN.dump_python(run, mode="json", exclude_none=True)}
    if source is not None:
        more["source"] = {**source}
    whole = {name: make_patch(None, stored) for name, stored in slots.items()}
    return messages_entry("", 0, messages, whole, run_id, new=new, base=more)


def session_of(slots: Mapping[str, Any], parent: SessionState | None = None) -> SessionState:
    """Return a session with the slots that the journal has; a subagent's, if it has a parent."""
    kept = {name.removeprefix(KEPT): stored for name, stored in slots.items() if name.startswith(KEPT)}
    own = {name: stored for name, stored in slots.items() if not name.startswith(KEPT)}
    return SessionState(stored=own, kept=kept, parent=parent)


def usage_fields(usage: RunUsage) -> dict[str, Any]:
    """Return the fields of a usage that are not 0."""
    return {name: value for name, value in vars(usage).items() if value}


def usage_of(fields: Mapping[str, Any]) -> RunUsage:
    """Return a usage from the fields that the journal has. JSON has its price as a text."""
    values = {**fields}
    if values.get("cost") is not None:
        values["cost"] = Decimal(str(values["cost"]))
    return RunUsage(**values)


def _common(history: History, now: Sequence[ModelMessage]) -> int:
    """Return how many messages at the start are those in the journal.

    The messages of a run keep their identity. Those of a run that continues a loaded history are equal at first.
    """
    return common_start(history.messages, now, is_ if history.joined else eq)


def _without_none(slots: Mapping[str, Any]) -> dict[str, Any]:
    return {name: stored for name, stored in slots.items() if stored is not None}


def _count_new(old: Sequence[ModelMessage], now: Sequence[ModelMessage]) -> int:
    """Return how many messages at the end of a rewritten conversation are new: what a compaction put before is not."""
    keys = {key for message in old if (key := key_of_response(message)) is not None}
    at = next((at for at in range(len(now), 0, -1) if key_of_response(now[at - 1]) in keys), max(0, len(now) - 2))
    while at < len(now) and now[at] in old:
        at += 1
    return len(now) - at


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{name: make_patch(before.get(name), stored) for name, stored in now.items() if before.get(name) != stored},
        **{name: None for name in before if name not in now},
    }
