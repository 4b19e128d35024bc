"""Commands that stay: the capability of a backend, and how `local` and `sandbox` have it."""

from __future__ import annotations

import atexit
import os
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Protocol, runtime_checkable

from anyio import to_thread

from . import attended
from .attended import About, Ended, Folder
from .offload import in_thread

__all__ = [
    "BackgroundCommand",
    "CommandLimits",
    "Output",
    "SupportsBackground",
    "TooManyCommands",
    "background_of",
    "end_commands",
    "how_it_ended",
    "sweep_commands",
]

QUIET = {"TERM": "dumb", "NO_COLOR": "1", "PAGER": "cat", "GIT_PAGER": "cat"}
"""Variables of a command in a terminal without a reader: no colors, no pages."""
MOST_READ = 1024 * 1024
RETRIES = 100


@dataclass(frozen=True)
class CommandLimits:
    """What commands that stay may use.

    Attributes:
        number: how many of a session run at once.
        bytes: of the log of one; it has the last of them.
        seconds: how long one runs.
    """

    number: int = 50
    bytes: int = 10 * 1024 * 1024
    seconds: int = 43_200


@dataclass(frozen=True)
class BackgroundCommand:
    """A command that stays.

    Attributes:
        name: its handle in its session, such as `c1`.
        command: what runs.
        log: where its output is, as the file tools take it.
        began: when, in seconds since 1970.
        session: whose it is.
        is_running: whether it runs.
        is_kept: whether it outlives its session.
        exit_code: its exit code, 128 + N after signal N; None while it runs, and if it is unknown.
        reason: why it ended: "" by itself; `stopped`, `time`, `owner` (its process ended), `lost`, or a sentence.
        notes: what the backend has to say of what it did.
    """

    name: str
    command: str
    log: str
    began: float
    session: str
    is_running: bool
    is_kept: bool = False
    exit_code: int | None = None
    reason: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Output:
    """A part of what a command said.

    Attributes:
        start: its first byte's place in all that it said: later than asked for if the log is too short.
        data: the bytes.
        size: of all that it said.
    """

    start: int
    data: bytes
    size: int


class TooManyCommands(RuntimeError):
    """As many commands run as may."""


@runtime_checkable
class SupportsBackground(Protocol):
    """A backend whose commands can stay, each with a terminal of its own and a log in the workspace.

    A command is known by its session and its name. It ends with the process that started it, unless it is kept.
    """

    async def start_command(
        self, command: str, *, session: str, folder: str, limits: CommandLimits
    ) -> BackgroundCommand:
        """Start a shell command, in the working directory and the environment of `run`.

        Args:
            command: the command.
            session: whose it is.
            folder: the session's folder in the workspace, where its log goes.
            limits: what it may use.

        Raises:
            TooManyCommands: the session has as many as it may.
        """
        ...

    async def list_commands(self, session: str | None = None) -> Sequence[BackgroundCommand]:
        """Return a session's commands, those that ended too; without a session, those of this workspace."""
        ...

    async def command_output(self, session: str, name: str, start: int, most: int = MOST_READ) -> Output:
        """Return what a command said from a byte on; a negative start counts from the end.

        Raises:
            KeyError: there is no such command.
        """
        ...

    async def send_input(self, session: str, name: str, data: bytes) -> bool:
        """Type something; return whether it was taken. Raises KeyError: there is no such command."""
        ...

    async def stop_command(self, session: str, name: str) -> BackgroundCommand:
        """End a command with all of its processes. Raises KeyError: there is no such command."""
        ...

    async def keep_command(self, session: str, name: str) -> BackgroundCommand:
        """Let a command outlive its session and its process. Raises KeyError: there is no such command."""
        ...


def background_of(backend: object) -> SupportsBackground | None:
    """Return what runs the commands of a backend that stay; None if it can have none.

    A backend around another one names it in its attribute `command_backend`.
    """
    while backend is not None and not isinstance(backend, SupportsBackground):
        backend = getattr(backend, "command_backend", None)
    return backend


@dataclass(eq=False, repr=False)
class Staying:
    """How a command is started.

    Attributes:
        words: the program and its arguments.
        env: its environment.
        wrapped: the processes that stand around it.
        watch: called now and then while it runs, and once after; returns the seconds until the next time, and what is
            to be told.
    """

    words: list[str]
    env: dict[str, str]
    wrapped: int = 0
    watch: Callable[[], tuple[float, list[str]]] = lambda: (3_600.0, [])


