"""The queue that belongs to a store of sessions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from .errors import QueueError

if TYPE_CHECKING:
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
