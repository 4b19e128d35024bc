"""Have code parsed by a process of its own: a file that crashes or blocks a parser costs no more than its limit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from anyio import fail_after, to_thread

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
        words: the words of its names, comments and texts, in lower case.
        note: why it was not parsed; empty if it was.
    """

    defined: tuple[Definition, ...] = ()
    used: tuple[tuple[str, int], ...] = ()
    words: frozenset[str] = frozenset()
    note: str = ""


NOTHING = Parsed()
_BROKEN = Parsed(note="that the parser gave up")
_NO_GRAMMAR = Parsed(note="of which the grammar is not installed")


class Parsing:
    """A process that parses files, one after the other; it starts with the first and ends with the context."""

    def __init__(self, *, file_seconds: float = FILE_SECONDS, program: Path = PROGRAM) -> None:
        self._seconds = file_seconds
        self._program = program
        self._worker: Worker | None = None
        self._starts = 0

    async def __aenter__(self) -> Parsing:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    async def parse(self, language: str, source: bytes) -> Parsed | None:
        """Parse a file; None if too many before it ended the process, or it cannot start."""
        if self._worker is None:
            if self._starts >= MOST_STARTS or getattr(sys, "frozen", False) or not sys.executable:
                return None
            self._starts += 1
            self._worker = Worker(self._program)
        try:
            with fail_after(self._seconds):
                answer = await to_thread.run_sync(self._worker.ask, language, source, abandon_on_cancel=True)
        except (TimeoutError, ValueError, OSError):
            self._end()
            return _BROKEN
        return _parsed(answer)

    def _end(self) -> None:
        if self._worker is not None:
            self._worker.end()
        self._worker = None


class Worker:
    """One process. Threads ask it; `end` ends it from another thread, and they get an error.

    It is no process of the event loop, because a cancelled start would leave that one to nobody.

    Attributes:
        process: once it was asked.
    """

    def __init__(self, program: Path) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self._program = program
        self._lock = threading.Lock()
        self._ended = False

    def ask(self, language: str, source: bytes) -> Any:
        """Return the answer to a file.

        Raises:
            OSError, ValueError: the process cannot start, or ended before it answered.
        """
        stdin, stdout = self._pipes()
        stdin.write(json.dumps({"language": language, "size": len(source)}).encode() + b"\n" + source)
        stdin.flush()
        return json.loads(stdout.readline(MOST_ANSWER))

    def end(self) -> None:
        """End it."""
        with self._lock:
            self._ended = True
            process = self.process
        if process is not None:
            process.kill()
            process.wait()
            # A thread that still asks holds the pipes until it sees that they are broken.
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):
                    _opened(pipe).close()

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        with self._lock:
            if self._ended:
                raise OSError("it has ended")
            new = self.process is None
            process = self.process = self.process or self._start()
        stdin, stdout = _opened(process.stdin), _opened(process.stdout)
        if new:
            about = {
                "path": [path for path in sys.path if os.path.isabs(path)],
                "languages": {
                    name: [each.module, each.function, each.query, each.unread] for name, each in LANGUAGES.items()
                },
            }
            stdin.write(json.dumps(about).encode() + b"\n")
        return stdin, stdout

    def _start(self) -> subprocess.Popen[bytes]:
        # Isolated and without variables: neither code nor secrets of this process are within reach.
        return subprocess.Popen(
            [sys.executable, "-I", "-X", "utf8", str(self._program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in ("SYSTEMROOT", "LD_LIBRARY_PATH") if name in os.environ},
            cwd=Path(sys.executable).anchor,
        )


def _opened(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise OSError("the process that parses has no pipes")
    return pipe


def _parsed(answer: dict[str, Any] | None) -> Parsed:
    if answer is None:
        return _NO_GRAMMAR
    # One object a name: most occur in many files.
    return Parsed(
        tuple(Definition(sys.intern(name), *rest) for name, *rest in answer["defined"]),
        tuple((sys.intern(name), times) for name, times in answer["used"].items()),
        frozenset(map(sys.intern, answer["words"])),
    )
