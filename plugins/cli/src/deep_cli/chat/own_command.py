"""`!COMMAND` in a chat: a command of the user's own, which Esc and Ctrl-C stop. `@!` gives the model its output."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from deep_core.plugin_api import find_program

from ..terminal.interrupts import LeftRunning

if TYPE_CHECKING:
    from .conversation import Chat
    from .screen import ChatScreen

__all__ = ["OUTPUT", "run_own", "wants_terminal"]

OUTPUT = 40
"""Lines shown of a command."""
KEPT = 2_000
"""Lines kept of a command, for the model."""
LINE_BYTES = 4_000
"""Bytes kept of a line."""
GRACE = 2.0
"""Seconds until a command that was interrupted is killed."""
# Programs that show a screen of their own or read keys, whatever their arguments are.
_ALWAYS = re.compile(
    r"vim?|nvim|view|vimdiff|nano|pico|emacs|micro|hx|joe|ne|mcedit|less|more|man|top|htop|btop|watch|tig|lazygit|mc"
    r"|ranger|nnn|ssh|telnet|mosh|tmux|screen|fzf|passwd|su|visudo|dialog|whiptail"
)
# Programs that do without arguments.
_ALONE = re.compile(r"i?python3?|node|irb|ghci|(?:ba|z|fi)?sh|psql|sqlite3|mysql|redis-cli|bc|gdb")
_EDITS = re.compile(r"^(?:-[ipe]|--interactive|--patch|--edit)$")
_NO_TERMINAL = re.compile(
    r"not a t(?:ty|erminal)|no tty|/dev/tty|inappropriate ioctl|a terminal is required", re.IGNORECASE
)


def wants_terminal(command: str) -> bool:
    """Whether a command wants the terminal itself, as an editor does: by the name of its first program."""
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    while words and (words[0] in ("sudo", "env", "exec", "command") or re.match(r"\w+=", words[0])):
        del words[0]
    if not words:
        return False
    name, rest = os.path.basename(words[0]), words[1:]
    if name == "git":
        return _git_wants_terminal(rest)
    return _ALWAYS.fullmatch(name) is not None or (_ALONE.fullmatch(name) is not None and not rest)


def _git_wants_terminal(words: list[str]) -> bool:
    verb = next((word for word in words if not word.startswith("-")), "")
    if verb == "commit":
        return not any(re.match(r"-\w*[mFC]|--(?:message|file|no-edit|reuse|fixup|dry-run)", word) for word in words)
    edits = any(_EDITS.match(word) for word in words)
    return edits and verb in ("rebase", "add", "checkout", "restore", "reset", "stash", "config", "branch")


async def run_own(command: str, chat: Chat, screen: ChatScreen) -> None:
    """Run a command in the folder, and show the end of its output. `!!COMMAND` gets the terminal, as an editor does."""
    alone = command.startswith("!")
    command = command.removeprefix("!").strip()
    if not command:
        screen.problem("run which command?", "Type !COMMAND, or !!COMMAND for one that wants the terminal.")
    elif alone or wants_terminal(command):
        await _lend(command, chat, screen)
    else:
        await _capture(command, chat, screen)


def _shell() -> dict[str, Any]:
    """Return which shell runs a command, and that its environment says so, as for the model's commands."""
    if os.name != "posix":
        return {}
    # bash: dash reads `program &> file` as two commands.
    shell = find_program("bash", outside=os.getcwd()) or "/bin/sh"
    return {"executable": shell, "env": {**os.environ, "SHELL": shell}}


async def _lend(command: str, chat: Chat, screen: ChatScreen) -> None:
    """Run a command that has the terminal until it ends; messages wait."""
    async with chat.lend() as lent:
        if not lent:
            screen.problem("this chat has no terminal to give to a program")
            return
        process = await asyncio.create_subprocess_shell(command, **_shell())
        # It gets Ctrl-C as a signal, of which the chat takes no notice meanwhile.
        code = await process.wait()
    if code:
        screen.problem(f"exit code {code}")


