"""The store `memory:`: sessions that last as long as the process."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..holder import is_dead, this_process
from ..store import Commit, Entry, Lease, Mail, SessionInfo, SessionStatus, SessionStore, Stored, decided_before
from .refusals import busy, check_id, lost, not_found

__all__ = ["MemoryStore"]


@dataclass(eq=False, repr=False)
class _Session:
    info: SessionInfo
    entries: list[Entry] = field(default_factory=list[Entry])
    base: int = 0
    ledger: dict[str, bytes] = field(default_factory=dict[str, bytes])
    mail: list[Mail] = field(default_factory=list[Mail])
    decided: dict[str, int] = field(default_factory=dict[str, int])
    """Call -> the mail that decides it."""
    fence: int = 0
    holder: str | None = None
    ends: float = 0.0

    @property
    def is_held(self) -> bool:
        return self.holder is not None and self.ends > time.monotonic() and not is_dead(self.holder)

    def shown(self) -> SessionInfo:
        return replace(self.info, seq=len(self.entries), holder=self.holder if self.is_held else None)


class MemoryStore(SessionStore):
    """Sessions in memory, for tests and for services that store nothing."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        """Of mail, and of fences: none is given twice, also not to a session that was deleted and created again."""

    async def acquire(
        self, session_id: str, *, holder: str | None = None, ttl: float = 30.0, create: bool = True
    ) -> Lease:
        """Acquire the lease."""
        holder = holder or this_process()
        with self._lock:
            if session_id not in self._sessions and create:
                now = time.time()
                self._sessions[check_id(session_id)] = _Session(
                    SessionInfo(session_id, self.owner, "idle", now, now, 0)
                )
            session = self._find(session_id)
            if session.is_held:
                raise busy(session_id, session.holder or "", session.ends - time.monotonic())
            session.holder, session.ends = holder, time.monotonic() + ttl
            session.fence = next(self._numbers)
            return Lease(session_id, holder, session.fence, ttl)

    async def renew(self, lease: Lease) -> None:
        """Renew the lease."""
        with self._lock:
            self._held(lease).ends = time.monotonic() + lease.ttl

    async def release(self, lease: Lease) -> None:
        """End the lease."""
        with self._lock:
            session = self._sessions.get(lease.session_id)
            if session is not None and session.fence == lease.fence and self.owner in (None, session.info.owner):
                session.holder = None

    async def commit(self, lease: Lease, commit: Commit) -> int:
        """Write all of it."""
        with self._lock:
            session, now = self._held(lease), time.time()
            entries = [
                Entry(new.kind, new.data, new.run_id, new.version, new.base, seq, now)
                for seq, new in enumerate(commit.entries, len(session.entries) + 1)
            ]
            ledger = session.ledger | dict(commit.put)
            for key in commit.drop:
                ledger.pop(key, None)
            read = set(commit.read)
            # From here on nothing can fail.
            session.entries += entries
            session.base = max((entry.seq - 1 for entry in entries if entry.base), default=session.base)
            session.ledger = ledger
            session.mail = [mail for mail in session.mail if mail.id not in read]
            session.decided = {call: number for call, number in session.decided.items() if number not in read}
            status, updated_at = commit.status or session.info.status, now if entries else session.info.updated_at
            session.info = replace(session.info, status=status, updated_at=updated_at)
            return len(session.entries)

    async def post(self, session_id: str, kind: str, data: bytes) -> int:
        """Leave mail."""
        with self._lock:
            session = self._find(session_id)
            number = next(self._numbers)
            session.mail.append(Mail(number, kind, data, time.time()))
            return number

    async def decide(self, session_id: str, seq: int, decisions: Mapping[str, bytes]) -> bool:
        """Leave decisions, if none of the calls has one."""
        with self._lock:
            session = self._find(session_id)
            if len(session.entries) != seq:
                return False
            if taken := session.decided.keys() & decisions.keys():
                raise decided_before(session_id, min(taken))
            for call, data in decisions.items():
                number = session.decided[call] = next(self._numbers)
                session.mail.append(Mail(number, "decision", data, time.time()))
            return True

    async def mail(self, session_id: str) -> Sequence[Mail]:
        """Return the mail that waits."""
        with self._lock:
            return [*self._find(session_id).mail]

    async def load(self, session_id: str) -> Stored:
        """Return the last base and what follows it."""
        with self._lock:
            session = self._find(session_id)
            return Stored(session.shown(), session.entries[session.base :], {**session.ledger}, [*session.mail])

    async def entries(self, session_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        """Return entries after a number."""
        with self._lock:
            return self._find(session_id).entries[after : after + limit]

    async def info(self, session_id: str) -> SessionInfo:
        """Return one session."""
        with self._lock:
            return self._find(session_id).shown()

    async def list(
        self,
        *,
        status: SessionStatus | None = None,
        updated_before: float | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> Sequence[SessionInfo]:
        """Return sessions, the most recently updated first."""
        with self._lock:
            found = [
                session.shown()
                for session in self._sessions.values()
                if (self.owner is None or session.info.owner == self.owner)
                and status in (None, session.info.status)
                and (updated_before is None or session.info.updated_at < updated_before)
            ]
        found.sort(key=lambda info: (-info.updated_at, info.id))
        return found[offset : offset + limit]

    async def adopt(self, session_id: str, *, begins: bool = False) -> None:
        """Give sessions without an owner to this view's."""
        with self._lock:
            for known, session in self._sessions.items():
                if session.info.owner is None and (known.startswith(session_id) if begins else known == session_id):
                    session.info = replace(session.info, owner=self.owner)

    async def delete(self, session_id: str) -> None:
        """Erase a session."""
        with self._lock:
            session = self._find(session_id)
            if session.is_held:
                raise busy(session_id, session.holder or "", session.ends - time.monotonic())
            del self._sessions[session_id]

    def _find(self, session_id: str) -> _Session:
        session = self._sessions.get(session_id)
        if session is None or (self.owner is not None and session.info.owner != self.owner):
            raise not_found(session_id)
        return session

    def _held(self, lease: Lease) -> _Session:
        session = self._find(lease.session_id)
        if session.fence != lease.fence or session.holder is None:
            raise lost(lease, session.holder)
        return session
