"""Commands that stay: what `execute(background=true)`, `read_output`, `send_input` and `stop_command` do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from anyio import move_on_after, sleep, to_thread
from deep_backends import (
    BackgroundCommand,
    CommandLimits,
    SupportsBackground,
    TooManyCommands,
    background_of,
    end_commands,
    how_it_ended,
)
from pydantic_ai import RunContext
from pydantic_ai.exceptions import ToolFailed

from deep_core import DeepAgentDeps
from deep_core.plugin_api import folder_name, suggest

from .commands import cut
from .dialect import BadPattern, Dialect, read_pattern
from .matching import Matching
from .slot import COMMANDS
from .stored import ROOT, stored_files

if TYPE_CHECKING:
    from deep_core import PluginKernel, SessionState

    from .options import FilesystemOptions

__all__ = ["Commands", "background_commands", "end_session_commands", "keep_command", "plain", "stop_command"]

STARTING = 1.0
"""Seconds in which a command that starts wrong ends, most of the time."""
POLL = (0.02, 0.25)
"""Seconds between two looks at the output: at first, and at most."""
PAUSE = 0.3
"""Seconds without output after which a program that was typed to has answered."""
LINE = 4_095
"""Bytes of a line that a terminal takes."""
MOST_INPUT = 64 * 1024
MOST_TAIL = 2_000
LAST = 2_000
"""Characters shown of a command that is stopped."""
RUNNING = "is running"
CANNOT = "This workspace cannot keep a command running: run it without background."
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_]|[()][0-9A-B])|\x07|.\x08")


class Commands:
    """The commands that stay of sessions.

    Args:
        options: the limits.
    """

    def __init__(self, options: FilesystemOptions) -> None:
        self._options = options

    async def start(self, ctx: RunContext[Any], state: SessionState, command: str) -> str:
        """Start a command; return its name, and what it said if it ended at once."""
        backend = background_of(ctx.workspace.backend)
        if backend is None:
            raise ToolFailed(CANNOT)
        options, session = self._options, session_of(ctx)
        files = stored_files(ctx.deps)
        folder = files.folder if files is not None else f"{ROOT}/{folder_name(session)}"
        limits = CommandLimits(options.background_commands, options.background_bytes, options.background_seconds)
        try:
            found = await backend.start_command(command, session=session, folder=folder, limits=limits)
        except TooManyCommands as error:
            raise ToolFailed(str(error)) from error
        state[COMMANDS][found.name] = 0
        _end_with_kernel(ctx.deps, session)
        with move_on_after(STARTING):
            pause = POLL[0]
            while (found := await _find(backend, session, found.name)).is_running:
                await sleep(pause)
                pause = min(pause * 1.5, POLL[1])
        if found.is_running:
            # What it says is for read_output: a line that this call had shown, `until` would wait for in vain.
            return f"{found.name} {RUNNING}; its log: {found.log}"
        return self._report(found, (await self._new(backend, session, state, found.name)).shown())

    async def read(
        self, ctx: RunContext[Any], state: SessionState, name: str, wait: int, until: str | None, tail: int | None
    ) -> str:
        """Return what a command said since the last time, or its last lines."""
        backend, session, found = await self._known(ctx, state, name)
        limit = self._options.execute_chars
        if tail is not None:
            size = min(max(tail, 1), MOST_TAIL)
            output = await backend.command_output(session, name, -limit * 4)
            lines = plain(output.data).splitlines()[-size:]
            state[COMMANDS][name] = output.size
            return self._report(found, "\n".join(lines))
        heard = await self._new(backend, session, state, name, seconds=self._bounded(wait), until=until)
        return self._report(await _find(backend, session, name), heard.shown(), missed="" if heard.matched else until)

    async def send(
        self, ctx: RunContext[Any], state: SessionState, name: str, text: str, wait: int, until: str | None
    ) -> str:
        """Type a line, and return what the command answers."""
        backend, session, found = await self._known(ctx, state, name)
        # A line ends with Enter. Ctrl-C and its kin are typed alone.
        typed = text if text and (text[-1] < " " or text[-1] == "\x7f") else f"{text}\n"
        data = typed.encode("utf-8", "surrogateescape")
        if len(data) > MOST_INPUT or any(len(line) > LINE for line in data.splitlines()):
            raise ToolFailed(
                f"A terminal takes lines of {LINE:,} bytes, {MOST_INPUT:,} at once. Write a file, and let it read that."
            )
        before = await self._new(backend, session, state, name)
        if not found.is_running or not await backend.send_input(session, name, data):
            found = await _find(backend, session, name)
            why = how_it_ended(found) if not found.is_running else "does not read what is typed"
            raise ToolFailed(f"{name} {why}.")
        seconds = self._bounded(wait)
        heard = await self._new(backend, session, state, name, seconds=seconds, until=until, answers=True)
        found, missed = await _find(backend, session, name), "" if heard.matched else until
        return self._report(found, before.shown() + heard.shown(), missed=missed)

    async def stop(self, ctx: RunContext[Any], state: SessionState, name: str) -> str:
        """End a command with all of its processes, and return what it said last."""
        backend, session, found = await self._known(ctx, state, name)
        if found.is_running:
            found = await backend.stop_command(session, name)
        last = (await self._new(backend, session, state, name)).shown()
        return self._report(found, cut(last, min(LAST, self._options.execute_chars)))

    # -- output ------------------------------------------------------------------------------------------------------

    async def _new(
        self,
        backend: SupportsBackground,
        session: str,
        state: SessionState,
        name: str,
        *,
        seconds: float = 0,
        until: str | None = None,
        answers: bool = False,
    ) -> _Gathered:
        """Return the output since the last time.

        Args:
            backend: runs the command.
            session: whose it is.
            state: the session's.
            name: the command's.
            seconds: how long to wait, at most.
            until: for a line with a match of this; without one, for the command's end.
            answers: whether a pause in the output ends the wait too.
        """
        try:
            dialect = read_pattern(until) if until else None
        except BadPattern as error:
            raise ToolFailed(str(error)) from error
        found = _Gathered(state[COMMANDS].get(name, 0), self._options.execute_chars)
        with move_on_after(seconds or None):
            pause, quiet, last = POLL[0], 0.0, seconds <= 0
            while True:
                # What it says after the last look is for the next time: a flood has no end.
                while await found.read(backend, session, name):
                    pause, quiet = POLL[0], 0.0
                    if dialect is not None and await found.matches(dialect):
                        return found.taken(state, name)
                if last or (answers and dialect is None and found.text and quiet >= PAUSE):
                    break
                last = not (await _find(backend, session, name)).is_running
                await sleep(0 if last else pause)
                quiet += pause
                pause = min(pause * 2, POLL[1])
        return found.taken(state, name)

    def _bounded(self, wait: int) -> float:
        return float(min(max(wait, 0), self._options.execute_seconds))

    def _report(self, found: BackgroundCommand, text: str, where: str = "", *, missed: str | None = "") -> str:
        how = RUNNING if found.is_running else how_it_ended(found)
        without = f"; no line has {missed!r} yet" if missed and found.is_running else ""
        body = cut(text.strip("\n"), self._options.execute_chars)
        cut_at = f"; all of it: {found.log}" if body != text.strip("\n") else ""
        notes = [f"[{note}]" for note in found.notes]
        return "\n".join([f"{found.name} {how}{without}{where or cut_at}.", *notes, body or "[no new output]"])

    async def _known(
        self, ctx: RunContext[Any], state: SessionState, name: str
    ) -> tuple[SupportsBackground, str, BackgroundCommand]:
        backend, session = background_of(ctx.workspace.backend), session_of(ctx)
        if backend is None:
            raise ToolFailed(CANNOT)
        known = await backend.list_commands(session)
        found = next((each for each in known if each.name == name), None)
        if found is None:
            names = [each.name for each in known]
            raise ToolFailed(
                f"There is no command {name!r}.{suggest(name, names)} Commands: {', '.join(names) or 'none'}."
            )
        return backend, session, found


class _Gathered:
    """New output, of which the beginning and the end are kept."""

    def __init__(self, at: int, most: int) -> None:
        self.at = at
        self.text = ""
        self.matched = False
        self._target: int | None = None
        self._most = most
        self._head = ""
        self._line = ""
        self._fresh = ""
        self._skipped = 0

    async def read(self, backend: SupportsBackground, session: str, name: str) -> bool:
        """Read a piece of what there was when the first piece was read; return whether there was anything."""
        if self._target is not None and self.at >= self._target:
            self._target = None
            return False
        output = await backend.command_output(session, name, self.at)
        self._target = output.size if self._target is None else self._target
        data = output.data[: len(output.data) - _incomplete(output.data)]
        self._skipped += max(output.start - self.at, 0)
        self.at = output.start + len(data)
        if not data:
            self._target = None
            return False
        fresh = plain(data)
        self._fresh = self._line + fresh
        self._line = self._fresh.rpartition("\n")[2][-LINE:]
        self.text += fresh
        if len(self.text) > 4 * self._most:
            self._head = self._head or self.text[: self._most]
            self.text = self.text[-2 * self._most :]
        return True

    async def matches(self, dialect: Dialect) -> bool:
        """Whether a new line, or the one under way, has a match."""
        async with Matching(dialect) as matching:
            self.matched = (await matching.match(self._fresh, 1)).count > 0
        return self.matched

    def taken(self, state: SessionState, name: str) -> _Gathered:
        """Remember that the model has it."""
        state[COMMANDS][name] = self.at
        return self

    def shown(self) -> str:
        """Return it."""
        skipped = f"[{self._skipped:,} bytes were dropped: the log is full]\n" if self._skipped else ""
        middle = "\n[...]\n" if self._head else ""
        return f"{skipped}{self._head}{middle}{self.text}"


def _incomplete(data: bytes) -> int:
    """Return the bytes of a character that is not there as a whole, at the end of a text."""
    for back in range(1, min(4, len(data))):
        if data[-back] & 0xC0 != 0x80:
            need = 2 if data[-back] >> 5 == 0b110 else 3 if data[-back] >> 4 == 0b1110 else 4
            return back if data[-back] >= 0xC0 and need > back else 0
    return 0


def plain(data: bytes) -> str:
    """Return what a terminal's bytes say: without its escapes, and of a line that was written over, the last."""
    text = _ESCAPES.sub("", data.decode("utf-8", "replace")).replace("\r\n", "\n")
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def session_of(ctx: RunContext[Any]) -> str:
    """Return the session of a run; its conversation in agents without sessions."""
    deps: object = ctx.deps
    return deps.session_id if isinstance(deps, DeepAgentDeps) else ctx.conversation_id or ctx.run_id or "conversation"


