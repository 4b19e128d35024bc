"""A worker: takes sessions from a queue, resumes them, and reports how that ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from deep_sessions import (
    AgentError,
    DecisionsPending,
    LeaseLost,
    ModelError,
    NothingToResume,
    SessionBusy,
    SessionNotFound,
    StoreError,
    hand_back,
)

from deep_core.plugin_api import describe_error

from .alone import LOOK, Guard, guard_of_this_process
from .errors import QueueError
from .exits import ends_when_hung, when_guard_dies, without_exits
from .jobs import Again, Done, Failed, Patience, Steps, Verdict, Waits
from .queue import Queue

if TYPE_CHECKING:
    from deep_sessions import SessionStore

__all__ = ["Resumes", "Worker", "finish"]

logger = logging.getLogger(__name__)
T = TypeVar("T")
Handler = Callable[[str], Awaitable[object]]
LATE = 64
"""How many of a session's last entries are searched for messages. An attempt without any writes two."""
POLL = 0.2
"""Seconds between two looks for work, where a worker has room."""
PROBE = 0.25
"""Seconds between two looks at a session that finds out whether its provider is back."""
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
            `StoreError` the worker tries again later, after a retryable `ModelError` when the provider is back;
            `NothingToResume` and `SessionNotFound` mean that there is nothing to do; any other exception is a failure.
        queue: where the sessions come from.
        store: where the sessions are. With it, a session that advances between two failures is not set aside for them.
        concurrency: how many sessions run at the same time.
        grace: seconds that running sessions have to end after `stop`. The others are cancelled and handed back.
        name: of this worker; by default its host and process.
        lease: seconds after which a process whose event loop hangs is ended.
        command: starts this program again. With it, sessions that were in a worker that died run in processes of their
            own; without it, each runs when nothing else does, for `lease` seconds without company.
        provider: of the handler's model. While it is down, sessions wait that have not met it yet.
        patience: how long sessions wait for a provider that is down.
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
        lease: float = 30.0,
        command: Sequence[str] | None = None,
        provider: str = "",
        patience: Patience | None = None,
    ) -> None:
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self._handler = handler
        self._queue = queue
        self._store = store
        self._guarded_by = guard_of_this_process()
        """The worker that started this process for suspects."""
        self._concurrency = concurrency if self._guarded_by is None else 1
        self._grace = grace
        self._lease = lease
        self._provider = provider
        self._patience = patience or Patience()
        self._guard: Guard | None = None
        if command is not None and self._guarded_by is None:
            self._guard = Guard(queue, command, most=concurrency, lease=lease, steps=self._steps)
        self._stop = asyncio.Event()
        self._number = 0
        self._claiming = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """Session -> its attempt, until that is settled."""
        self._running: set[asyncio.Task[object]] = set()
        """The handler in each attempt."""
        self._alone_until: float | None = None
        """While a suspect runs here without company: when others may join it."""
        self._had_suspect = False
        self._orphaned = asyncio.Event()
        """Set in a process for suspects whose guard has died: it ends after its session."""
        self._is_cancelling = False

    async def run(self) -> None:
        """Work until `stop`. If it is cancelled, it cancels the running sessions and hands them back first.

        Raises:
            QueueError: the queue cannot be opened.
        """
        loop = asyncio.get_running_loop()
        if self._guarded_by is not None:
            when_guard_dies(loop, self._orphaned.set)
        self._number = await self._queue.register(self.name, guard=self._guarded_by)
        patience = asyncio.ensure_future(self._cancel_late_ones())
        with without_exits(loop), ends_when_hung(loop, self._lease):
            work = asyncio.ensure_future(self._work())
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
        if self._guard is not None:
            self._guard.stop()

    async def _cancel_late_ones(self) -> None:
        await self._stop.wait()
        await asyncio.sleep(self._grace)
        self._cancel()

    def _cancel(self) -> None:
        self._is_cancelling = True
        for task in self._running:
            task.cancel()

    # -- the queue -----------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        others = [asyncio.ensure_future(self._repeat(self._queue.silence / 5, self._beat))]
        if self._guard is not None:
            others.append(asyncio.ensure_future(self._repeat(LOOK, self._look)))
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            while not self._stop.is_set():
                claimed = await self._patiently(self._claim)
                if self._guarded_by is not None and not self._tasks and (self._orphaned.is_set() or not claimed):
                    break  # no suspect waits any more
                await asyncio.wait([stopped, *self._tasks.values()], timeout=POLL, return_when=asyncio.FIRST_COMPLETED)
            if self._tasks:
                await asyncio.wait([*self._tasks.values()])
        finally:
            for task in (stopped, *others):
                task.cancel()
            await asyncio.wait([stopped, *others])
            if self._guard is not None:
                self._guard.stop()
                await self._guard.end(self._number, 0 if self._is_cancelling else self._grace)
            with contextlib.suppress(QueueError):  # then others find out that this worker is gone
                await self._queue.leave(self._number)

    async def _repeat(self, seconds: float, work: Callable[[], Awaitable[object]]) -> None:
        while True:
            await self._patiently(work)
            await asyncio.sleep(seconds)

    async def _patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        """Wait for the database, where it cannot be reached."""
        pause = 0.0
        while True:
            try:
                done = await work()
            except QueueError as error:
                if not pause:
                    logger.warning("worker %s waits: %s", self.name, error)
                pause = min(30.0, pause * 2 or 1.0)
                await asyncio.sleep(pause)
            else:
                if pause:
                    logger.warning("worker %s continues", self.name)
                return done

    async def _beat(self) -> None:
        """Show that this worker lives, and take over from those that do not."""
        async with self._claiming:
            if not await self._queue.beat(self._number, [*self._tasks]):
                # Others took this process for dead while it was stopped; what it ran is theirs now.
                self._number = await self._queue.register(self.name, guard=self._guarded_by)
        alone, lost = await self._queue.lost(self._number)
        if lost:
            await self._queue.takeover(self._number, await self._steps(alone))
        if self._alone_until is not None and asyncio.get_running_loop().time() > self._alone_until:
            self._alone_until = None
            await self._queue.accompany(self._number)

    async def _look(self) -> None:
        if self._guard is not None and not self._stop.is_set():
            await self._guard.look(self._number, self._provider)

    async def _claim(self) -> int:
        """Begin the sessions for which this worker has room; return how many."""
        free = self._concurrency - len(self._tasks)
        if not free or self._alone_until is not None or self._stop.is_set():
            return 0
        if self._orphaned.is_set() and self._had_suspect:
            return 0
        async with self._claiming:
            found: Mapping[str, bool] = {}
            is_alone = self._guarded_by is not None
            # Without a guard, the suspects take turns with the others.
            is_turn = self._guard is None and not self._had_suspect
            if is_turn and self._tasks and await self._queue.has_suspects(self._provider):
                return 0
            if is_alone or (is_turn and not self._tasks):
                found = await self._queue.claim(self._number, 1, suspects=True, alone=True, provider=self._provider)
                if found and not is_alone:
                    self._alone_until = asyncio.get_running_loop().time() + self._lease
            if not found and not is_alone:
                found = await self._queue.claim(self._number, free, provider=self._provider)
            self._had_suspect = bool(found) if is_alone else self._alone_until is not None
            for session_id, is_probe in found.items():
                task = asyncio.ensure_future(self._attempt(session_id, is_probe=is_probe))
                self._tasks[session_id] = task
                task.add_done_callback(partial(self._ended, session_id))
            return len(found)

    def _ended(self, session_id: str, task: asyncio.Task[None]) -> None:
        del self._tasks[session_id]
        self._alone_until = None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("session %s could not be settled", session_id, exc_info=error)

    # -- a session -----------------------------------------------------------------------------------------------------

    async def _attempt(self, session_id: str, *, is_probe: bool) -> None:
        number = self._number
        before = await self._step(session_id) if is_probe else None
        with hand_back():
            task = asyncio.ensure_future(self._handler(session_id))
        self._running.add(task)
        probe = asyncio.ensure_future(self._listen(session_id, before)) if is_probe else None
        if self._is_cancelling:
            task.cancel()
        try:
            await asyncio.wait([task])
        finally:
            self._running.discard(task)
            if probe is not None:
                probe.cancel()
        verdict = self._verdict(session_id, task)
        step = await self._step(session_id) if isinstance(verdict, Failed | Waits) else None
        settle = partial(self._queue.settle, number, session_id, verdict, step=step, patience=self._patience)
        await self._patiently(settle)

    async def _listen(self, session_id: str, before: int | None) -> None:
        """Note as soon as the provider has answered a probe, whose run may go on for long."""
        step = before
        while step in (None, before):  # another process may write what the store says
            await asyncio.sleep(PROBE)
            step = await self._step(session_id)
        await self._patiently(partial(self._queue.answered, session_id))

    async def _steps(self, sessions: Iterable[str]) -> Steps:
        return {session_id: await self._step(session_id) for session_id in sessions}

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
            case ModelError() if error.retryable:
                return Waits(self._provider or "the provider of the model", error.message, error.retry_after or 0.0)
            case Exception():
                logger.warning("session %s failed", session_id, exc_info=error)
                return Failed(describe_error(error))
            case _:
                raise error
