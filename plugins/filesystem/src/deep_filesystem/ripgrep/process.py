"""A ripgrep that this process starts, reads while it runs, and starts again once it knows more."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import IO, cast

from ..host import Limit
from .answer import Answer, Failed, check_exit
from .command import Told

__all__ = ["Restartable", "Started"]

DRAINED = 16
"""Folders of the walk between two looks at what ripgrep printed, which waits once its pipe is full."""
BLOCK = 1024 * 1024
"""Bytes of ripgrep's answer to look at together."""


class Started:
    """A ripgrep that this process started. Leaving the context kills it.

    Raises:
        Failed: it cannot be started.
    """

    def __init__(self, command: Sequence[str], folder: str) -> None:
        self._held = bytearray()  # ripgrep writes some hundred bytes at a time
        self._ended = False
        with contextlib.ExitStack() as opened:
            self._errors = opened.enter_context(tempfile.TemporaryFile())
            try:
                self._process = subprocess.Popen(
                    command,
                    cwd=folder,
                    env={"PATH": os.defpath},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=self._errors,
                    bufsize=0,
                )
            except OSError as error:
                raise Failed from error
            self._opened = opened.pop_all()
        self._output = cast("IO[bytes]", self._process.stdout)
        self._poll = select.poll()
        self._poll.register(self._output, select.POLLIN)

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *args: object) -> None:
        self._process.kill()
        self._output.close()
        self._process.wait()
        self._opened.close()

    def drain(self, seconds: float = 0) -> bool:
        """Wait so long for a piece of the answer, and hold it. Return whether one came."""
        if self._ended or not self._poll.poll(seconds * 1000):
            return False
        block = self._output.read(BLOCK)
        self._held += block
        self._ended = not block
        return not self._ended

    def runs(self, seconds: float) -> bool:
        """Whether it still runs after so many seconds."""
        end = time.monotonic() + seconds
        while not self._ended and (left := end - time.monotonic()) > 0:
            self.drain(left)
        return not self._ended

    def read(self, answer: Answer, limit: Limit) -> bool:
        """Read the rest of the answer. Return whether the time ran out.

        Raises:
            Failed: it did not search.
        """
        while limit.left and not self._ended:
            self.drain(min(limit.left, 0.1))
            if len(self._held) >= BLOCK or self._ended:
                answer.take(bytes(self._held))
                self._held.clear()
        if not self._ended:
            answer.take(bytes(self._held))
            return True
        if self._held:
            answer.take(bytes(self._held))
        check_exit(self._process.wait())
        self._errors.seek(0)
        answer.end(self._errors.read().decode("utf-8", "surrogateescape"))
        return False


class Restartable:
    """A ripgrep that runs beside a walk, once it is started. Leaving the context kills it."""

    def __init__(self, run: Callable[[Told], Started]) -> None:
        self.told = Told([])
        self._run = run
        self._started: Started | None = None
        self._asked = 0

    def __enter__(self) -> Restartable:
        return self

    def __exit__(self, *args: object) -> None:
        if self._started is not None:
            self._started.__exit__()

    def start(self, told: Told) -> None:
        """Start it, or start it again."""
        self.__exit__()
        self.told, self._started = told, None
        self._started = self._run(told)

    def drain(self) -> None:
        """Take what it printed, so that it goes on; not at every call, because to look takes time too."""
        self._asked += 1
        if self._started is not None and self._asked % DRAINED == 0:
            while self._started.drain():
                pass

    def runs(self, seconds: float) -> bool:
        """Whether it still runs after so many seconds."""
        return self._started is not None and self._started.runs(seconds)

    def read(self, answer: Answer, limit: Limit) -> bool:
        """Read the rest of the answer. Return whether the time ran out.

        Raises:
            Failed: it did not search, or was never started.
        """
        if self._started is None:
            raise Failed
        return self._started.read(answer, limit)
