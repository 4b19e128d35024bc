"""Sessions for deep agents: stored, resumed after `kill -9`, forked, and never doing a thing twice.

Importing this module loads neither pydantic nor Pydantic AI: names load on first use, hooks import inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from deep_core import PluginContext, StateSlot

    from .capability import session_capabilities
    from .errors import (
        AgentClosed,
        AgentError,
        DecisionsPending,
        LeaseLost,
        MissingDependencyError,
        NothingToResume,
        NotPending,
        SessionBusy,
        SessionNotFound,
        StoreError,
    )
    from .ledger import effect_key, transaction
    from .runner import Outcome, Runner
    from .store import Commit, Entry, Lease, Mail, NewEntry, SessionInfo, SessionStatus, SessionStore, Stored
    from .stores.memory import MemoryStore
    from .stores.open import open_store
    from .stores.postgresql import PostgresqlStore
    from .stores.sqlite import SqliteStore

__all__ = [
    "AgentClosed",
    "AgentError",
    "Commit",
    "DecisionsPending",
    "Entry",
    "Lease",
    "LeaseLost",
    "Mail",
    "MemoryStore",
    "MissingDependencyError",
    "NewEntry",
    "NotPending",
    "NothingToResume",
    "Outcome",
    "PostgresqlStore",
    "Runner",
    "SessionBusy",
    "SessionInfo",
    "SessionNotFound",
    "SessionStatus",
    "SessionStore",
    "SqliteStore",
    "StoreError",
    "Stored",
    "effect_key",
    "open_store",
    "session_capabilities",
    "transaction",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "errors": [
            "AgentClosed", "AgentError", "DecisionsPending", "LeaseLost", "MissingDependencyError", "NotPending",
            "NothingToResume", "SessionBusy", "SessionNotFound", "StoreError",
        ],
        "store": [
            "Commit", "Entry", "Lease", "Mail", "NewEntry", "SessionInfo", "SessionStatus", "SessionStore", "Stored",
        ],
        "capability": ["session_capabilities"],
        "ledger": ["effect_key", "transaction"],
        "runner": ["Outcome", "Runner"],
        "stores.memory": ["MemoryStore"],
        "stores.open": ["open_store"],
        "stores.postgresql": ["PostgresqlStore"],
        "stores.sqlite": ["SqliteStore"],
    },
)  # fmt: skip


@hookimpl
def deep_state() -> list[StateSlot[Any]]:
    """Add the slot through which tools and subagents reach the journal of their session."""
    from .slot import JOURNAL

    return [JOURNAL]


@hookimpl
def deep_hookspecs() -> list[ModuleType]:
    """Add the hooks through which other plugins add stores, and erase what they keep of a session."""
    from . import hookspecs

    return [hookspecs]


@hookimpl
def deep_session_stores(context: PluginContext) -> Mapping[str, Callable[[str], SessionStore]]:
    """Add the stores `memory:`, `sqlite:` and `postgresql:`."""
    from .stores.open import STORES

    return STORES
