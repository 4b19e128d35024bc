"""What Ctrl-C means while a turn of a chat is under way, and an event loop that can be left all the same."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from .waiting import waking

__all__ = ["ChatLoop", "Interrupts", "held"]

T = TypeVar("T")
POOL = "deep-chat"
"""How the loop's own threads are called."""

GRACE = 1.0
"""Seconds that what was cancelled is given to end."""


@contextmanager
def held() -> Generator[None]:
    """Ctrl-C is heard at the end: what is written in between is written once, and whole.

    Raised in the middle of a print it leaves the text in the console's buffer, and the next print shows it again.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are not heard here
        return
    typed: list[int] = []
    usual = signal.signal(signal.SIGINT, lambda number, _: typed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        if typed:
            signal.raise_signal(signal.SIGINT)


class Interrupts:
    """Ctrl-C in one turn.

    The first one cancels the run, so that what it did is kept; without a run under way (a question stands), it raises
    KeyboardInterrupt. A second one raises while the run still has not ended; later ones are ignored: whoever is
    impatient is not to lose the chat.

    Attributes:
        running: whether a run is under way.
        typed: how often Ctrl-C was typed.
    """

    def __init__(self) -> None:
        self.running = False
        self.typed = 0
        self._cancel: Callable[[], None] | None = None

    @contextmanager
    def heard(self) -> Generator[None]:
        """Take Ctrl-C, until the turn is over."""
        usual = signal.signal(signal.SIGINT, self._on_signal)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, usual)

    @contextmanager
    def cancelling(self, cancel: Callable[[], None]) -> Generator[None]:
        """A run is under way, which `cancel` ends; it is called by the signal handler.

        Raises:
            KeyboardInterrupt: Ctrl-C was typed twice, and the run has not ended: `running` stays true.
        """
        self._cancel, self.running = cancel, True
        try:
            yield
        except KeyboardInterrupt:
            raise
        except BaseException:
            self._cancel, self.running = None, False
            raise
        self._cancel, self.running = None, False

    def over(self) -> None:
        """The turn has ended: ignore Ctrl-C from now on."""
        self.typed += 1
        self._cancel, self.running = None, False

    def _on_signal(self, *_: object) -> None:
        self.typed += 1
        if self.typed == 1 and self._cancel is not None:
            self._cancel()
        elif self.typed == 1 or self.running:
            raise KeyboardInterrupt


class ChatLoop:
    """The event loop of a chat, which can be left though a tool does not stop.

    Cancelling ends the wait for a tool in a thread, not the tool: the thread goes on, and both asyncio and the
    interpreter would wait for it at their end.
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._pool = ThreadPoolExecutor(thread_name_prefix=POOL)
        self._runner.get_loop().set_default_executor(self._pool)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it to its end."""
        with waking(self._runner.get_loop()):
            return self._runner.run(work)

    def soon(self, callback: Callable[[], None]) -> None:
        """Call it in the loop, from a signal handler too."""
        self._runner.get_loop().call_soon_threadsafe(callback)

    def thread_at_work(self) -> bool:
        """Whether a tool goes on in a thread of Pydantic AI's, after a short wait: idle ones end with their run."""
        return _alive(lambda thread: not thread.name.startswith(POOL))

    def stuck(self) -> bool:
        """Whether something does not end, so that only `os._exit` ends the process. Nothing runs in threads after."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        return self._runner.run(_tasks_left()) or _alive(lambda thread: True)

    def close(self) -> None:
        """End it, waiting for what is at work."""
        self._runner.close()


async def _tasks_left() -> bool:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    return bool(tasks) and bool((await asyncio.wait(tasks, timeout=GRACE))[1])


def _alive(counts: Callable[[threading.Thread], bool]) -> bool:
    """Whether a thread that the interpreter waits for is still alive after the grace."""
    end = time.monotonic() + GRACE
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.main_thread() and counts(thread):
            thread.join(max(0.0, end - time.monotonic()))
            if thread.is_alive():
                return True
    return False
