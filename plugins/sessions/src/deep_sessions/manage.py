"""What people do with the conversations of stored sessions: create, export, fork, rewind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from pydantic_ai.messages import ModelMessage, ModelResponse

from deep_core.plugin_api import visible

from .entries import slots_entry
from .errors import AgentError, StoreError
from .events import SHIFT, RunStarted, events_of
from .fold import Fold, Run, fold, fold_entries
from .histories import open_calls
from .journal import base_entry
from .patches import make_patch
from .reading import entries_of
from .removing import lease_of
from .slot import TITLE
from .store import Commit, Entry, NewEntry, SessionStatus, SessionStore

__all__ = ["create", "fork", "load_session", "rename", "rewind", "take_back"]

LONGEST_NAME = 200
"""Most characters of a title that a person gives."""


async def fork(store: SessionStore, session_id: str, *, at: int | None = None, new_id: str | None = None) -> str:
    """Create a session that continues from a state of another one, which stays as it is.

    Calls that have no result yet are cut off.

    Args:
        store: the store of both.
        session_id: the session to fork.
        at: the number of the entry whose state to take; None for the last one.
        new_id: the id of the new session; None for a random one.

    Returns:
        The id of the new session, which has the same owner.

    Raises:
        AgentError: no entry has this number, or `new_id` exists.
    """
    state = await _state(store, session_id, at)
    owner = state.info.owner
    target = store if owner is None else store.for_owner(owner)
    new_id = new_id or uuid4().hex
    await _begin(target, new_id, _base(state))
    return new_id


async def create(
    store: SessionStore,
    session_id: str,
    messages: Sequence[ModelMessage],
    *,
    slots: Mapping[str, Any] | None = None,
    run: Run | None = None,
) -> None:
    """Create a session with a conversation from elsewhere.

    Args:
        store: where to create it.
        session_id: its id.
        messages: the conversation. Calls in it without a result are those that `run.requests` asks about.
        slots: its state, as `SessionState.dump` returns it.
        run: its last run: what it used, its labels, the calls that wait; None for none.

    Raises:
        AgentError: the session exists.
    """
    status: SessionStatus = "awaiting" if run is not None and run.status == "paused" else "idle"
    await _begin(store, session_id, base_entry(messages, slots or {}, run, None if run is None else run.id), status)


async def rename(store: SessionStore, session_id: str, title: str) -> None:
    """Give a session a title, which every interface shows. With "", it has the beginning of its first message again.

    Args:
        store: the store.
        session_id: the session.
        title: the title; white space in it becomes single spaces, and 200 characters are kept.

    Raises:
        SessionBusy: it is running: `Sessions.rename` renames a session that runs in this process.
        SessionNotFound: it does not exist.
    """
    async with lease_of(store, session_id) as lease:
        state = fold(await store.load(session_id))
        after = {"version": TITLE.version, "data": short_title(title)}
        if patch := make_patch(state.root.slots.get(TITLE.name), after):
            await store.commit(lease, Commit([slots_entry({TITLE.name: patch}, None)]))


def short_title(title: str) -> str:
    """Return a title on one line, as it is stored."""
    return visible(" ".join(title.split()))[:LONGEST_NAME]


async def load_session(store: SessionStore, session_id: str) -> Fold:
    """Return what a session is now: its conversation, its last run, and what waits.

    Raises:
        SessionNotFound: it does not exist.
        StoreError: it cannot be read.
    """
    return fold(await store.load(session_id))


async def _begin(store: SessionStore, session_id: str, base: NewEntry, status: SessionStatus = "idle") -> None:
    async with lease_of(store, session_id, create=True) as lease:
        if (await store.info(session_id)).seq:
            raise AgentError(f"session {session_id!r} exists: choose another id")
        await store.commit(lease, Commit([base], status=status))


async def rewind(store: SessionStore, session_id: str, *, to: int) -> int:
    """Set a session back to an earlier state. The entries that came later stay in the journal.

    Calls that have no result at that state are cut off. Decisions that wait for the next run are dropped. The title
    stays.

    Args:
        store: the store.
        session_id: the session.
        to: the number of the entry whose state to take; 0 for before the first.

    Returns:
        The number of the entry that says so.

    Raises:
        AgentError: no entry has this number.
        SessionBusy: the session is running.
    """
    async with lease_of(store, session_id) as lease:
        state = await _state(store, session_id, to) if to else fold_entries(await store.info(session_id), [])
        stored = await store.load(session_id)
        decisions = [mail.id for mail in await store.mail(session_id) if mail.kind == "decision"]
        _keep_title(state, fold(stored))
        return await store.commit(lease, Commit([_base(state)], drop=[*stored.ledger], read=decisions, status="idle"))


async def take_back(store: SessionStore, session_id: str, number: int) -> int:
    """Set a session back to before a message that began a run. See `rewind`.

    Args:
        store: the store.
        session_id: the session.
        number: the number of the event `RunStarted` of the message.

    Returns:
        The number of the entry that says so.

    Raises:
        LookupError: no run began with this event.
        SessionBusy: the session is running.
    """
    entry = number >> SHIFT
    found = await store.entries(session_id, after=max(0, entry - 1), limit=1)
    events = events_of(found[0]) if found and found[0].seq == entry else []
    if not any(isinstance(event, RunStarted) and event.n == number and event.attempt == 1 for event in events):
        raise LookupError(f"no run of the session began with the event {number}")
    return await rewind(store, session_id, to=entry - 1)


def _keep_title(earlier: Fold, now: Fold) -> None:
    earlier.root.slots.pop(TITLE.name, None)
    if TITLE.name in now.root.slots:
        earlier.root.slots[TITLE.name] = now.root.slots[TITLE.name]


async def _state(store: SessionStore, session_id: str, at: int | None) -> Fold:
    """Return the state after an entry."""
    if at is None:
        return await load_session(store, session_id)
    info = await store.info(session_id)
    if not 1 <= at <= info.seq:
        raise AgentError(f"session {session_id!r} has no entry {at}: its entries are 1 to {info.seq}")
    needed: list[Entry] = []
    async for entry in entries_of(store, session_id):
        if entry.seq > at:
            break
        needed = [entry] if entry.base else [*needed, entry]
    _check_whole(session_id, needed, at)
    return fold_entries(info, needed)


def _check_whole(session_id: str, entries: Sequence[Entry], last: int) -> None:
    first = entries[0].seq if entries and entries[0].base else 1
    if missing := set(range(first, last + 1)).difference(entry.seq for entry in entries):
        raise StoreError(
            f"session {session_id}: entry {min(missing)} is damaged; take a state before it, or after a base"
        )


def _base(state: Fold) -> NewEntry:
    source = {"session": state.info.id, "seq": state.seq}
    return base_entry(_without_open_calls(state.messages()), state.root.slots, None, None, source)


def _without_open_calls(messages: list[ModelMessage]) -> list[ModelMessage]:
    if not open_calls(messages):
        return messages
    last = max(index for index, message in enumerate(messages) if isinstance(message, ModelResponse))
    return messages[:last]
