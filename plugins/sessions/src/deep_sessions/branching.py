"""Sessions that go on from an earlier state: a fork, or one that is set back. It copies JSON; no Pydantic AI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from .errors import AgentError, StoreError
from .plain import Said, base_of, read_said, said_by
from .reading import TITLE, entries_of
from .removing import lease_of
from .store import Commit, Entry, NewEntry, SessionStatus, SessionStore

__all__ = ["begin", "fork", "rewind"]


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
    state = read_said(await store.load(session_id)) if at is None else await _state(store, session_id, at)
    owner = state.info.owner
    target = store if owner is None else store.for_owner(owner)
    new_id = new_id or uuid4().hex
    await begin(target, new_id, _base(state))
    return new_id


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
        state = await _state(store, session_id, to) if to else Said(await store.info(session_id))
        stored = await store.load(session_id)
        decisions = [mail.id for mail in stored.mail if mail.kind == "decision"]
        state.slots.pop(TITLE, None)
        if (title := said_by(stored.info, stored.entries).slots.get(TITLE)) is not None:
            state.slots[TITLE] = title
        return await store.commit(lease, Commit([_base(state)], drop=[*stored.ledger], read=decisions, status="idle"))


async def begin(store: SessionStore, session_id: str, base: NewEntry, status: SessionStatus = "idle") -> None:
    """Create a session with its whole state. Raises AgentError if it exists."""
    async with lease_of(store, session_id, create=True) as lease:
        if (await store.info(session_id)).seq:
            raise AgentError(f"session {session_id!r} exists: choose another id")
        await store.commit(lease, Commit([base], status=status))


async def _state(store: SessionStore, session_id: str, at: int) -> Said:
    """Return the state after an entry."""
    info = await store.info(session_id)
    if not 1 <= at <= info.seq:
        raise AgentError(f"session {session_id!r} has no entry {at}: its entries are 1 to {info.seq}")
    needed: list[Entry] = []
    async for entry in entries_of(store, session_id):
        if entry.seq > at:
            break
        needed = [entry] if entry.base else [*needed, entry]
    _check_whole(session_id, needed, at)
    return said_by(info, needed)


def _check_whole(session_id: str, entries: Sequence[Entry], last: int) -> None:
    first = entries[0].seq if entries and entries[0].base else 1
    if missing := set(range(first, last + 1)).difference(entry.seq for entry in entries):
        raise StoreError(
            f"session {session_id}: entry {min(missing)} is damaged; take a state before it, or after a base"
        )


def _base(state: Said) -> NewEntry:
    return base_of(
        _without_open_calls(state.messages), state.slots, source={"session": state.info.id, "seq": state.seq}
    )


def _without_open_calls(messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Cut off the last response if one of its calls has no result, as `histories.open_calls` says."""
    calls, last = set[str](), 0
    for index, message in enumerate(messages):
        parts: Sequence[Mapping[str, Any]] = message["parts"]
        if message["kind"] == "response":
            calls, last = {part["tool_call_id"] for part in parts if part["part_kind"] == "tool-call"}, index
        else:
            calls -= {str(part.get("tool_call_id")) for part in parts if part["part_kind"] in _RESULTS}
    return messages[:last] if calls else messages


_RESULTS = ("tool-return", "retry-prompt")
