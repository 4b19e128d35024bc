"""Open a store by its URL, and a store as Pydantic AI's conversations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote

from deep_core import ConfigError, PluginKernel, default_kernel
from deep_core.plugin_api import suggest

from ..errors import UsageError
from ..store import SessionStore

if TYPE_CHECKING:
    from pydantic_ai.conversation_store import ConversationStore

__all__ = ["STORES", "default_store", "open_conversations", "open_store"]

# No message here shows a URL: it may contain a password.


def default_store() -> str:
    """Return the URL of the user's own store: `sessions.db` in deep's data folder."""
    from platformdirs import user_data_path

    return f"sqlite:///{user_data_path('deep') / 'sessions.db'}"


def open_store(url: str, *, owner: str | None = None, kernel: PluginKernel | None = None) -> SessionStore:
    """Open a store of sessions.

    Args:
        url: `memory:`, `sqlite:///relative.db`, `sqlite:////absolute/path.db?durability=full`, `postgresql://…`, or the
            URL of a plugin's store.
        owner: the store shows only this owner's sessions, and creates sessions for it; None for all.
        kernel: whose plugins add stores; None for the kernel of the process, which only other URLs need.

    Raises:
        ConfigError: the URL is wrong, or no plugin adds its scheme.
        MissingExtra: the store needs a distribution that is not installed.
    """
    scheme = url.partition(":")[0].lower()
    stores = STORES if kernel is None and scheme in STORES else _stores(kernel or default_kernel())
    if scheme not in stores or ":" not in url:
        known = ", ".join(f"{name}:" for name in sorted(stores))
        hint = suggest(scheme, stores) or " For a file write sqlite:///sessions.db."
        raise ConfigError(
            f"no store of sessions has URLs that begin with {scheme[:20]!r}: there are {known}.{hint} "
            "Other stores come with plugins: pip install the one that you need"
        )
    store = stores[scheme](url)
    return store if owner is None else store.for_owner(owner)


def open_conversations(store: SessionStore, *, kernel: PluginKernel | None = None) -> ConversationStore:
    """Return a view of a store for Pydantic AI's UI adapters and `conversation=`.

    Args:
        store: the store.
        kernel: its plugins erase what they keep of a conversation that is deleted.

    Raises:
        UsageError: Pydantic AI is older than 2.66.
    """
    try:
        from ..conversation_store import SessionConversations
    except ImportError as error:
        raise UsageError(
            "open_conversations() needs Pydantic AI 2.66 or newer: pip install --upgrade 'pydantic-ai-slim>=2.66'"
        ) from error
    return SessionConversations(store, kernel)


def _stores(kernel: PluginKernel) -> Mapping[str, Callable[[str], SessionStore]]:
    found = kernel.caller.collect(
        "deep_session_stores",
        lambda plugin: {"context": kernel.context(plugin)},
        among=kernel.active,
        drop=kernel.leave_out,
    )
    kernel.check_unique("store of sessions", [(item.value[0], item.plugin) for item in found])
    return dict(item.value for item in found)


def _open_memory(url: str) -> SessionStore:
    from .memory import MemoryStore

    return MemoryStore()


def _open_sqlite(url: str) -> SessionStore:
    from .sqlite import SqliteStore

    address, _, query = url.partition("?")
    path = unquote(address.partition("://")[2].removeprefix("/"))
    if not address.lower().startswith("sqlite:///") or not path or path == ":memory:":
        raise ConfigError(
            "a SQLite store has the URL sqlite:///relative.db or sqlite:////absolute/path.db; one in memory has memory:"
        )
    options = dict(parse_qsl(query, keep_blank_values=True))
    durability = options.pop("durability", "normal")
    if durability not in ("normal", "full"):
        raise ConfigError(f"sqlite:///…?durability={durability}: write normal or full")
    if options:
        name = min(options)
        raise ConfigError(f"sqlite:///…?{name}=…: there is no such option.{suggest(name, ['durability'])}")
    return SqliteStore(Path(path).expanduser(), durability=durability)


def _open_postgresql(url: str) -> SessionStore:
    from .postgresql import PostgresqlStore

    return PostgresqlStore(url)


STORES: Mapping[str, Callable[[str], SessionStore]] = {
    "memory": _open_memory,
    "postgres": _open_postgresql,
    "postgresql": _open_postgresql,
    "sqlite": _open_sqlite,
}
"""The stores of this package."""
