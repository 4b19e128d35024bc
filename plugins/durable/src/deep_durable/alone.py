"""Suspects alone: processes that a worker starts for sessions whose worker died, one session at a time in each.

The worker sees how such a process ends. So a session that kills is found out, and a worker that is killed from outside
is no evidence against any session: its processes end after their session, and no one counts their deaths.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Iterable, Sequence

from .exits import HUNG
from .jobs import Steps
from .queue import Queue

__all__ = ["GUARD", "LOOK", "Guard", "guard_of_this_process"]

logger = logging.getLogger(__name__)
GUARD = "DEEP_WORKER_GUARD"
"""The variable with the number of the worker that started this process for suspects."""
LOOK = 0.25
"""Seconds between two looks at the suspects and the processes."""
LONGEST = 60.0
"""Seconds until another process is started, after several in a row that ended before they began."""


def guard_of_this_process() -> int | None:
    """Return the number of the worker that started this process for suspects; None if none did."""
    number = os.environ.get(GUARD, "")
    return int(number) if number.isdecimal() else None


class Guard:
    """Starts processes for suspects, and counts their deaths.

    Args:
        queue: of the suspects.
        command: starts a process that is a worker; `GUARD` in its environment makes it one for suspects.
        most: how many processes at the same time.
        lease: seconds of silence after which a process is killed.
        steps: says where sessions are.
    """

    def __init__(
        self,
        queue: Queue,
        command: Sequence[str],
        *,
        most: int,
        lease: float,
        steps: Callable[[Iterable[str]], Awaitable[Steps]],
    ) -> None:
        self._queue = queue
        self._command = command
        self._most = most
        self._lease = lease
        self._steps = steps
        self._processes: dict[int, Process] = {}
        self._hung: set[int] = set()
        self._pause = 1.0
        self._next = 0.0

    async def look(self, worker: int, provider: str) -> None:
        """Start one more process if a suspect waits and none is about to begin; see to those that ended or hang."""
        known = await self._queue.guarded(worker)
        for number, process in [*self._processes.items()]:
            if process.returncode is not None:
                sessions = known.get(number, (0.0, ()))[1]
                lost = await self._queue.died(worker, number, self._error(process), await self._steps(sessions))
                del self._processes[number]
                self._hung.discard(number)
                if process.returncode and number not in known:
                    self._next = asyncio.get_running_loop().time() + self._pause
                    self._pause = min(LONGEST, self._pause * 2)
                    logger.warning("a process for suspects ended before it began: %s", self._error(process))
                for session_id in lost:
                    logger.warning("session %s was alone in a process: %s", session_id, self._error(process))
            elif number in known:
                self._pause = 1.0
                if known[number][0] > self._lease:
                    self._hung.add(number)
                    process.kill()
        is_starting = any(number not in known for number in self._processes)
        is_due = asyncio.get_running_loop().time() >= self._next
        has_room = not is_starting and is_due and len(self._processes) < self._most
        if has_room and await self._queue.has_suspects(provider):
            # Its own group: a session that kills its group does not kill this one.
            process = await asyncio.create_subprocess_exec(
                *self._command, stdin=PIPE, env={**os.environ, GUARD: str(worker)}, start_new_session=True
            )
            self._processes[process.pid] = process

    def stop(self) -> None:
        """Let the processes hand back what they run."""
        for process in self._processes.values():
            if process.returncode is None:
                process.terminate()

    async def end(self, worker: int, seconds: float) -> None:
        """Wait for the processes, and kill those that do not end.

        Args:
            worker: whose they are.
            seconds: how long they may take.
        """
        ends = [asyncio.ensure_future(process.wait()) for process in self._processes.values()]
        if ends:
            await asyncio.wait(ends, timeout=seconds)
        for process in self._processes.values():
            if process.returncode is None:
                process.kill()
                await process.wait()

    def _error(self, process: Process) -> str:
        code = process.returncode or 0
        if process.pid in self._hung or code == HUNG:
            return f"its process did nothing for {self._lease:.0f} s"
        if code < 0:
            return f"its process was killed by {signal.Signals(-code).name}"
        return f"its process exited with {code}"
