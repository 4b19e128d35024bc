"""An event loop in a thread of its own: connections to servers outlive the event loops of runs."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

__all__ = ["Worker"]

T = TypeVar("T")


class Worker:
    """Runs coroutines in one event loop, which starts with the first of them. For every thread and event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0

    @property
    def is_running(self) -> bool:
        """Whether the thread has started in this process. A forked process has no copy of it."""
        return self._loop is not None and self._process == os.getpid()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine in the worker's event loop."""
        with self._lock:
            if self._loop is None or self._process != os.getpid():
                self._process = os.getpid()
                self._loop = asyncio.new_event_loop()
                # A daemon: a program that never closes its kernel must end.
                self._thread = threading.Thread(target=self._run, args=(self._loop,), name="deep-mcp", daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine in the worker's event loop. A cancelled caller cancels it."""
        return await asyncio.wrap_future(self.submit(work))

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    def stop(self, seconds: float = 10.0) -> None:
        """End the thread. Wait for it up to `seconds`."""
        with self._lock:
            loop, thread, ours = self._loop, self._thread, self._process == os.getpid()
            self._loop = self._thread = None
        if loop is not None and thread is not None and ours:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(seconds)