async def _capture(command: str, chat: Chat, screen: ChatScreen) -> None:
    """Run a command whose output is shown.

    It has a session of its own, so that a Ctrl-C for the chat is no signal for it, and so that it cannot read what is
    typed: a program that needs the terminal says so and ends.
    """
    started: list[Process] = []
    timers: list[asyncio.TimerHandle] = []
    output, killed = _Output(), asyncio.Event()

    async def work() -> None:
        # Begun here, so that Esc is heard from the first moment.
        process = await asyncio.create_subprocess_shell(
            command,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            start_new_session=os.name == "posix",
            **_shell(),
        )
        started.append(process)
        if timers:
            _signal(process, signal.SIGINT)
        await output.read(process, killed)

    def kill() -> None:
        for process in started:
            _kill(process)
        killed.set()

    def stop() -> None:
        for process in started:
            _signal(process, signal.SIGINT)
        timers.append(asyncio.get_running_loop().call_later(GRACE, kill))

    screen.running(command)
    running = asyncio.ensure_future(work())
    try:
        await chat.stoppable(running, stop)
    except LeftRunning:  # a second Ctrl-C
        kill()
        await running
    finally:
        for timer in timers:
            timer.cancel()
        screen.turn_over()
    lines, count = output.lines, output.count
    code = started[0].returncode
    shown = lines[-OUTPUT:]
    hidden = [f"… {count - len(shown)} lines before"] if count > len(shown) else []
    screen.show_lines("\n".join([*hidden, *shown]))
    if timers:
        screen.problem("stopped")
    elif code:
        wanted = any(map(_NO_TERMINAL.search, shown))
        screen.problem(f"exit code {code}", f"To give it the terminal: !!{command}" if wanted else "")
    left_out = [f"… {count - len(lines)} lines before"] if count > len(lines) else []
    end = [f"exit code {code}"] if code else []
    chat.output = command, "\n".join([*left_out, *lines, *end])
    if screen.is_live and count:
        screen.note("  @! in a message gives the agent this output")


class _Output:
    """What a command wrote.

    Attributes:
        count: how many lines it were.
    """

    def __init__(self) -> None:
        self.count = 0
        self._last, self._rest = deque[bytes](maxlen=KEPT), b""

    @property
    def lines(self) -> list[str]:
        """The last lines, for there may be no end of them."""
        return [line.decode("utf-8", "backslashreplace") for line in self._last]

    async def read(self, process: Process, killed: asyncio.Event) -> None:
        """Read to the end, or until the command was killed: what it started may hold the pipe for ever."""
        reading, ends = asyncio.ensure_future(self._read(process)), asyncio.ensure_future(killed.wait())
        try:
            await asyncio.wait([reading, ends], return_when=asyncio.FIRST_COMPLETED)
        finally:
            reading.cancel()
            ends.cancel()
            await asyncio.wait([reading, ends])
        if killed.is_set():
            _kill(process)  # again: it may have begun after the first time
            # `wait` waits for the pipe too, in some versions of Python.
            while process.returncode is None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        else:
            await process.wait()
        if self._rest:
            self._take([self._rest])

    async def _read(self, process: Process) -> None:
        stream = process.stdout
        assert stream is not None  # noqa: S101 - a pipe
        while piece := await stream.read(65_536):
            *lines, rest = (self._rest + piece).split(b"\n")
            self._take(lines)
            self._rest = rest[:LINE_BYTES]

    def _take(self, lines: list[bytes]) -> None:
        self._last.extend(line[:LINE_BYTES] for line in lines)
        self.count += len(lines)


def _signal(process: Process, number: int) -> None:
    """Signal the command and what it started."""
    with suppress(ProcessLookupError):
        if os.name == "posix":
            os.killpg(process.pid, number)
        else:
            process.kill()


def _kill(process: Process) -> None:
    _signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))
