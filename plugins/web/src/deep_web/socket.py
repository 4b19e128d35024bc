"""The socket of a session: the server sends what happens, from any number on, until the page leaves."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, closing, suppress
from typing import TYPE_CHECKING, Any

from deep_sessions import AgentError, SessionNotFound
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from .guard import NoOwner
from .redact import event_json
from .state import state_of, status_of

if TYPE_CHECKING:
    from deep_sessions import Event

    from .lists import ListWatch
    from .site import Site

__all__ = ["NO_OWNER", "NO_SESSION", "serve_socket"]

NO_OWNER, NO_SESSION = 4401, 4404
"""Codes with which the server closes a socket."""
PING = 15.0
"""Seconds between two pings: a page that hears nothing for longer connects again."""
LOOK = 1.0
"""Seconds between two looks at a session that another process may run."""
PAUSE = 0.1
"""Seconds between two states of a session whose run goes on."""
ENDS = ("run_ended", "approvals_asked", "run_interrupted")
"""Events after which a run does not go on by itself."""
FILES = ("files_changed", "run_ended", "approvals_asked")
"""Events after which files may have changed."""


async def serve_socket(websocket: WebSocket) -> None:
    """Serve a page that watches a session."""
    app, session_id = websocket.app.state, websocket.path_params["session_id"]
    await websocket.accept()
    try:
        owner = app.owners.owner_of(websocket, app.site)
        await app.site.own(owner, session_id)
    except NoOwner:
        await websocket.close(NO_OWNER)
        return
    except SessionNotFound:
        await websocket.close(NO_SESSION)
        return
    try:
        after = int(websocket.query_params.get("after", 0))
    except ValueError:
        after = 0
    with suppress(WebSocketDisconnect):
        watch = _Watch(websocket, app.site, session_id, show_errors=app.show_errors)
        with closing(app.lists.of(owner)) as lists:
            await watch.work(app.boot, max(0, after), lists)


class _Watch:
    """One page that watches a session."""

    def __init__(self, websocket: WebSocket, site: Site, session_id: str, *, show_errors: bool) -> None:
        self._websocket = websocket
        self._site = site
        self._id = session_id
        self._show_errors = show_errors
        self._sending = asyncio.Lock()
        self._state: dict[str, Any] = {}
        self._is_stale = asyncio.Event()
        """Set when the state may have changed."""
        self._is_due = False
        """Whether the state is sent even if it did not change: a run ended, or waits."""
        self._n = 0

    async def work(self, boot: str, after: int, lists: ListWatch) -> None:
        """Send all that happens until the page leaves, the session is deleted, or the server stops."""
        self._n = after
        await self._send({"type": "hello", "boot": boot, "after": after})
        tasks = [
            asyncio.ensure_future(each)
            for each in (self._events(), self._states(), self._lists(lists), self._pings(), self._listen())
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        errors = [error for error in ended if isinstance(error, Exception)]
        if any(isinstance(error, SessionNotFound) for error in errors):
            await self._close(NO_SESSION)
            return
        await self._close(1011 if any(not isinstance(error, WebSocketDisconnect) for error in errors) else 1001)
        for error in errors:
            if not isinstance(error, WebSocketDisconnect | AgentError):
                raise error

    # -- what is sent --------------------------------------------------------------------------------------------------

    async def _events(self) -> None:
        """Send the events of the session, and its state once those that there are were sent."""
        is_first = True
        while True:
            runs, changed = self._site.current(self._id), self._site.changed(self._id)
            if is_first:
                async with aclosing(runs.stream(self._id, after=self._n, follow=False)) as events:
                    async for event in events:
                        await self._send_event(event)
                await self._send_state()
                is_first = False
            following = asyncio.ensure_future(self._follow(runs))
            waiting = asyncio.ensure_future(changed.wait())
            try:
                # To another agent only if the session has one: a stream that is cut off must be opened again.
                while not following.done() and runs is self._site.current(self._id):
                    await asyncio.wait([following, waiting], return_when=asyncio.FIRST_COMPLETED)
                    if waiting.done():
                        self._is_stale.set()
                        waiting = asyncio.ensure_future(self._site.changed(self._id).wait())
            finally:
                following.cancel()
                waiting.cancel()
                await asyncio.gather(following, waiting, return_exceptions=True)
            if following.done() and not following.cancelled():
                following.result()
                return  # the server stops

    async def _follow(self, runs: Any) -> None:
        async with aclosing(runs.stream(self._id, after=self._n)) as events:
            async for event in events:
                await self._send_event(event)
                self._is_due |= event.kind in ENDS and not event.path
                self._is_stale.set()

    async def _send_event(self, event: Event) -> None:
        # Whoever cancels this must know whether the event was sent.
        sending = asyncio.ensure_future(
            self._send({"type": "event", **event_json(self._id, event, show_errors=self._show_errors)})
        )
        self._n = event.n
        await asyncio.shield(sending)
        if event.kind in FILES or (event.kind == "slots_changed" and "uploads" in event.to_json().get("names", ())):
            await self._send({"type": "files"})

    async def _states(self) -> None:
        """Send the state whenever it changed."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await self._is_stale.wait()
            if not self._is_stale.is_set():
                if self._state.get("status") != "running":
                    continue
                # A run of another process may have died, which is no event.
                if status_of(await self._site.store.info(self._id)) == "running":
                    continue
            if not self._state:
                continue
            await asyncio.sleep(PAUSE)
            await self._send_state()

    async def _send_state(self) -> None:
        is_due, self._is_due = self._is_due, False
        self._is_stale.clear()
        state = await state_of(self._site, self._id, show_errors=self._show_errors)
        if state != self._state or is_due:
            self._state = state
            await self._send(state)

    async def _lists(self, lists: ListWatch) -> None:
        while True:
            await lists.changed()
            await self._send({"type": "sessions"})

    async def _pings(self) -> None:
        while True:
            await asyncio.sleep(PING)
            await self._send({"type": "ping"})

    async def _listen(self) -> None:
        """Wait for the page to leave. What it sends means nothing."""
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                return

    async def _send(self, message: dict[str, Any]) -> None:
        async with self._sending:
            if self._websocket.application_state == WebSocketState.CONNECTED:
                await self._websocket.send_json(message)

    async def _close(self, code: int) -> None:
        connected = WebSocketState.CONNECTED
        if self._websocket.application_state == connected and self._websocket.client_state == connected:
            with suppress(RuntimeError, WebSocketDisconnect):
                await self._websocket.close(code)
