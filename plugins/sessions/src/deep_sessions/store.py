"""What a store of sessions is: an append-only journal, a ledger of the unfinished step, mail, and a lease."""

from __future__ import annotations

import asyncio
import copy
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

from .errors import NotPending, SessionBusy, StoreError

if TYPE_CHECKING:
    from .full_text import Found

__all__ = ["Commit", "Entry", "Lease", "Mail", "NewEntry", "SessionInfo", "SessionStatus", "SessionStore", "Stored"]

SessionStatus = Literal["idle", "running", "awaiting", "failed", "aborted"]
"""`idle`: the last run ended; `running`: a run has not ended (it runs, or its process died); `awaiting`: calls wait for
a person."""


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry for the journal.

    Attributes:
        kind: what happened; `entries.py` lists the kinds. A reader keeps and skips kinds that it does not know.
        data: JSON text, as UTF-8.
        run_id: the run that wrote it; None if no run did.
        version: of the data's form.
        base: whether the entry holds the session's whole state, so that loading begins here.
    """

    kind: str
    data: bytes
    run_id: str | None = None
    version: int = 1
    base: bool = False


@dataclass(frozen=True, slots=True)
class Entry(NewEntry):
    """An entry of the journal.

    Attributes:
        seq: its number: 1, 2, 3 … in each session.
        at: when it was written, in seconds since 1970.
    """

    seq: int = 0
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Mail:
    """A message for whoever runs the session: a decision, a prompt, a request to stop.

    Attributes:
        id: its number; mail is read in this order.
        kind: `decision`, `prompt`, `steer` or `cancel`.
        data: JSON text, as UTF-8.
        at: when it was posted, in seconds since 1970.
    """

    id: int
    kind: str
    data: bytes
    at: float


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write to a session.

    Attributes:
        session_id: the session.
        holder: who has it: `host:process`.
        fence: grows with each acquisition, also when a session is deleted and created again. A store refuses writes
            under an older one.
        ttl: seconds until it ends unless it is renewed.
    """

    session_id: str
    holder: str
    fence: int
    ttl: float


