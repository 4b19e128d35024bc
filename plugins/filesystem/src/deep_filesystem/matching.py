"""Run `linematch` in the event loop's threads if the cost is bounded, else in its own process."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import cast

from anyio import open_process, to_thread
from anyio.abc import ByteSendStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream

from .dialect import Dialect
from .linematch import LineMatcher, Lines, longest_line

__all__ = ["Matching"]

INLINE = 16 * 1024
"""Maximum characters to match without a change of thread, which costs about 100 microseconds."""
MAX_STEPS = 100_000_000
"""Maximum product of longest line and text length for a pattern with one unbounded repetition in this process.

A regular expression holds the interpreter's lock while it matches, even in a thread: this is about a second. Longer
searches get a process, which can be stopped."""
MAX_ANSWER = 32 * 1024 * 1024


@dataclass
class _Child:
    process: Process
    requests: ByteSendStream
    answers: BufferedByteReceiveStream


class Matching:
    """One search: a pattern and, once a text needs it, a process. Leaving the context ends the process."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._matcher = LineMatcher(dialect.lines, dialect.text)
        self._child: _Child | None = None

    async def __aenter__(self) -> Matching:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child is not None:
            if self._child.process.returncode is None:
                self._child.process.kill()
            await self._child.process.aclose()

    async def match(self, text: str, most: int, offset: int = 0) -> Lines:
        """Like `LineMatcher.match`. Cancelling it stops a process that is still matching."""
        if not self._is_bounded(text):
            return await self._ask(text, most, offset)
        if len(text) <= INLINE:
            return self._matcher.match(text, most, offset)
        return await to_thread.run_sync(self._matcher.match, text, most, offset)

    def match_here(self, text: str, most: int, *, first: bool) -> Lines | None:
        """Like `LineMatcher.match`, in the caller's thread; None if that could take long."""
        return self._matcher.match(text, most, first=first) if self._is_bounded(text) else None

    def _is_bounded(self, text: str) -> bool:
        dialect = self._dialect
        if dialect.linear:
            return True
        return dialect.simple and (len(text) * len(text) <= MAX_STEPS or longest_line(text) * len(text) <= MAX_STEPS)

    async def _ask(self, text: str, most: int, offset: int) -> Lines:
        child = self._child = self._child or await _start(self._dialect)
        data = text.encode("utf-8", "surrogateescape")
        await child.requests.send(json.dumps({"size": len(data), "most": most, "offset": offset}).encode() + b"\n")
        await child.requests.send(data)
        count, shown = cast(
            "tuple[int, list[tuple[int, str | None]]]", json.loads(await child.answers.receive_until(b"\n", MAX_ANSWER))
        )
        return Lines(count, [(number, line) for number, line in shown])


async def _start(dialect: Dialect) -> _Child:
    script = str(Path(__file__).with_name("linematch.py"))
    # -I: neither the environment nor the working directory affects the child's imports.
    process = await open_process([sys.executable, "-I", "-S", "-X", "utf8", script], stderr=subprocess.DEVNULL)
    if process.stdin is None or process.stdout is None:
        raise OSError("the matching process was started without pipes")
    setup = {"lines": dialect.lines, "text": dialect.text}
    await process.stdin.send(json.dumps(setup).encode() + b"\n")
    return _Child(process, process.stdin, BufferedByteReceiveStream(process.stdout))
