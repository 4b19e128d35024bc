"""Watch the steps of an event loop: how long each one held it, and where a task waits.

A task of asyncio accepts any coroutine object, so every task of the loop gets one that watches its
steps. The loop and the code under test are unchanged.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType
from typing import Any, TypeVar, cast

__all__ = ["Hold", "Holds", "Place", "Suspensions", "run_watched"]

T = TypeVar("T")
Wrote = Callable[[str], bool]


@dataclass(frozen=True)
class Place:
    """A line of the plugin's code."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


class Steps:
    """Receives every step of every task. The base class ignores them."""

    def begin(self) -> None:
        """A step begins."""

    def end(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """A step has ended: the coroutine waits, or is done."""


class _Watched(Coroutine[Any, Any, Any]):
    """A coroutine that reports its steps."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], steps: Steps) -> None:
        self._coroutine = coroutine
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coroutine, name)  # cr_frame, cr_running: anyio reads them

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        self._steps.begin()
        try:
            return self._coroutine.send(value)
        finally:
            self._steps.end(self._coroutine)

    def throw(self, *error: Any) -> Any:
        self._steps.begin()
        try:
            return self._coroutine.throw(*error)
        finally:
            self._steps.end(self._coroutine)

    def close(self) -> None:
        self._coroutine.close()


def run_watched(main: Coroutine[Any, Any, T], steps: Steps) -> T:
    """Run in a new event loop whose tasks report their steps."""

    def factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **how: Any) -> asyncio.Task[Any]:
        return asyncio.Task(_Watched(coroutine, steps), loop=loop, **how)

    with asyncio.Runner() as runner:
        runner.get_loop().set_task_factory(factory)
        return runner.run(main)


@dataclass(frozen=True)
class Hold:
    """A step that held the loop.

    Attributes:
        milliseconds: how long, on the clock.
        place: the innermost line of the plugin during the step.
    """

    milliseconds: float
    place: Place


class Holds(Steps):
    """The steps that took longer than a limit while code of the plugin was running.

    A second thread looks at the stack of a long step. If it has no line of the plugin, the machine
    or foreign code was slow.
    """

    def __init__(self, limit: float, wrote: Wrote) -> None:
        self.limit = limit
        self._holds: list[Hold] = []
        self._over = 0
        self._wrote = wrote
        self._began: float | None = None
        self._place: Place | None = None

    def begin(self) -> None:
        """Note the time."""
        self._place = None
        self._began = time.perf_counter()

    def end(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Count the step if it took too long."""
        began, self._began = self._began, None
        elapsed = 0.0 if began is None else (time.perf_counter() - began) * 1000
        if elapsed > self.limit:
            self._over += 1
            if self._place is not None:
                self._holds.append(Hold(elapsed, self._place))

    def take(self) -> tuple[list[Hold], int]:
        """Return those steps since the last call, and how many were too long in any code."""
        holds, over = self._holds, self._over
        self._holds, self._over = [], 0
        return holds, over

    @contextmanager
    def watching(self) -> Generator[None]:
        """Watch this thread's steps until the block ends."""
        over = threading.Event()
        thread_id = threading.get_ident()

        def look() -> None:
            while not over.wait(self.limit / 5000):
                began = self._began
                if began is not None and (time.perf_counter() - began) * 1000 > self.limit / 3:
                    self._place = self._place or _own_line(sys._current_frames().get(thread_id), self._wrote)  # pyright: ignore[reportPrivateUsage]

        thread = threading.Thread(target=look, name="pytest-deep-holds")
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def _own_line(frame: FrameType | None, wrote: Wrote) -> Place | None:
    """The innermost line of the plugin; None while a foreign coroutine runs that the plugin awaits.

    Code that a plugin calls counts as its own; code that it awaits could have avoided blocking.
    """
    while frame is not None:
        code = frame.f_code
        if wrote(code.co_filename):
            # A generator expression or a lambda has no useful name: its function does.
            if not code.co_name.startswith("<") or not _has_caller(frame, wrote):
                return Place(code.co_filename, frame.f_lineno, code.co_name)
        elif code.co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR):
            return None
        frame = frame.f_back
    return None


def _has_caller(frame: FrameType, wrote: Wrote) -> bool:
    while frame.f_back is not None:
        frame = frame.f_back
        if wrote(frame.f_code.co_filename):
            return True
    return False


class Suspensions(Steps):
    """Cancel the task that first waits at a line of the plugin where no earlier run was cancelled.

    Attributes:
        place: the line in this run; None before the cancellation.
        task: the task that waited there.
    """

    def __init__(self, places: set[Place], wrote: Wrote) -> None:
        self.places = places
        self.place: Place | None = None
        self.task: asyncio.Task[Any] | None = None
        self._wrote = wrote

    def end(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Cancel the task if it waits at a new place."""
        if self.place is not None:
            return
        place = _waits_at(coroutine, self._wrote)
        if place is None or place in self.places:
            return
        task = asyncio.current_task()
        if task is not None:
            self.places.add(place)
            self.place, self.task = place, task
            # After this step, when the task knows what it waits for.
            task.get_loop().call_soon(task.cancel)


def _waits_at(waiting: Any, wrote: Wrote) -> Place | None:
    """The innermost line of the plugin at which a task waits; None for a task that the plugin started itself.

    The plugin must cancel such a task; the code that awaits it is checked like any other.
    """
    frames = [frame for frame in _frames(waiting) if not frame.f_globals.get("__name__", "").startswith("anyio.")]
    if not frames or wrote(frames[0].f_code.co_filename):
        return None
    own = [frame for frame in frames if wrote(frame.f_code.co_filename)]
    return Place(own[-1].f_code.co_filename, own[-1].f_lineno, own[-1].f_code.co_name) if own else None


def _frames(waiting: Any) -> Iterator[FrameType]:
    while waiting is not None:
        for name in ("cr_frame", "gi_frame", "ag_frame"):
            frame: FrameType | None = getattr(waiting, name, None)
            if frame is not None:
                yield frame
        waiting = _next_awaitable(waiting)


def _next_awaitable(waiting: Any) -> Any:
    if isinstance(waiting, CoroutineType):
        return waiting.cr_await
    if isinstance(waiting, GeneratorType):
        return cast("Any", waiting).gi_yieldfrom
    if isinstance(waiting, AsyncGeneratorType):
        return waiting.ag_await
    # The awaitables of async generators and of __await__ hide what they await; the collector knows.
    kinds = (CoroutineType, GeneratorType, AsyncGeneratorType)
    inside: list[Any] = [o for o in gc.get_referents(waiting) if isinstance(o, kinds)]
    return inside[0] if type(waiting).__module__ == "builtins" and inside else None
