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
    """Ctrl-C in one turn.

    The first one cancels the run and keeps its results. A second one leaves the run behind if it still has not ended;
    later ones are ignored, so that an impatient user does not lose the chat.

    Attributes:
        count: how often the user typed Ctrl-C.
        left: whether the run was left behind.
    """

    def __init__(self) -> None:
        self.count = 0
        self.left = False
        self._cancel: Callable[[], None] | None = None
        self._leave: asyncio.Future[None] | None = None

    def __call__(self) -> None:
        """Take a Ctrl-C. Called in the loop."""
        self.count += 1
        if self._cancel is None:
            return
        if self.count == 1:
            self._cancel()
        elif self._leave is not None and not self._leave.done():
            self._leave.set_result(None)

    async def run(self, work: Awaitable[T], cancel: Callable[[], None]) -> T:
        """Run something that Ctrl-C cancels.

        Raises:
            LeftRunning: Ctrl-C came twice and it has not ended. It still runs.
        """
        task = asyncio.ensure_future(work)
        self._leave = asyncio.get_running_loop().create_future()
        self._cancel = cancel
        if self.count:
            cancel()
        try:
            await asyncio.wait([task, self._leave], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._cancel = None
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

    def thread_at_work(self) -> bool:
        """Whether a tool still runs in a thread of Pydantic AI, after a short wait: idle threads end with their run."""
        return _alive(lambda thread: not thread.name.startswith(POOL))

    def stuck(self) -> bool:
        """Whether only `os._exit` can end the process. Afterwards the loop starts no threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        return self._runner.run(_tasks_left()) or _alive(lambda thread: True)

    def close(self) -> None:
        """Close the loop, waiting for work in progress."""
        self._runner.close()


async def _tasks_left() -> bool:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    return bool(tasks) and bool((await asyncio.wait(tasks, timeout=GRACE))[1])


def _alive(counts: Callable[[threading.Thread], bool]) -> bool:
    """Whether a thread that the interpreter waits for is still alive after `GRACE`."""
    end = time.monotonic() + GRACE
    for thread in threading.enumerate():
        if thread.daemon or thread is threading.main_thread() or thread.name.startswith(STORE):
            continue
        if counts(thread):
            thread.join(max(0.0, end - time.monotonic()))
            if thread.is_alive():
                return True
    return False