@dataclass(frozen=True, slots=True)
class Commit:
    """What one transaction writes: all of it, or nothing.

    Attributes:
        entries: appended to the journal.
        put: rows of the ledger: key -> JSON text. A row is about a step whose message is not in the journal yet.
        drop: keys of the ledger that the entries settle, dropped after `put`. Keys that do not exist are ignored.
        read: ids of mail that the entries settle.
        status: the session's new status; None leaves it.
    """

    entries: Sequence[NewEntry] = ()
    put: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    drop: Sequence[str] = ()
    read: Sequence[int] = ()
    status: SessionStatus | None = None


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One session, as lists show it.

    Attributes:
        id: the session's id.
        owner: the tenant or user that it belongs to; None without owners.
        status: see `SessionStatus`.
        created_at: seconds since 1970.
        updated_at: when the last entry was written, in seconds since 1970.
        seq: the number of its last entry; 0 without entries.
        holder: who runs it; None if no runner does: the lease has ended, or its holder is known to be dead.
    """

    id: str
    owner: str | None
    status: SessionStatus
    created_at: float
    updated_at: float
    seq: int
    holder: str | None = None

    @property
    def sends(self) -> Literal["runner", "anyone", "person"]:
        """Who sends a message that waits in it, in every interface.

        `runner`: whoever runs it does, after that run; a run that waits or was interrupted goes on first. `anyone`: its
        last run ended, so whoever left the message does. `person`: its last run was stopped or failed; the message is
        held until a person says so, or sends another one, which goes behind it.
        """
        if self.holder is not None or self.status in ("running", "awaiting"):
            return "runner"
        return "anyone" if self.status == "idle" else "person"


@dataclass(frozen=True, slots=True)
class Stored:
    """What loading a session needs.

    Attributes:
        info: the session.
        entries: the last entry with `base`, and all that follow it; all entries if none has `base`.
        ledger: the rows of the unfinished step.
        mail: what waits, in order.
    """

    info: SessionInfo
    entries: Sequence[Entry]
    ledger: Mapping[str, bytes]
    mail: Sequence[Mail]


PATIENCE = 30.0
"""Seconds that a decision waits for a lease, in a store that needs it."""


def decided_before(session_id: str, call: str) -> NotPending:
    """Return the error of a decision that came second."""
    return NotPending(
        f"session {session_id}: call {call!r} was decided already; what you answered was not used. "
        "Look at the session to see what came of it"
    )


class SessionStore(ABC):
    """A store of sessions. One instance serves all sessions, tasks, threads and event loops of a process.

    A store opened with an owner sees, in every call, only that owner's sessions; others do not exist for it. Methods
    raise `SessionNotFound` for an unknown id, and `StoreError` where the store itself fails; then nothing was written.
    A task that is cancelled in a call leaves all of it written, or nothing.
    """

    owner: str | None = None
    """The owner whose sessions this store sees; None sees all."""

    def for_owner(self, owner: str) -> Self:
        """Return a view of this store that sees only `owner`'s sessions, and creates sessions for it.

        The view shares the connections: closing one of them closes all.

        Raises:
            ValueError: this store sees only another owner's sessions.
        """
        if self.owner not in (None, owner):
            raise ValueError(
                f"this store sees only the sessions of {self.owner!r}: make the view from the store itself"
            )
        view = copy.copy(self)
        view.owner, view._viewed = owner, self.root
        return view

    async def adopt(self, session_id: str, *, begins: bool = False) -> None:  # noqa: B027 - see below
        """Give a session that has no owner to the owner of this view, if there is one.

        Interfaces of a folder call it for sessions from before folders were owners. A store that has none need not
        implement it.

        Args:
            session_id: the session.
            begins: take all sessions whose ids begin so.
        """

    _viewed: Self | None = None

    @property
    def root(self) -> Self:
        """The store itself, of which this may be a view."""
        return self._viewed or self

    # -- one runner ----------------------------------------------------------------------------------------------------

    @abstractmethod
    async def acquire(
        self, session_id: str, *, holder: str | None = None, ttl: float = 30.0, create: bool = True
    ) -> Lease:
        """Acquire the lease. Takes over a lease that has ended, and one whose holder is known to be dead.

        Args:
            session_id: the session.
            holder: who asks; None for this process.
            ttl: seconds until the lease ends unless it is renewed.
            create: whether to create a session that does not exist.

        Raises:
            SessionBusy: another holder has it, at once, without waiting.
            SessionNotFound: it does not exist, and `create` is False; or it belongs to another owner.
            ValueError: a session to create has an id that is empty, too long, or no text.
        """

    @abstractmethod
    async def renew(self, lease: Lease) -> None:
        """Let the lease last `ttl` seconds from now. Raises LeaseLost if another holder took it."""

    @abstractmethod
    async def release(self, lease: Lease) -> None:
        """End the lease. Does nothing if another holder took it."""

    @abstractmethod
    async def commit(self, lease: Lease, commit: Commit) -> int:
        """Write in one transaction; return the number of the last entry.

        Raises:
            LeaseLost: another holder took the session; nothing was written.
        """

    def commit_now(self, lease: Lease, commit: Commit) -> int | None:
        """Write as `commit` does, in this thread, if that takes microseconds: no disk to wait for, no other writer.

        A store that cannot promise this leaves it out. A journal asks before each `commit`.

        Returns:
            The number of the last entry; None if nothing was written, and the caller has to await `commit`.

        Raises:
            LeaseLost: another holder took the session; nothing was written.
        """
        return None

    # -- everybody -----------------------------------------------------------------------------------------------------

    @abstractmethod
    async def post(self, session_id: str, kind: str, data: bytes) -> int:
        """Leave mail for whoever runs the session, now or later; return its id. Needs no lease."""

    async def decide(self, session_id: str, seq: int, decisions: Mapping[str, bytes]) -> bool:
        """Leave decisions on calls that wait, as mail of the kind `decision`: all of them in one transaction, or none.

        Of all who decide one call at the same time, in any process, one succeeds. This method does it under the lease,
        which any store has; a store that compares and sets in one transaction overrides it.

        Args:
            session_id: the session.
            seq: the number of the last entry that the caller has read: the calls wait there.
            decisions: call -> JSON text, as UTF-8, of an object with that call's decision.

        Returns:
            Whether the decisions are left. False, and nothing is written, if the journal has later entries: the caller
            reads them, to see whether the calls still wait.

        Raises:
            NotPending: a call has a decision. Nothing is written.
            SessionBusy: a runner has the session, and writes nothing.
        """
        ends = time.monotonic() + PATIENCE
        while True:
            try:
                lease = await self.acquire(session_id, create=False)
                break
            except SessionBusy:
                if (await self.info(session_id)).seq != seq:
                    return False
                if time.monotonic() > ends:
                    raise
                await asyncio.sleep(0.05)
        try:
            stored = await self.load(session_id)
            if stored.info.seq != seq:
                return False
            decided = {call for mail in stored.mail if mail.kind == "decision" for call in json.loads(mail.data)}
            if taken := decided & decisions.keys():
                raise decided_before(session_id, min(taken))
            for data in decisions.values():
                await self.post(session_id, "decision", data)
            return True
        finally:
            await self.release(lease)

    @abstractmethod
    async def mail(self, session_id: str) -> Sequence[Mail]:
        """Return the mail that waits, in order."""

    @abstractmethod
    async def load(self, session_id: str) -> Stored:
        """Return what continuing the session needs: the last base, what follows it, the ledger and the mail.

        Raises:
            StoreError: a part of it is damaged or missing.
        """

    @abstractmethod
    async def entries(self, session_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        """Return at most `limit` entries with a number above `after`, in order; fewer only at the end.

        It leaves out entries that are damaged: their numbers are missing.
        """

    @abstractmethod
    async def info(self, session_id: str) -> SessionInfo:
        """Return one session."""

    @abstractmethod
    async def list(
        self,
        *,
        status: SessionStatus | None = None,
        updated_before: float | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> Sequence[SessionInfo]:
        """Return sessions, the most recently updated first."""

    @abstractmethod
    async def delete(self, session_id: str) -> None:
        """Erase a session with its journal, ledger and mail.

        Raises:
            SessionBusy: it is running.
        """

    async def search(self, words: str, *, limit: int = 50) -> Sequence[Found] | None:
        """Return messages that have all these words, or words that begin so; those of the newest sessions first.

        Args:
            words: the words; what is no letter and no digit only separates them.
            limit: the most messages.

        Returns:
            None for a store without an index, as this one is: `find_messages` reads every session then.
        """
        return None

    def transaction(self, lease: Lease, commit: Commit) -> AbstractContextManager[Any]:
        """Return a context manager for one transaction of the store's database that also writes `commit`.

        It yields the database's connection, commits at its end, and rolls back if the block raises.

        Raises:
            StoreError: the store has no database that a tool can use.
            LeaseLost: another holder took the session; nothing was written.
        """
        raise StoreError(f"{type(self).__name__} has no transactions for tools; sqlite and postgresql have")

    async def aclose(self) -> None:  # noqa: B027 - a store may have nothing to release
        """Release connections and files. The store cannot be used afterwards."""
