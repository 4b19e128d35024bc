"""A worker: takes sessions from a queue, resumes them, and reports how that ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from deep_sessions import (
    AgentError,
    DecisionsPending,
    LeaseLost,
    NothingToResume,
    SessionBusy,
    SessionNotFound,
    StoreError,
)

from deep_core.plugin_api import describe_error

from .queue import Again, Done, Failed, Queue, Verdict

if TYPE_CHECKING:
    from deep_sessions import SessionStore

__all__ = ["Resumes", "Worker", "finish"]

logger = logging.getLogger(__name__)
Handler = Callable[[str], Awaitable[object]]
LATE = 64
"""How many of a session's last entries are searched for messages. An attempt without any writes two."""
PAUSE = 5.0
"""Seconds until the next attempt, where the error does not say when it can succeed."""


class Ended(Protocol):
    """How a run ended."""

    @property
    def status(self) -> str:
        """`completed`, or why there is nothing more to do now."""
        ...


class Resumes(Protocol):
    """What runs sessions: a `DeepAgent`."""

    @property
    def store(self) -> SessionStore:
        """Where the sessions are."""
        ...

    async def resume(self, session_id: str) -> Ended:
        """Continue the session's run."""
        ...

    async def run_next(self, session_id: str) -> Ended:
        """Run the agent with the first message that waits."""
        ...


async def finish(agent: Resumes, session_id: str) -> None:
    """Do what waits in a session: its unfinished run, then the messages, each in a run of its own.

    It ends early where calls wait for a person, and after a run that failed or was aborted.

    Args:
        agent: a `DeepAgent`.
        session_id: the session.
    """
    # A run that failed or was aborted continues when someone asks for it, and not because a message came.
    if (await agent.store.info(session_id)).status in ("running", "awaiting"):
        with contextlib.suppress(NothingToResume):
            if (await agent.resume(session_id)).status != "completed":
                return
    with contextlib.suppress(NothingToResume, DecisionsPending):
        while (await agent.run_next(session_id)).status == "completed":
            pass


class Worker:
    """Resumes the sessions of a queue.

    Args:
        handler: does what waits in one session: `partial(finish, agent)`. After `SessionBusy`, `LeaseLost` and
            `StoreError` the worker tries again later; `NothingToResume` and `SessionNotFound` mean that there is
            nothing to do; any other exception is a failure.
        queue: where the sessions come from.
        store: where the sessions are. With it, a session that advances between two deaths of its workers is not
            taken for what kills them.
        concurrency: how many sessions run at the same time.
        grace: seconds that running sessions have to end after `stop`. The others are cancelled and handed back.
        name: of this worker; by default its host and process.
    """

    def __init__(
        self,
        handler: Handler,
        queue: Queue,
        *,
        store: SessionStore | None = None,
        concurrency: int = 4,
        grace: float = 20.0,
        name: str | None = None,
    ) -> None:
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self._handler = handler
        self._queue = queue
        self._store = store
        self._concurrency = concurrency
        self._grace = grace
        self._stop = asyncio.Event()
        self._running: set[asyncio.Task[object]] = set()
        self._is_cancelling = False

    async def run(self) -> None:
        """Work until `stop`. If it is cancelled, it cancels the running sessions and hands them back first.

        Raises:
            QueueLocked: another process works on the queue's file.
        """
        patience = asyncio.ensure_future(self._cancel_late_ones())
        work = asyncio.ensure_future(
            self._queue.work(self._attempt, self._step, name=self.name, concurrency=self._concurrency, stop=self._stop)
        )
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            self._stop.set()
            self._cancel()
            await work
            raise
        finally:
            patience.cancel()
            self._cancel()

    def stop(self) -> None:
        """Take no more sessions; `run` returns when the running ones have ended. A second call cancels them at once."""
        if self._stop.is_set():
            self._cancel()
        self._stop.set()

    async def _cancel_late_ones(self) -> None:
        await self._stop.wait()
        await asyncio.sleep(self._grace)
        self._cancel()

    def _cancel(self) -> None:
        self._is_cancelling = True
        for task in self._running:
            task.cancel()

    async def _attempt(self, session_id: str) -> Verdict:
        if self._stop.is_set():
            return Again()
        task = asyncio.ensure_future(self._handler(session_id))
        self._running.add(task)
        try:
            await asyncio.wait([task])
        finally:
            self._running.discard(task)
        return self._verdict(session_id, task)

    async def _step(self, session_id: str) -> int | None:
        """Return the number of the session's last entry with messages: each attempt writes others too."""
        if self._store is None:
            return None
        try:
            seq = (await self._store.info(session_id)).seq
            late = await self._store.entries(session_id, after=max(0, seq - LATE))
        except AgentError:
            return None  # the attempt meets it too
        return max((entry.seq for entry in late if entry.kind in ("messages", "base")), default=0)

    def _verdict(self, session_id: str, task: asyncio.Future[object]) -> Verdict:
        if task.cancelled():
            if self._is_cancelling:
                return Again()
            return Failed("the handler was cancelled, and not by its worker")
        error = task.exception()
        match error:
            case None | NothingToResume() | SessionNotFound():
                return Done()
            case SessionBusy():
                return Again(error.seconds or PAUSE)
            case LeaseLost() | StoreError():
                return Again(PAUSE)
            case Exception():
                logger.warning("session %s failed", session_id, exc_info=error)
                return Failed(describe_error(error))
            case _:
                raise error
