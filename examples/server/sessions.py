"""What the pages do with sessions: `deep_sessions.Sessions`, with owners, limits and workspaces."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncGenerator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deep_backends import SessionManager
from deep_sessions import (
    DecisionsPending,
    NothingToResume,
    NotPending,
    SessionBusy,
    SessionInfo,
    SessionNotFound,
    Sessions,
    create,
    delete,
    title_of,
)
from deep_uploads import Data, UploadedFile, upload_file

from deep_core import Kernel

from .approvals import Approval, Verdict, answers, approval_of
from .incidents import record
from .owners import Newcomers
from .transcript import Transcript

__all__ = ["Busy", "OwnedSessions", "Page", "TooMany"]


class Busy(RuntimeError):
    """The session is at work, or waits for an answer."""


class TooMany(RuntimeError):
    """This owner has the maximum number of sessions, or this address of new owners."""


class OwnedSessions:
    """The sessions of all owners.

    Args:
        sessions: the service. Its store sees all owners; `open` checks whose a session is.
        kernel: the plugins, which delete what they keep of a session.
        workspaces: the sessions' files.
        root: where the files are.
        most: maximum sessions of one owner, and new owners of one address in a day.
    """

    def __init__(self, sessions: Sessions, kernel: Kernel, workspaces: SessionManager, root: Path, most: int) -> None:
        self.service = sessions
        self.store = sessions.agent.store
        self.workspaces = workspaces
        self._kernel = kernel
        self._root = root
        self._most = most
        self._newcomers = Newcomers(most)
        self._creating = asyncio.Lock()

    async def create(self, owner: str, address: str) -> dict[str, str]:
        """Create a session of this owner, who comes from this address.

        Raises:
            TooMany: this owner has the maximum number of sessions, or this address of new owners.
        """
        store, session_id = self.store.for_owner(owner), uuid.uuid4().hex
        async with self._creating:  # of many requests at once, none is counted late
            own = len(await store.list(limit=self._most))
            if own == self._most or (not own and not self._newcomers.admit(address)):
                most = self._most
                raise TooMany(
                    f"One user may have {most} sessions, and {most} new users a day may come from one address."
                )
            await create(store, session_id, [])
        return _shown(await store.info(session_id), "")

    async def of_owner(self, owner: str) -> list[dict[str, str]]:
        """Return the sessions of one owner, newest first: id, title, created."""
        found = await self.store.for_owner(owner).list(limit=self._most)
        found = sorted(found, key=lambda info: (-info.created_at, info.id))
        return [_shown(info, await title_of(self.store, info.id)) for info in found]

    async def check(self, session_id: str, owner: str | None) -> None:
        """Check that a session is this owner's.

        Raises:
            SessionNotFound: it does not exist, or is another owner's; the error does not say which.
        """
        if owner is None:
            raise SessionNotFound(session_id)
        await self.store.for_owner(owner).info(session_id)

    async def upload(self, session_id: str, name: str, data: Data) -> UploadedFile:
        """Put a file into the workspace; the agent sees it listed at its next request."""
        async with self.service.edit(session_id) as deps:
            return await upload_file(deps, name, data, agent=self.service.agent.runner.agent)

    async def delete(self, session_id: str) -> None:
        """Stop a session's run, and erase the session with its files.

        Raises:
            SessionInUseError: its files are in use, by an upload for example.
        """
        await self.service.cancel(session_id)
        await self.workspaces.release(session_id)
        await delete(self.store, session_id, kernel=self._kernel, roots=[self._root])


class Page:
    """What one page shows of a session, and what it does."""

    def __init__(self, sessions: OwnedSessions, session_id: str) -> None:
        self._all = sessions
        self._service = sessions.service
        self._id = session_id
        self._transcript = Transcript(session_id)
        self._last = 0
        self._interrupted = False

    # -- watching ------------------------------------------------------------------------------------------------------

    async def snapshot(self) -> dict[str, Any]:
        """Return everything that a page shows; `changes` yields what happens afterwards."""
        async for event in self._service.stream(self._id, follow=False):
            self._transcript.hear(event)
            self._last = event.n
        info = await self._all.store.info(self._id)
        if self._transcript.running and info.status == "running" and info.holder is None:
            self._transcript.interrupt()
            self._transcript.changes()
            self._interrupted = True
        return {"type": "snapshot", "id": self._id, "items": self._transcript.items, **await self._state()}

    async def changes(self) -> AsyncGenerator[dict[str, Any], None]:
        """Yield what changes after the snapshot."""
        async for event in self._service.stream(self._id, after=self._last):
            for change in self._transcript.hear(event):
                yield change
            match event.kind:
                case "run_started" | "approvals_asked" | "run_ended" | "run_interrupted":
                    self._interrupted = event.kind == "run_interrupted"
                    yield {"type": "state", **await self._state()}
                    yield {"type": "files"}
                case "slots_changed" if not event.path:
                    yield {"type": "todos", "todos": await self._todos()}
                    yield {"type": "files"}  # uploads are state too
                case "files_changed":
                    yield {"type": "files"}
                case _:
                    pass

    async def _state(self) -> dict[str, Any]:
        return {
            "title": await title_of(self._all.store, self._id),
            "running": self._transcript.running,
            "interrupted": self._interrupted,
            "approval": await self._approval(),
            "todos": await self._todos(),
        }

    async def _approval(self) -> Approval | None:
        requests = await self._service.waiting(self._id) if self._transcript.asked else None
        if requests is None:
            return None
        asked = str(self._transcript.asked)
        try:
            async with self._all.workspaces.use(self._id) as backend:
                return await approval_of(requests, backend, asked)
        except Exception as error:  # noqa: BLE001 - recorded; the question can be answered without a diff
            record(f"session {self._id}: its files cannot be read for a diff", error)
            return await approval_of(requests, None, asked)

    async def _todos(self) -> list[dict[str, str]]:
        slot = (await self._service.slots(self._id)).get("todos", {"data": []})
        return [{"content": todo["content"], "status": todo["status"]} for todo in slot["data"]]

    # -- working -------------------------------------------------------------------------------------------------------

    async def send(self, text: str) -> None:
        """Start to work on a message.

        Raises:
            Busy: a run is in progress, or a call waits for an answer.
            SessionLimitError: all workspaces are in use. Nothing is stored.
        """
        try:
            await self._service.send(self._id, text)
        except SessionBusy as error:
            raise Busy("The agent is still working: wait for it, or stop it.") from error
        except DecisionsPending as error:
            raise Busy("A call waits for your answer: approve or deny it first.") from error

    async def refuse(self, text: str, why: str) -> list[dict[str, Any]]:
        """Return what this page shows for a message that was not accepted."""
        self._transcript.add("user", text)
        self._transcript.add("error", why)
        return [*self._transcript.changes(), {"type": "state", **await self._state()}]

    async def decide(self, approval_id: str, verdicts: Mapping[str, Verdict]) -> None:
        """Answer the calls that wait, and continue.

        Raises:
            Busy: these calls do not wait.
            Stale: not every call was answered.
            SessionLimitError: all workspaces are in use; the answer counts when the session is resumed.
        """
        requests = await self._service.waiting(self._id)
        if requests is None or str(self._transcript.asked) != approval_id:
            raise Busy("This was answered already.")
        try:
            await self._service.decide(self._id, answers(requests, verdicts))
        except NotPending as error:
            await self.resume()  # the server may have died between the answer and the run
            raise Busy("This was answered already.") from error

    async def resume(self) -> None:
        """Continue a run that was interrupted, in this process or another, if there is one."""
        with contextlib.suppress(SessionBusy, NothingToResume):  # another page was faster
            await self._service.resume(self._id)

    async def stop(self) -> None:
        """Stop the current run, if any; its changes remain."""
        if (await self._all.store.info(self._id)).status == "running":
            await self._service.cancel(self._id)


def _shown(info: SessionInfo, title: str) -> dict[str, str]:
    created = datetime.fromtimestamp(info.created_at, UTC).isoformat(timespec="seconds")
    return {"id": info.id, "title": title, "created": created}
