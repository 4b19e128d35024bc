"""What people do with the conversations of stored sessions: create, load, name, take back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_ai.messages import ModelMessage

from deep_core.plugin_api import visible

from .branching import begin, rewind
from .entries import slots_entry
from .events import SHIFT, RunStarted, events_of
from .fold import Fold, Run, fold
from .journal import base_entry
from .patches import make_patch
from .removing import lease_of
from .slot import TITLE
from .store import Commit, SessionStatus, SessionStore

__all__ = ["create", "load_session", "rename", "take_back"]

LONGEST_NAME = 200
"""Most characters of a title that a person gives."""


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
    # Without the run's id, as of no run: its events are those of the whole conversation.
    await begin(store, session_id, base_entry(messages, slots or {}, run, None), status)


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
