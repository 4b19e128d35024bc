"""Have code parsed by a process of its own: a file that crashes or blocks a parser costs no more than its limit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from anyio import (
    BrokenResourceError,
    ClosedResourceError,
    DelimiterNotFound,
    EndOfStream,
    IncompleteRead,
    fail_after,
    open_process,
)
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from .languages import LANGUAGES

__all__ = ["NOTHING", "Definition", "Parsed", "Parsing"]

PROGRAM = Path(__file__).with_name("worker.py")
FILE_SECONDS = 5.0
"""Time limit of one file: 200 KB of open brackets take a grammar 90 seconds, and true code 0.1."""
MOST_STARTS = 4
"""Processes to start in one call: after so many broken files the rest is not parsed."""
MOST_ANSWER = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Definition:
    """What a file defines.

    Attributes:
        name: without what encloses it.
        line: number of the line with the name, from 1.
        depth: how many definitions enclose it.
        signature: the code of it, up to its body, on one line.
    """

    name: str
    line: int
    depth: int
    signature: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """What was read of one file.

    Attributes:
        defined: its definitions, from its beginning on.
        used: the names in its code, and how often each.
        note: why it was not parsed; empty if it was.
    """

    defined: tuple[Definition, ...] = ()
    used: tuple[tuple[str, int], ...] = ()
    note: str = ""


NOTHING = Parsed()
_ENDED = (BrokenResourceError, ClosedResourceError, DelimiterNotFound, EndOfStream, IncompleteRead)
_BROKEN = Parsed(note="that the parser gave up")
_NO_GRAMMAR = Parsed(note="of which the grammar is not installed")


class Parsing:
    """A process that parses files, one after the other; it starts with the first and ends with the context."""

    def __init__(self, *, file_seconds: float = FILE_SECONDS, program: Path = PROGRAM) -> None:
        self._seconds = file_seconds
        self._program = program
        self._process: Process | None = None
        self._answers: BufferedByteReceiveStream | None = None
        self._starts = 0

    async def __aenter__(self) -> Parsing:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def parse(self, language: str, source: bytes) -> Parsed | None:
        """Parse a file; None if too many before it ended the process, or it cannot start."""
        if self._process is None:
            if self._starts >= MOST_STARTS:
                return None
            self._starts += 1
            try:
                await self._start()
            except (OSError, NotImplementedError):
                self._starts = MOST_STARTS
                return None
        try:
            with fail_after(self._seconds):
                answer = await self._ask(language, source)
        except (TimeoutError, ValueError, OSError, *_ENDED):
            await self._end()
            return _BROKEN
        return _parsed(answer)

    async def _start(self) -> None:
        if getattr(sys, "frozen", False) or not sys.executable:
            raise OSError("an application without a Python interpreter")
        # Isolated and without variables: neither code nor secrets of this process are within reach.
        keep = {name: os.environ[name] for name in ("SYSTEMROOT", "LD_LIBRARY_PATH") if name in os.environ}
        command = [sys.executable, "-I", "-X", "utf8", str(self._program)]
        self._process = await open_process(
            command, stderr=subprocess.DEVNULL, env=keep, cwd=Path(sys.executable).anchor
        )
        assert self._process.stdout is not None  # noqa: S101
        self._answers = BufferedByteReceiveStream(self._process.stdout)
        about = {
            "path": [path for path in sys.path if os.path.isabs(path)],
            "languages": {
                name: [each.module, each.function, each.query, each.unread] for name, each in LANGUAGES.items()
            },
        }
        await self._send(json.dumps(about).encode() + b"\n")

    async def _send(self, data: bytes) -> None:
        assert self._process is not None  # noqa: S101
        assert self._process.stdin is not None  # noqa: S101
        await self._process.stdin.send(data)

    async def _ask(self, language: str, source: bytes) -> Any:
        assert self._answers is not None  # noqa: S101
        await self._send(json.dumps({"language": language, "size": len(source)}).encode() + b"\n" + source)
        return json.loads(await self._answers.receive_until(b"\n", MOST_ANSWER))

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            process.kill()
        await process.aclose()


def _parsed(answer: dict[str, Any] | None) -> Parsed:
    if answer is None:
        return _NO_GRAMMAR
    # One object a name: most occur in many files.
    return Parsed(
        tuple(Definition(sys.intern(name), *rest) for name, *rest in answer["defined"]),
        tuple((sys.intern(name), times) for name, times in answer["used"].items()),
    )
