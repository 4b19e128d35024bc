"""Workers for deep agents: a queue of sessions to resume, on SQLite or PostgreSQL.

Importing this module loads neither pydantic nor Pydantic AI nor a library of queues: names load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_core import lazy_exports

if TYPE_CHECKING:
    from .errors import QueueError, SessionSetAside
    from .jobs import Again, Done, Failed, Job, Outage, Patience, Waits, WorkerInfo
    from .open import enqueue, open_queue
    from .queue import Queue
    from .worker import Worker, finish

__all__ = [
    "Again",
    "Done",
    "Failed",
    "Job",
    "Outage",
    "Patience",
    "Queue",
    "QueueError",
    "SessionSetAside",
    "Waits",
    "Worker",
    "WorkerInfo",
    "enqueue",
    "finish",
    "open_queue",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "errors": ["QueueError", "SessionSetAside"],
        "open": ["enqueue", "open_queue"],
        "jobs": ["Again", "Done", "Failed", "Job", "Outage", "Patience", "Waits", "WorkerInfo"],
        "queue": ["Queue"],
        "worker": ["Worker", "finish"],
    },
)
