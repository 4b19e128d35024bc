"""The leases that a runner holds: acquired, renewed while a run goes on, released at its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from pydantic_ai import CancellationToken

from .errors import AgentError, LeaseLost, SessionBusy
from .journal import Journal
from .mailbox import Mailbox
from .store import Lease, SessionStore

if TYPE_CHECKING:
    from .edits import Live

__all__ = ["Held", "Leases"]

MAIL_EVERY = 1.0
"""Seconds between two looks at the mail of a run, which another process may have posted."""


@dataclass(eq=False, repr=False)
class Held:
    """A lease while it is held.

    Attributes:
        lease: the lease.
        loop: the event loop of its run.
        lost: why it was lost.
        journal: of the run under way.
        live: the session as it was loaded for the run.
        has_mail: set to look at the mail at once.
        began: set once it has a journal, or has ended.
        over: set once it has ended.
    """

    lease: Lease
    loop: asyncio.AbstractEventLoop
    lost: AgentError | None = None
    journal: Journal | None = None
    live: Live | None = None
    has_mail: asyncio.Event = field(default_factory=asyncio.Event)
    began: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Leases:
    """Holds the leases of the runs of one runner.

    Args:
        store: where the sessions are.
        mailbox: is read while a run goes on.
        ttl: seconds until a lease ends unless it is renewed. It is renewed three times as often.
    """

    def __init__(self, store: SessionStore, mailbox: Mailbox, ttl: float) -> None:
        self._store = store
        self._mailbox = mailbox
        self.ttl = ttl
        self._holds: dict[str, Held] = {}
        self._locks: WeakValueDictionary[tuple[str, asyncio.AbstractEventLoop], asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def lock(self, session_id: str) -> AsyncGenerator[None]:
        """Let no other task of this event loop load a session, or take it from a run to an edit or back."""
        lock = self._locks.setdefault((session_id, asyncio.get_running_loop()), asyncio.Lock())
        async with lock:
            yield

    def here(self, session_id: str) -> Held | None:
        """Return the lease of a run in this event loop; None without one.

        Raises:
            SessionBusy: the run is in another thread.
        """
        held = self._holds.get(session_id)
        if held is not None and held.loop is not asyncio.get_running_loop():
            raise SessionBusy(f"session {session_id} runs in another thread of this process: try it again")
        return held

    def poke(self, session_id: str) -> None:
        """Let the run of a session, if it is in this event loop, look at its mail at once."""
        held = self._holds.get(session_id)
        if held is not None and held.loop is asyncio.get_running_loop():  # a run of another loop looks every second
            held.has_mail.set()

    @asynccontextmanager
    async def hold(self, session_id: str, *, create: bool, token: CancellationToken) -> AsyncGenerator[Held]:
        """Hold the lease of a session for a run, which `token` stops if the lease is lost or the mail says so."""
        async with self.lock(session_id):
            lease = await self._store.acquire(session_id, ttl=self.ttl, create=create)
            held = Held(lease, asyncio.get_running_loop())
            self._holds[session_id] = held
        renewal = asyncio.ensure_future(self._keep(held, token))
        try:
            yield held
        finally:
            renewal.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await renewal
            try:
                with contextlib.suppress(AgentError):  # the lease ends by itself where the store is gone
                    await asyncio.shield(asyncio.ensure_future(self._store.release(held.lease)))
            finally:
                if self._holds.get(session_id) is held:
                    del self._holds[session_id]
                held.began.set()
                held.over.set()

    async def _keep(self, held: Held, token: CancellationToken) -> None:
        """Renew the lease and read the mail until cancelled. Stop the run if it must stop."""
        lease, now = held.lease, asyncio.get_running_loop().time
        ends, renew_at = now() + lease.ttl, now() + lease.ttl / 3
        while True:
            # Not wait_for: in Python 3.11 it loses a cancellation that comes with the mail, and the run never ends.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(MAIL_EVERY, renew_at - now()))):
                    await held.has_mail.wait()
            held.has_mail.clear()
            try:
                if held.journal is not None:
                    await self._mailbox.deliver(lease.session_id, held.journal, token)
                if (began := now()) >= renew_at:
                    renew_at = began + lease.ttl / 3
                    await self._store.renew(lease)
                    ends = began + lease.ttl
            except AgentError as error:
                if isinstance(error, LeaseLost) or now() >= ends:
                    held.lost = error
                    token.cancel()
                    return
