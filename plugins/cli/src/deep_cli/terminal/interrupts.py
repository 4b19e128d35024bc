"""Handle Ctrl-C during a turn of a chat, and run an event loop that can be left at any time."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from .waiting import waking

__all__ = ["ChatLoop", "Interrupts", "LeftRunning", "Stopped", "defer_interrupts"]

T = TypeVar("T")
POOL = "deep-chat"
"""The name of the loop's threads."""
STORE = "deep-sessions"
"""The name of the thread of the store, which waits for work until the store is closed."""

GRACE = 1.0
"""Seconds in which cancelled work must end."""


@contextmanager
def defer_interrupts() -> Generator[None]:
    """Defer Ctrl-C to the end of the block, so that output inside is written once and whole.

    Raised in the middle of a print, Ctrl-C leaves the text in the console's buffer, and the next print repeats it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # another thread, which gets no signals
        return
    signals: list[int] = []
    usual = signal.signal(signal.SIGINT, lambda number, _: signals.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        if signals:
            signal.raise_signal(signal.SIGINT)


class Interrupts:
    """Esc and Ctrl-C in one turn.

    The first one cancels the run and keeps its results. A second Ctrl-C leaves the run behind if it still has not
    ended; later ones are ignored, so that an impatient user does not lose the chat. Esc never leaves.

    Attributes:
        count: how often the user typed Ctrl-C.
        stops: whether the user typed either.
        left: whether the run was left behind.
    """

    def __init__(self) -> None:
        self.count = 0
        self.stops = False
        self.left = False
        self._cancel: Callable[[], None] | None = None
        self._leave: asyncio.Future[None] | None = None

    def __call__(self) -> None:
        """Take a Ctrl-C. Called in the loop."""
        self.count += 1
        self.once()
        if self.count > 1 and self._leave is not None and not self._leave.done():
            self._leave.set_result(None)

    def once(self) -> None:
        """Take an Esc: it stops, and never leaves, however often it is typed."""
        first, self.stops = not self.stops, True
        if first and self._cancel is not None:
            self._cancel()

    def repeat(self, later: Interrupts) -> None:
        """Tell what hears now what was typed before it."""
        later.count, later.stops = later.count + self.count, later.stops or self.stops

    async def run(self, work: Awaitable[T], cancel: Callable[[], None]) -> T:
        """Run something that Ctrl-C cancels.

        Raises:
            LeftRunning: Ctrl-C came twice and it has not ended. It still runs.
        """
        task = asyncio.ensure_future(work)
        self._leave = asyncio.get_running_loop().create_future()
        self._cancel = cancel
        if self.stops:
            cancel()
        if self.count > 1:
            self._leave.set_result(None)
        try:
            await asyncio.wait([task, self._leave], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._cancel = self._leave = None
        if task.done():
            return task.result()
        self.left = True
        raise LeftRunning

    def over(self) -> None:
        """End the turn: ignore Ctrl-C from now on."""
        self._cancel = None


class Stopped(Exception):
    """The user pressed Ctrl-C or Esc at a question."""


class LeftRunning(Exception):
    """A run that did not end was left behind."""


class ChatLoop:
    """The event loop of a chat, which can be left while a tool still runs.

    Cancelling ends the wait for a tool in a thread, not the tool: the thread continues, and both asyncio and the
    interpreter would wait for it before they end.
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._pool = ThreadPoolExecutor(thread_name_prefix=POOL)
        self._runner.get_loop().set_default_executor(self._pool)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""
        with waking(self._runner.get_loop()):
            return self._runner.run(work)

    async def thread_at_work(self) -> bool:
        """Whether a tool still runs in a thread of Pydantic AI after `GRACE`."""
        end = time.monotonic() + GRACE
        while any(not (thread.name.startswith(POOL) or _is_idle(thread)) for thread in _threads()):
            if time.monotonic() > end:
                return True
            await asyncio.sleep(0.01)
        return False

    def stuck(self) -> bool:
        """Whether only `os._exit` can end the process. Afterwards the loop starts no threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        return self._runner.run(_tasks_left()) or _alive()

    def close(self) -> None:
        """Close the loop, waiting for work in progress."""
        self._runner.close()


async def _tasks_left() -> bool:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    return bool(tasks) and bool((await asyncio.wait(tasks, timeout=GRACE))[1])


def _threads() -> list[threading.Thread]:
    """Return the threads that the interpreter waits for at its end, without the store's."""
    return [
        thread
        for thread in threading.enumerate()
        if not (thread.daemon or thread is threading.main_thread() or thread.name.startswith(STORE))
    ]


def _is_idle(thread: threading.Thread) -> bool:
    """Whether this is a thread of AnyIO without work: it waits for more as long as the task that began it."""
    return thread in getattr(thread, "idle_workers", ())


def _alive() -> bool:
    """Whether a thread that the interpreter waits for is still alive after `GRACE`."""
    end = time.monotonic() + GRACE
    for thread in _threads():
        thread.join(max(0.0, end - time.monotonic()))
        if thread.is_alive():
            return True
    return False
