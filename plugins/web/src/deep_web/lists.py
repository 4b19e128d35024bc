"""Tell pages that the list of an owner's sessions changed, also by other processes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from deep_sessions import StoreError

from .state import described, status_of

if TYPE_CHECKING:
    from deep_sessions import SessionInfo

    from .site import Site

__all__ = ["ListWatch", "Lists"]

LOOK = 1.0
"""Seconds between two looks at the store."""
MOST = 200
"""Sessions that are looked at: the last that changed."""


class Lists:
    """The lists of all owners.

    Args:
        site: where the sessions are.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._of: dict[str | None, _List] = {}

    def of(self, owner: str | None) -> ListWatch:
        """Return a watch on an owner's list."""
        return ListWatch(self, owner)

    def enter(self, owner: str | None) -> _List:
        """Take part in the looking at a list."""
        found = self._of.setdefault(owner, _List(self._site, owner))
        found.watchers += 1
        return found

    def leave(self, owner: str | None) -> None:
        """End that."""
        found = self._of[owner]
        found.watchers -= 1
        if not found.watchers:
            found.close()
            del self._of[owner]

    def ring(self, owner: str | None) -> None:
        """Tell that an owner's list changed."""
        if owner in self._of:
            self._of[owner].ring()


class _List:
    def __init__(self, site: Site, owner: str | None) -> None:
        self.watchers = 0
        self.bell = asyncio.Event()
        self.version = 0
        self._site = site
        self._owner = owner
        self._seen: list[Any] | None = None
        self._looking = asyncio.ensure_future(self._look())

    def ring(self) -> None:
        """Wake the watchers."""
        self.version += 1
        self.bell.set()
        self.bell = asyncio.Event()

    def close(self) -> None:
        """Stop looking."""
        self._looking.cancel()

    async def _look(self) -> None:
        while True:
            try:
                infos = await self._site.store_of(self._owner).list(limit=MOST)
            except StoreError:  # the pages learn it from what they ask for
                infos = None
            if infos is not None:
                # Each step of a run changes its session, and nothing in the list.
                shown = [each for each in infos if self._site.shows(each)]
                now = [(each.id, status_of(each), 0 if each.holder else each.seq) for each in shown]
                if self._seen is not None and now != self._seen:
                    self.ring()
                self._seen = now
            await asyncio.sleep(LOOK)


class ListWatch:
    """A watch on one list, from its making to `close`."""

    def __init__(self, lists: Lists, owner: str | None) -> None:
        self._lists = lists
        self._owner = owner
        self._list = lists.enter(owner)
        self._version = self._list.version

    def close(self) -> None:
        """End the watch."""
        self._lists.leave(self._owner)

    async def changed(self) -> None:
        """Wait for a change since the last time."""
        if self._list.version == self._version:
            await self._list.bell.wait()
        self._version = self._list.version


class Rows:
    """What lists show of sessions, kept until they change: a title takes reading a session."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[SessionInfo, dict[str, Any]]] = {}

    async def get(self, site: Site, info: SessionInfo) -> dict[str, Any]:
        """Return the row of a session."""
        known = self._known.get(info.id)
        if known is not None and (known[0].seq, known[0].created_at) == (info.seq, info.created_at):
            return {**known[1], "status": status_of(info)}
        if len(self._known) > 10 * MOST:
            self._known.clear()
        row = await described(site, info)
        self._known[info.id] = info, row
        return row
