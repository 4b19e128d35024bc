"""Erase stored sessions: one, or all but some. Messages are not read, so this loads no Pydantic AI."""

from __future__ import annotations

import shutil
import time
from asyncio import to_thread
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from deep_core.plugin_api import folder_name

from .errors import SessionBusy
from .store import Lease, SessionInfo, SessionStore

if TYPE_CHECKING:
    from deep_core import PluginKernel

__all__ = ["delete", "lease_of", "retain"]

PAGE = 500


async def delete(
    store: SessionStore, session_id: str, *, kernel: PluginKernel | None = None, roots: Iterable[Path] = ()
) -> None:
    """Erase a session, its folders, and what plugins keep of it. A deletion that was interrupted can be repeated.

    Args:
        store: the store.
        session_id: the session.
        kernel: its plugins' folders of the session are removed, and they are notified by `deep_session_deleted`.
        roots: folders with a folder for each session, such as the root of a `SessionManager`.

    Raises:
        SessionBusy: it is running.
        SessionNotFound: it does not exist.
    """
    # The session goes last: what an interruption leaves can then still be deleted by its id.
    async with lease_of(store, session_id):
        if kernel is not None:
            context = kernel.context
            await kernel.caller.notify(
                "deep_session_deleted",
                lambda plugin: {"session_id": session_id, "context": context(plugin)},
                among=kernel.active,
            )
            roots = [*roots, *(kernel.data_dir / "plugins").glob("*/sessions")]
        for root in roots:
            folder = root / folder_name(session_id)
            if folder.is_dir() and not folder.is_symlink():
                await to_thread(shutil.rmtree, folder)
    await store.delete(session_id)


async def retain(
    store: SessionStore,
    *,
    older_than: float | None = None,
    keep: int | None = None,
    kernel: PluginKernel | None = None,
    roots: Iterable[Path] = (),
) -> list[str]:
    """Delete old sessions. Sessions that run stay.

    Args:
        store: the store; of one that was opened for an owner, only that owner's sessions.
        older_than: delete sessions whose last entry is older than this many seconds.
        keep: delete all but the latest ones.
        kernel: as in `delete`.
        roots: as in `delete`.

    Returns:
        The ids of the deleted sessions.
    """
    if older_than is None and keep is None:
        raise ValueError("retain() needs older_than= or keep=: without them it would delete nothing, or everything")
    before = None if older_than is None else time.time() - older_than
    sessions = [info async for info in _sessions(store)]
    deleted: list[str] = []
    for place, info in enumerate(sessions):
        if (before is not None and info.updated_at < before) or (keep is not None and place >= keep):
            try:
                await delete(store, info.id, kernel=kernel, roots=roots)
            except SessionBusy:
                continue
            deleted.append(info.id)
    return deleted


@asynccontextmanager
async def lease_of(store: SessionStore, session_id: str, *, create: bool = False) -> AsyncGenerator[Lease]:
    """Hold the lease of a session."""
    lease = await store.acquire(session_id, create=create)
    try:
        yield lease
    finally:
        await store.release(lease)


async def _sessions(store: SessionStore) -> AsyncIterator[SessionInfo]:
    offset = 0
    while page := await store.list(limit=PAGE, offset=offset):
        offset += len(page)
        for info in page:
            yield info
