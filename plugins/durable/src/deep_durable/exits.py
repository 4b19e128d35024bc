"""What must not end a worker: a `SystemExit` in one of its tasks; and what must: an event loop that hangs."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any

__all__ = ["HUNG", "PluginExited", "ends_when_hung", "when_guard_dies", "without_exits"]

HUNG = 75
"""The exit code of a process whose event loop hung."""


class PluginExited(RuntimeError):
    """Code of a plugin, a tool or a model called `sys.exit`."""


class _Contained(Coroutine[Any, Any, Any]):
    """A coroutine whose `SystemExit` is an error like any other: asyncio would end its event loop with it."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutine = coroutine

    def send(self, value: Any) -> Any:
        try:
            return self._coroutine.send(value)
        except SystemExit as error:
            raise PluginExited(f"SystemExit: {error.code}") from error

    def throw(self, *error: Any) -> Any:
        try:
            return self._coroutine.throw(*error)
        except SystemExit as raised:
            raise PluginExited(f"SystemExit: {raised.code}") from raised

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coroutine, name)  # anyio looks at `cr_suspended` and its kin


@contextmanager
def without_exits(loop: asyncio.AbstractEventLoop) -> Generator[None]:
    """Make a `SystemExit` end the task that raises it, and not the event loop."""
    before = loop.get_task_factory()

    def make(loop: asyncio.AbstractEventLoop, coroutine: Any, **how: Any) -> Any:
        contained = _Contained(coroutine)
        return asyncio.Task(contained, loop=loop, **how) if before is None else before(loop, contained, **how)

    loop.set_task_factory(make)
    try:
        yield
    finally:
        loop.set_task_factory(before)


@contextmanager
def ends_when_hung(loop: asyncio.AbstractEventLoop, seconds: float) -> Generator[None]:
    """End the process, with the lines where it stands on stderr, if the event loop does nothing for some seconds.

    Its leases have ended by then, so that others run its sessions.
    """
    ended = threading.Event()
    missed = 0

    def tick() -> None:
        nonlocal missed
        missed = 0
        if not ended.is_set():
            loop.call_later(min(1.0, seconds / 4), tick)

    def watch() -> None:
        nonlocal missed
        # Counted, not measured: a process that was stopped and continues has not hung.
        while not ended.wait(seconds / 10):
            missed += 1
            if missed > 10:
                print(f"the event loop did nothing for {seconds:.0f} s; the process ends", file=sys.stderr)
                faulthandler.dump_traceback()
                os._exit(HUNG)

    tick()
    threading.Thread(target=watch, name="deep-watch", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def when_guard_dies(loop: asyncio.AbstractEventLoop, then: Callable[[], object]) -> None:
    """Call something in the event loop as soon as the process that started this one, and holds its stdin, has died."""

    def wait() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 1):
                pass
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(then)

    threading.Thread(target=wait, name="deep-guard", daemon=True).start()
