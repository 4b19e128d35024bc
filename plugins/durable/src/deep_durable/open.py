"""The queue that belongs to a store of sessions."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from .errors import QueueError

if TYPE_CHECKING:
    from pydantic_ai.messages import UserContent

    from .queue import Queue

__all__ = ["enqueue", "open_queue"]


def open_queue(store: str, *, silence: float = 10.0) -> Queue:
    """Open the queue that belongs to a store of sessions.

    Args:
        store: the store's URL, as `open_store` of deep-sessions takes it. With `postgresql://…` the queue is in the
            same database; with `sqlite:///path/x.db` in the file `x.queue.db` beside it.
        silence: seconds without a sign of life after which a worker in PostgreSQL counts as dead.

    Raises:
        QueueError: no queue belongs to such a URL, or a library is not installed.
    """
    address = store.partition("?")[0]
    scheme = address.partition(":")[0].lower()
    if scheme in ("postgresql", "postgres"):
        try:
            from .postgresql import PostgresqlQueue
        except ImportError as error:
            raise QueueError(
                f"the queue in PostgreSQL needs {error.name}; pip install 'deep-durable[postgresql]'"
            ) from error
        return PostgresqlQueue(store, silence=silence)
    path = unquote(address[len("sqlite:///") :])
    if address.lower().startswith("sqlite:///") and path not in ("", ":memory:"):
        from .sqlite import SqliteQueue

        file = Path(path).expanduser()
        return SqliteQueue(file.with_name(f"{file.stem}.queue{file.suffix}"))
    # The URL is not shown: it may contain a password.
    raise QueueError(
        f"processes cannot share a store whose URL begins with {scheme[:20]!r}; "
        "use sqlite:///relative.db, sqlite:////absolute/path.db or postgresql://user@host/database"
    )


async def enqueue(store: str, session_id: str, message: str | Sequence[UserContent] | None = None) -> None:
    """Let a worker do what waits in a session.

    Args:
        store: the store's URL.
        session_id: the session; with a message, a new one is created.
        message: for the next run of the session.

    Raises:
        SessionSetAside: too many attempts failed. The message waits in the session.
        QueueError: the URL is wrong, or the queue's database cannot be reached.
        AgentError: the store's database cannot be reached.
    """
    queue = open_queue(store)
    try:
        if message is not None:
            await _post(store, session_id, message)
        await queue.enqueue(session_id)
    finally:
        await queue.aclose()


async def _post(store: str, session_id: str, message: str | Sequence[UserContent]) -> None:
    from deep_sessions import SessionBusy, open_store, write_prompt

    sessions = open_store(store)
    try:
        with contextlib.suppress(SessionBusy):  # then it exists
            await sessions.release(await sessions.acquire(session_id))
        await sessions.post(session_id, "prompt", write_prompt(message))
    finally:
        await sessions.aclose()
