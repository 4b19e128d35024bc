"""The queue that belongs to a store of sessions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .errors import QueueError

if TYPE_CHECKING:
    from .queue import Queue

__all__ = ["enqueue", "open_queue"]


def open_queue(store: str) -> Queue:
    """Open the queue that belongs to a store of sessions.

    Args:
        store: the store's URL. With `postgresql://…` the queue is in the same database; with `sqlite:///path/x.db` in
            the file `x.queue.db` beside it.

    Raises:
        QueueError: no queue belongs to such a URL, or a library is not installed.
    """
    scheme, _, rest = store.partition("://")
    if scheme == "postgresql":
        try:
            from .postgresql import PostgresqlQueue
        except ImportError as error:
            raise QueueError(
                f"{_shown(store)}: the queue needs {error.name}; pip install 'deep-durable[postgresql]'"
            ) from error
        return PostgresqlQueue(store)
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        from .sqlite import SqliteQueue

        path = Path(rest[1:])
        return SqliteQueue(path.with_name(f"{path.stem}.queue{path.suffix}"))
    raise QueueError(
        f"{_shown(store)}: workers share no such store; use sqlite:///path or postgresql://user@host/database"
    )


async def enqueue(store: str, session_id: str) -> None:
    """Let a worker resume a session: `open_queue(store)`, `enqueue`, `aclose`.

    Raises:
        SessionSetAside: too many attempts failed.
        QueueError: the URL is wrong, or the database cannot be reached.
    """
    queue = open_queue(store)
    try:
        await queue.enqueue(session_id)
    finally:
        await queue.aclose()


def _shown(url: str) -> str:
    """Return a URL without its password."""
    scheme, slashes, rest = url.partition("://")
    user, at, place = rest.rpartition("@")
    return f"{scheme}{slashes}{user.partition(':')[0]}{at}{place}"
