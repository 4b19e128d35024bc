"""Sessions for deep agents: stored, resumed after `kill -9`, forked, and never doing a thing twice.

Importing this module loads neither pydantic nor Pydantic AI: names load on first use, hooks import inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_core import lazy_exports

if TYPE_CHECKING:
    from .errors import (
        AgentClosed,
        AgentError,
        LeaseLost,
        MissingDependencyError,
        NothingToResume,
        NotPending,
        SessionBusy,
        SessionNotFound,
        StoreError,
    )
    from .store import Commit, Entry, Lease, Mail, NewEntry, SessionInfo, SessionStatus, SessionStore, Stored
    from .stores.memory import MemoryStore

__all__ = [
    "AgentClosed",
    "AgentError",
    "Commit",
    "Entry",
    "Lease",
    "LeaseLost",
    "Mail",
    "MemoryStore",
    "MissingDependencyError",
    "NewEntry",
    "NotPending",
    "NothingToResume",
    "SessionBusy",
    "SessionInfo",
    "SessionNotFound",
    "SessionStatus",
    "SessionStore",
    "StoreError",
    "Stored",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "errors": [
            "AgentClosed", "AgentError", "LeaseLost", "MissingDependencyError", "NotPending", "NothingToResume",
            "SessionBusy", "SessionNotFound", "StoreError",
        ],
        "store": [
            "Commit", "Entry", "Lease", "Mail", "NewEntry", "SessionInfo", "SessionStatus", "SessionStore", "Stored",
        ],
        "stores.memory": ["MemoryStore"],
    },
)  # fmt: skip
