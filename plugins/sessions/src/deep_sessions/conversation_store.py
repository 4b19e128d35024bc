"""Sessions as Pydantic AI's `ConversationStore`, so that its UI adapters and `conversation=` work on them."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage
from pydantic_ai.usage import RunUsage
from pydantic_core import from_json, to_json

from .entries import encode, messages_entry
from .errors import SessionBusy, SessionNotFound
from .fold import Fold, fold
from .histories import closed
from .journal import base_entry, usage_fields, usage_of
from .reading import entries_of
from .removing import delete
from .store import Commit, Lease, NewEntry, SessionInfo, SessionStore

if TYPE_CHECKING:
    from deep_core import PluginKernel

__all__ = ["SessionConversations"]

KIND = "conversation"
"""The kind of the entry that a save adds after its messages. A fold skips it."""


@dataclass
class _Log:
    """A session, as a conversation.

    Attributes:
        info: the session.
        line: the history.
        entries: id -> entry: of the history, and of all that it left.
        stored: how many messages of the history the journal has; the others close calls that a run left open.
        usage: of all runs.
        branches: the last entries of the histories that it left.
        origin: `forked_from` and `forked_at`.
        revision: changes with each entry.
    """

    info: SessionInfo
    line: list[ConversationEntry] = field(default_factory=list[ConversationEntry])
    entries: dict[str, ConversationEntry] = field(default_factory=dict[str, ConversationEntry])
    stored: int = 0
    usage: RunUsage = field(default_factory=RunUsage)
    branches: list[str] = field(default_factory=list[str])
    origin: dict[str, str] = field(default_factory=dict[str, str])
    revision: str = ""

    @property
    def head(self) -> str | None:
        return self.line[-1].id if self.line else None

    def put(self, at: int, ids: Sequence[str], messages: Sequence[ModelMessage]) -> None:
        """Let the history go on with these messages at an index."""
        del self.line[at:]
        for name, message in zip(ids, messages, strict=True):
            entry = ConversationEntry(id=name, parent_id=self.head, message=message)
            self.line.append(entry)
            self.entries[name] = entry

    def history(self, head: str | None, limit: int | None = None) -> list[ConversationEntry]:
        """Return the entries up to one. Raises KeyError for an unknown id."""
        found: list[ConversationEntry] = []
        while head is not None and (limit is None or len(found) < limit):
            found.append(self.entries[head])
            head = found[-1].parent_id
        return found[::-1]


_last: ContextVar[_Log | None] = ContextVar("deep_sessions_conversation", default=None)
"""The conversation that this task read last: Pydantic AI asks for entries by their id alone, after their record."""


class SessionConversations(ConversationStore):
    """The sessions of a store, as conversations. `open_conversations` makes it.

    The conversation's id is the session's, its scope the owner, its entries the messages. Each read goes through the
    whole journal, which keeps all histories that a conversation left. A run of Pydantic AI's own on a conversation has
    no ledger: its effects can happen twice after a crash.

    Args:
        store: where the sessions are.
        kernel: its plugins erase what they keep of a deleted session.
    """

    def __init__(self, store: SessionStore, kernel: PluginKernel | None = None) -> None:
        self._store = store
        self._kernel = kernel

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return a session's record; None for an unknown one, or one without entries.

        Raises:
            UserError: its run has not ended.
        """
        try:
            log, state = await _read(self._store, conversation_id)
        except SessionNotFound:
            return None
        if state.run is not None and state.run.status == "running":
            raise UserError(
                f"session {conversation_id!r} has a run that has not ended: wait for it, or resume it with "
                "DeepAgent.resume, then load the conversation again"
            )
        _last.set(log)
        return _record(log, state) if log.revision else None

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """Return the records of sessions, the most recently updated first."""
        store, offset = self._store if scope is None else self._store.for_owner(scope), 0
        records: list[ConversationRecord] = []
        while page := await store.list(limit=100, offset=offset):
            offset += len(page)
            for info in page:
                if limit is not None and len(records) >= limit:
                    return records
                try:
                    log, state = await _read(store, info.id)
                except SessionNotFound:  # deleted meanwhile
                    continue
                if log.revision:
                    records.append(_record(log, state))
        return records

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Write the new messages and the record in one transaction. The history that it leaves stays in the journal.

        Raises:
            ConversationConflict: the session changed, runs, or exists, or an entry is unknown.
        """
        source = _last.get()
        async with self._held(record, create=expected_revision is None) as (store, lease):
            log, state = await _read(store, record.conversation_id)
            if (log.revision or None) != expected_revision:
                raise ConversationConflict(record.conversation_id)
            known = {**(source.entries if source else {}), **log.entries, **{entry.id: entry for entry in new_entries}}
            try:
                line = _Log(log.info, entries=known).history(record.head_id)
            except KeyError as error:
                raise ConversationConflict(record.conversation_id) from error
            entries, status = _entries(record, log, state, line)
            await store.commit(
                lease, Commit(entries, drop=[*(await store.load(lease.session_id)).ledger], status=status)
            )

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Erase a session with all its entries."""
        try:
            log, _ = await _read(self._store, conversation_id)
            if log.revision != expected_revision:
                raise ConversationConflict(conversation_id)
            await delete(self._store, conversation_id, kernel=self._kernel)
        except (SessionNotFound, SessionBusy) as error:
            raise ConversationConflict(conversation_id) from error

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return an entry of the conversation that this task read last."""
        return (await self.read_history(entry_id, limit=1))[0]

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """Return the history up to an entry of the conversation that this task read last.

        Raises:
            LookupError: that conversation does not have the entry.
        """
        log = _last.get() or _Log(SessionInfo("", None, "idle", 0.0, 0.0, 0))
        try:
            return log.history(head_id, limit)
        except KeyError as error:
            raise LookupError(f"there is no entry {head_id!r} here: load its conversation first") from error

    @asynccontextmanager
    async def _held(self, record: ConversationRecord, *, create: bool) -> AsyncGenerator[tuple[SessionStore, Lease]]:
        try:
            store = self._store if record.scope is None else self._store.for_owner(record.scope)
            lease = await store.acquire(record.conversation_id, create=create)
        except (SessionBusy, SessionNotFound) as error:
            raise ConversationConflict(record.conversation_id) from error
        except ValueError as error:  # another owner, or an id that cannot be stored
            raise UserError(str(error)) from error
        try:
            yield store, lease
        finally:
            await store.release(lease)


async def _read(store: SessionStore, session_id: str) -> tuple[_Log, Fold]:
    """Read a session's whole journal, as one state of it."""
    while True:
        stored = await store.load(session_id)
        log, state = _Log(stored.info), Fold(stored.info)
        runs: dict[str, RunUsage] = {}
        async for entry in entries_of(store, session_id):
            state.apply(entry)
            if entry.kind == KIND:
                data = from_json(entry.data)
                log.put(at := len(log.line) - len(data["ids"]), data["ids"], [e.message for e in log.line[at:]])
                log.branches, log.origin, log.revision = data["branches"], data["origin"], data["revision"]
                runs = {"": usage_of(data["usage"])}
                continue
            log.revision = f"{stored.info.created_at}.{entry.seq}"
            if state.run is not None:
                runs[state.run.id] = usage_of(state.run.usage)
            _follow(log, state.root.messages, entry.seq, is_rewritten=entry.base)
        if state.seq == stored.info.seq:
            break
    log.usage = sum(runs.values(), RunUsage())
    log.stored = len(log.line)
    state = fold(stored)
    is_paused = state.run is not None and state.run.status == "paused"
    more = (state.messages() if is_paused else closed(state))[log.stored :]
    log.put(log.stored, [f"{session_id}#{state.seq}+{number}" for number in range(len(more))], more)
    return log, state


