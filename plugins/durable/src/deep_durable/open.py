"""The queue that belongs to a store of sessions."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote
from weakref import WeakKeyDictionary, finalize

from .errors import QueueError
from .queue import Queue

if TYPE_CHECKING:
    from deep_sessions import SessionStore
    from pydantic_ai.messages import UserContent

    from .database import Database

__all__ = ["enqueue", "open_queue"]


def open_queue(store: str | SessionStore, *, silence: float = 10.0) -> Queue:
    """Open the queue that belongs to a store of sessions.

    Args:
        store: the store's URL, as `open_store` of deep-sessions takes it. With `postgresql://…` the queue is in the
            same database; with `sqlite:///path/x.db` in the file `x.queue.db` beside it. Or the open store: whoever
            does not work, but enqueues or looks, then needs no other connection to PostgreSQL.
        silence: seconds without a sign of life after which a worker counts as dead.

    Raises:
        QueueError: no queue belongs to such a store, or a library is not installed.
    """
    return Queue(_open_url(store) if isinstance(store, str) else _open_store(store), silence=silence)


def _open_url(url: str) -> Database:
    address = url.partition("?")[0]
    scheme = address.partition(":")[0].lower()
    if scheme in ("postgresql", "postgres"):
        try:
            from .postgresql import PostgresqlDatabase
        except ImportError as error:
            raise QueueError(
                f"the queue in PostgreSQL needs {error.name}; pip install 'deep-durable[postgresql]'"
            ) from error
        return PostgresqlDatabase(url)
    path = unquote(address[len("sqlite:///") :])
    if address.lower().startswith("sqlite:///") and path not in ("", ":memory:"):
        return _beside(Path(path).expanduser())
    # The URL is not shown: it may contain a password.
    raise _refusal(f"whose URL begins with {scheme[:20]!r}")


def _open_store(store: SessionStore) -> Database:
    from deep_sessions import PostgresqlStore, SqliteStore

    if isinstance(store, SqliteStore):
        return _beside(store.path)
    if isinstance(store, PostgresqlStore):
        from .postgresql import StoresDatabase

        return StoresDatabase(store)
    raise _refusal(f"of the class {type(store).__name__}")


def _beside(path: Path) -> Database:
    from .sqlite import SqliteDatabase

    return SqliteDatabase(path.with_name(f"{path.stem}.queue{path.suffix}"))


def _refusal(which: str) -> QueueError:
    return QueueError(
        f"processes cannot share a store {which}; "
        "use sqlite:///relative.db, sqlite:////absolute/path.db or postgresql://user@host/database"
    )


async def enqueue(
    store: str | SessionStore,
    session_id: str,
    message: str | Sequence[UserContent] | None = None,
    *,
    message_id: str | None = None,
) -> None:
    """Let a worker do what waits in a session.

    Args:
        store: the open store, which costs no connection; or its URL, which opens the store and its queue for this call.
        session_id: the session; with a message, a new one is created.
        message: for the next run of the session.
        message_id: kept with the message, for `Sessions.has_message`: a client that got no answer sends it again.

    Raises:
        SessionSetAside: too many attempts failed. The message waits in the session.
        QueueError: the store or its URL has no queue, or the queue's database cannot be reached.
        AgentError: the store's database cannot be reached.
    """
    if isinstance(store, str):
        from deep_sessions import open_store

        queue = open_queue(store)  # first: it refuses what has no queue
        opened = open_store(store)
        try:
            await _enqueue(opened, queue, session_id, message, message_id)
        finally:
            await queue.aclose()
            await opened.aclose()
        return
    root = store.root
    if root not in _queues:
        database = _open_store(root)
        _queues[root] = Queue(database)
        finalize(root, database.close).atexit = False  # the process ends: the connection ends with it
    await _enqueue(store, _queues[root], session_id, message, message_id)


_queues: WeakKeyDictionary[SessionStore, Queue] = WeakKeyDictionary()
"""The queues of open stores: one for all views of a store."""


async def _enqueue(
    store: SessionStore,
    queue: Queue,
    session_id: str,
    message: str | Sequence[UserContent] | None,
    message_id: str | None,
) -> None:
    from deep_sessions import SessionBusy, write_prompt

    if message is not None:
        with contextlib.suppress(SessionBusy):  # then it exists
            await store.release(await store.acquire(session_id))
        await store.post(session_id, "prompt", write_prompt(message, message_id=message_id))
    await queue.enqueue(session_id)
