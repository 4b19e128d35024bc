"""Waits that Ctrl-C ends at any time.

Python runs a signal's handler between two of its own steps. A signal that comes after the last step before a system
call is only marked, and the call still waits: for a key, the model, or the end of a process. Here the signal also
writes to a pipe, which ends the wait.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from io import BufferedReader, FileIO, TextIOWrapper, UnsupportedOperation
from typing import TYPE_CHECKING, Any, TextIO, overload

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from subprocess import Popen

    from _typeshed import WriteableBuffer

__all__ = ["POLL_SECONDS", "exit_code", "interruptible", "interruptible_stdin", "waking"]

POLL_SECONDS = 0.05
"""Seconds until a wait without such a pipe notices a signal."""


def interruptible(stream: TextIO) -> TextIO:
    """Wrap a stream so that a signal ends a wait; return a stream without a descriptor unchanged.

    Args:
        stream: a terminal, pipe or file that has not read ahead. It must stay open while the result is used.
    """
    descriptor = _descriptor(stream)
    return stream if descriptor is None else _reader(descriptor, stream)


def interruptible_stdin() -> TextIO:
    """`interruptible(sys.stdin)` for the rest of this process, including `input()`."""
    descriptor = _descriptor(sys.stdin)
    # A copy: `input()` reads the terminal of descriptor 0 with C functions, not Python's streams.
    return sys.stdin if descriptor is None else _reader(os.dup(descriptor), sys.stdin)


def _descriptor(stream: TextIO) -> int | None:
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    # Windows ends a wait for the console itself, and has no select for it.
    if os.name != "posix" or isinstance(raw, _Interruptible):
        return None
    try:
        return stream.fileno()
    except UnsupportedOperation:
        return None


def _reader(descriptor: int, stream: TextIO) -> TextIO:
    return TextIOWrapper(
        BufferedReader(_Interruptible(descriptor, closefd=False)), encoding=stream.encoding, errors=stream.errors
    )


class _Interruptible(FileIO):
    def readinto(self, buffer: WriteableBuffer, /) -> int:
        if _hears_signals():
            _wait_for_input(self.fileno())
        return super().readinto(buffer)


def _wait_for_input(descriptor: int) -> None:
    from select import select

    with _signals() as (signals, drain):
        ready: list[int] = []
        while descriptor not in ready:
            ready = select([descriptor, signals], [], [])[0]
            if signals in ready:
                drain()  # the handler has run and did not raise


@contextmanager
def waking(loop: AbstractEventLoop) -> Generator[None]:
    """Wake an event loop of this thread at each signal, so that its handler runs before the next event."""
    if not _hears_signals() or os.name != "posix":
        yield
        return
    with _signals() as (signals, drain):
        loop.add_reader(signals, drain)
        try:
            yield
        finally:
            loop.remove_reader(signals)


def _hears_signals() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextmanager
def _signals() -> Generator[tuple[int, Callable[[], None]]]:
    """Yield a descriptor that each signal makes readable, and the function that drains it."""
    import signal

    signals, write_end = os.pipe()
    os.set_blocking(write_end, False)
    before = -1

    def drain() -> None:
        numbers = os.read(signals, 64)
        if before != -1:
            os.write(before, numbers)  # an event loop's, which handles them later

    try:
        before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        yield signals, drain
    finally:
        signal.set_wakeup_fd(before)
        os.close(signals)
        os.close(write_end)


@overload
def exit_code(child: Popen[Any]) -> int: ...
@overload
def exit_code(child: Popen[Any], seconds: float | None) -> int | None: ...
def exit_code(child: Popen[Any], seconds: float | None = None) -> int | None:
    """Wait for a child process; None if it is still running after so many seconds."""
    from subprocess import TimeoutExpired

    end = None if seconds is None else time.monotonic() + seconds
    while end is None or time.monotonic() < end:
        with suppress(TimeoutExpired):
            return child.wait(POLL_SECONDS)  # short: without a pipe, a signal is handled after it
    return None