class LocalCommands:
    """The commands that stay of a backend of this machine. It has the process of each, and its log."""

    async def working_dir(self) -> str:
        """Return the directory where commands start."""
        raise NotImplementedError

    async def _open_log(self, path: str) -> int:
        raise NotImplementedError

    async def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return a part of a file."""
        raise NotImplementedError

    async def _staying(self, command: str) -> Staying:
        """Return how a shell command is started that stays."""
        raise NotImplementedError

    async def start_command(
        self, command: str, *, session: str, folder: str, limits: CommandLimits
    ) -> BackgroundCommand:
        """See `SupportsBackground`."""
        root = await self.working_dir()
        before = await to_thread.run_sync(self._running, session)
        if before >= limits.number:
            raise TooManyCommands(f"{limits.number} background commands run already: stop one first.")
        place = await to_thread.run_sync(Folder.create, session)
        try:
            path = f"{root}/{folder}/{place.name}.log"
            log = await self._open_log(path)
            try:
                how = await self._staying(command)
                mark = secrets.token_hex(16)
                about = About(command, session, root, path, time.time(), mark, await to_thread.run_sync(attended.owner))
                work = partial(
                    place.start, about, how.words, {**how.env, **QUIET}, root, log,
                    (limits.bytes, limits.seconds, how.wrapped),
                )  # fmt: skip
                # Awaited to its end: a command that nobody knows of would stay.
                process = await in_thread(work)
            finally:
                os.close(log)
        except BaseException:
            place.discard()
            raise
        _end_at_exit()
        _watches[place.path] = watch = partial(_watch, how, place)
        attended.reap(process, watch, partial(_ended, place))
        return await to_thread.run_sync(_described, place, place.about() or about)

    async def list_commands(self, session: str | None = None) -> Sequence[BackgroundCommand]:
        """See `SupportsBackground`."""
        root = await self.working_dir()

        def found() -> list[BackgroundCommand]:
            known = ((each, each.about()) for each in attended.folders(session))
            return [
                _described(each, about)
                for each, about in known
                if about is not None and (session is not None or about.root == root)
            ]

        return await to_thread.run_sync(found)

    async def command_output(self, session: str, name: str, start: int, most: int = MOST_READ) -> Output:
        """See `SupportsBackground`."""
        place, about = self._known(session, name)
        for _ in range(RETRIES):
            before = await to_thread.run_sync(place.dropped)
            held = await self._held(about.log)
            size = max(before, 0) + held
            begin = max(size + start if start < 0 else start, before, 0)
            # What is written after its size was seen belongs to the next output: it would be told twice.
            length = min(most, size - begin)
            data = await self.read_range(about.log, begin - before, length) if before >= 0 and length > 0 else b""
            if before >= 0 and before == await to_thread.run_sync(place.dropped):
                return Output(min(begin, size), data, size)
        return Output(max(start, 0), b"", max(start, 0))

    async def _held(self, path: str) -> int:
        try:
            return os.stat(path, follow_symlinks=False).st_size
        except OSError:
            return 0  # the command removed it

    async def send_input(self, session: str, name: str, data: bytes) -> bool:
        """See `SupportsBackground`."""
        place, about = self._known(session, name)
        ended = await to_thread.run_sync(place.ended, about)
        return ended is None and await to_thread.run_sync(place.send, data)

    async def stop_command(self, session: str, name: str) -> BackgroundCommand:
        """See `SupportsBackground`."""
        place, about = self._known(session, name)
        await to_thread.run_sync(place.stop)
        if (watch := _watches.get(place.path)) is not None:
            await to_thread.run_sync(watch)
        return await to_thread.run_sync(_described, place, about)

    async def keep_command(self, session: str, name: str) -> BackgroundCommand:
        """See `SupportsBackground`."""
        place, about = self._known(session, name)
        place.keep()
        return await to_thread.run_sync(_described, place, about)

    def _known(self, session: str, name: str) -> tuple[Folder, About]:
        place = Folder.of(session, name)
        about = place.about() if name[1:].isdigit() and name.isalnum() else None
        if about is None:
            raise KeyError(name)
        return place, about

    def _running(self, session: str) -> int:
        known = ((each, each.about()) for each in attended.folders(session))
        return sum(about is not None and each.ended(about) is None for each, about in known)


def _described(place: Folder, about: About) -> BackgroundCommand:
    ended = place.ended(about)
    return BackgroundCommand(
        place.name,
        about.command,
        about.log.removeprefix(f"{about.root}/"),
        about.began,
        about.session,
        is_running=ended is None,
        is_kept=place.is_kept,
        exit_code=ended.exit_code if ended else None,
        reason=ended.reason if ended else "",
        notes=tuple(place.notes()),
    )


_watches: dict[Path, Callable[[], float]] = {}
"""By folder of a command that this process started: what looks after it."""


def _watch(how: Staying, place: Folder) -> float:
    seconds, notes = how.watch()
    for note in notes:
        place.note(note)
    return seconds


def _ended(place: Folder) -> None:
    if (watch := _watches.pop(place.path, None)) is not None:
        watch()
    if (about := place.about()) is not None:
        place.ended(about)  # also one whose attendant was killed


@cache
def _end_at_exit() -> None:
    atexit.register(_end_own)


def _end_own() -> None:
    """End what this process started, but for what is kept."""
    own = attended.owner()
    found = [each for each in attended.folders() if (about := each.about()) is not None and about.owner == own]
    attended.end_all([each for each in found if not each.is_kept])


def end_commands(session: str, *, kept: bool = False) -> None:
    """End the commands of a session, because it ends. Blocks for seconds if they do not end when they are asked.

    Args:
        session: the session.
        kept: also those that may outlive it, and forget all of them: it is deleted.
    """
    found = [*attended.folders(session)]
    attended.end_all([each for each in found if kept or not each.is_kept])
    for each in found if kept else ():
        if (about := each.about()) is not None:
            attended.forget(each, about)


def sweep_commands() -> None:
    """End what processes of this user left that were killed. Cheap where no command ever stayed."""
    attended.sweep()


def how_it_ended(ended: Ended | BackgroundCommand) -> str:
    """Return in words how a command ended, to follow its name."""
    code = "" if ended.exit_code is None else f" (exit code {ended.exit_code})"
    match ended.reason:
        case "":
            return f"exited with code {ended.exit_code}"
        case "stopped":
            return f"was stopped{code}"
        case "time":
            return f"was stopped: its time was over{code}"
        case "owner":
            return f"ended with the process that started it{code}"
        case "lost":
            return "is lost: its process was killed"
        case reason:
            return f"was stopped: {reason}{code}"