def _follow(log: _Log, messages: Sequence[ModelMessage], seq: int, *, is_rewritten: bool) -> None:
    """Take up what an entry has changed in the history. What stayed are the same objects."""
    same = 0
    while same < min(len(log.line), len(messages)) and log.line[same].message is messages[same]:
        same += 1
    if is_rewritten and log.head is not None:
        log.branches = [*log.branches, log.head]
    log.put(same, [f"{log.info.id}#{seq}.{number}" for number in range(same, len(messages))], messages[same:])


def _record(log: _Log, state: Fold) -> ConversationRecord:
    return ConversationRecord(
        conversation_id=log.info.id,
        head_id=log.head,
        usage=log.usage,
        deferred_tool_requests=state.run.requests if state.run is not None else None,
        scope=log.info.owner,
        forked_from=log.origin.get("from"),
        forked_at=log.origin.get("at"),
        branches=[*log.branches],
        revision=log.revision,
        updated_at=datetime.fromtimestamp(log.info.updated_at, UTC),
    )


def _entries(
    record: ConversationRecord, log: _Log, state: Fold, line: Sequence[ConversationEntry]
) -> tuple[list[NewEntry], Any]:
    """Return what a save writes, and the session's status after it."""
    new: list[NewEntry] = []
    if state.run is not None and state.run.status == "paused":
        new.append(encode("run_ended", {"status": "completed"}, state.run.id))
    ids, messages = [entry.id for entry in line], [entry.message for entry in line]
    at = log.stored
    if ids[:at] == [entry.id for entry in log.line[:at]]:
        if ids[at:]:
            new.append(messages_entry("", at, messages[at:], {}, None, before=messages[:at]))
    else:
        at = 0
        new.append(base_entry(messages, state.root.slots, None, None))
    requests = record.deferred_tool_requests
    if requests is not None:
        run_id = secrets.token_hex(8)
        new += [encode("run_started", {}, run_id), encode("paused", {"requests": requests}, run_id)]
    about = {
        "ids": ids[at:],
        "revision": record.revision,
        "usage": usage_fields(record.usage),
        "branches": record.branches,
        "origin": {"from": record.forked_from, "at": record.forked_at},
    }
    new.append(NewEntry(KIND, to_json(about)))
    return new, "idle" if requests is None else "awaiting"