def _end_with_kernel(deps: object, session: str) -> None:
    """End a session's commands when its kernel closes: for most applications that is its end."""
    if isinstance(deps, DeepAgentDeps) and (kernel := deps.state.bound) is not None:
        known = _closing.setdefault(kernel, set())
        if session not in known:
            known.add(session)
            kernel.on_close("filesystem", partial(end_commands, session))


_closing: WeakKeyDictionary[PluginKernel, set[str]] = WeakKeyDictionary()


async def _find(backend: SupportsBackground, session: str, name: str) -> BackgroundCommand:
    return next(each for each in await backend.list_commands(session) if each.name == name)


# -- for people --------------------------------------------------------------------------------------------------


async def background_commands(deps: DeepAgentDeps[Any]) -> Sequence[BackgroundCommand]:
    """Return the commands of a session that stay, and those of its workspace that are kept. Needs its `backend`."""
    backend = background_of(deps.backend)
    if backend is None:
        return []
    own = await backend.list_commands(deps.session_id)
    others = await backend.list_commands()
    return [*own, *(each for each in others if each.session != deps.session_id and each.is_kept and each.is_running)]


async def stop_command(deps: DeepAgentDeps[Any], name: str, session: str | None = None) -> BackgroundCommand:
    """End a command that stays. Raises KeyError: there is none of this name."""
    return await _backend(deps).stop_command(session or deps.session_id, name)


async def keep_command(deps: DeepAgentDeps[Any], name: str, session: str | None = None) -> BackgroundCommand:
    """Let a command outlive its session and its process. Raises KeyError: there is none of this name."""
    return await _backend(deps).keep_command(session or deps.session_id, name)


async def end_session_commands(deps: DeepAgentDeps[Any]) -> None:
    """End a session's commands that are not kept, because it ends."""
    await to_thread.run_sync(end_commands, deps.session_id)


async def forget_session_commands(session: str) -> None:
    """End all commands of a session, and remove their logs, because it is deleted."""
    await to_thread.run_sync(partial(end_commands, session, kept=True))


def _backend(deps: DeepAgentDeps[Any]) -> SupportsBackground:
    backend = background_of(deps.backend)
    if backend is None:
        raise KeyError("this workspace keeps no commands")
    return backend
