"""`!COMMAND` in a chat: a command of the user's own, which Esc and Ctrl-C stop. `@!` gives the model its output."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import threading
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from deep_core.plugin_api import find_program

from ..terminal.interrupts import LeftRunning

if TYPE_CHECKING:
    from .conversation import Chat
    from .screen import ChatScreen

__all__ = ["run_own", "wants_terminal"]

OUTPUT = 40
"""Lines shown of a command."""
KEPT = 2_000
"""Lines kept of a command, for the model."""
LINE_BYTES = 4_000
"""Bytes kept of a line."""
GRACE = 2.0
"""Seconds from a command's interrupt to its end by SIGTERM, and from there to SIGKILL."""
FINISHING = 0.5
"""Seconds that what a command leaves has to write the end of its output, as `>(sort)` does."""
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
    """Run a command whose output is shown, until its shell ends: what it leaves running runs on, as in a terminal.

    It has a session of its own, so that a Ctrl-C for the chat is no signal for it, and so that it cannot read what is
    typed: a program that needs the terminal says so and ends.
    """
    own = _Own()
    screen.running(command)
    running = asyncio.ensure_future(own.run(command))
    try:
        await chat.stoppable(running, own.stop)
    except LeftRunning:  # a second Ctrl-C
        own.end()
        await running
    finally:
        own.over()
        screen.turn_over()
    lines, count, code = own.lines, own.count, own.code
    shown = lines[-OUTPUT:]
    hidden = [f"… {count - len(shown)} lines before"] if count > len(shown) else []
    screen.show_lines("\n".join([*hidden, *shown]))
    if own.stops:
        screen.problem("stopped")
    elif code:
        wanted = any(map(_NO_TERMINAL.search, shown))
        screen.problem(f"exit code {code}", f"To give it the terminal: !!{command}" if wanted else "")
    left_out = [f"… {count - len(lines)} lines before"] if count > len(lines) else []
    end = [f"exit code {code}"] if code else []
    chat.output = command, "\n".join([*left_out, *lines, *end])
    if own.leaves:
        to_end = f". To end it: !kill -- -{own.pid}" if os.name == "posix" else ""
        screen.note(f"  what it started runs on, unseen{to_end}")
    if screen.is_live and count:
        screen.note("  @! in a message gives the agent this output")


class _Own(asyncio.SubprocessProtocol):
    """A command, and what it wrote.

    Attributes:
        count: how many lines it wrote.
        stops: whether it was stopped.
        leaves: whether it left something that runs.
        pid: its process, and its group.
        code: its exit code.
    """

    def __init__(self) -> None:
        self.count = self.pid = self.code = 0
        self.stops = self.leaves = False
        self._last, self._rest = deque[bytes](maxlen=KEPT), b""
        self._exited, self._read = asyncio.Event(), asyncio.Event()
        self._transport: asyncio.SubprocessTransport | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def lines(self) -> list[str]:
        """The last lines, for there may be no end of them."""
        return [line.decode("utf-8", "backslashreplace") for line in self._last]

    async def run(self, command: str) -> None:
        """Run it."""
        # Begun here, so that Esc is heard from the first moment.
        transport, _ = await asyncio.get_running_loop().subprocess_shell(
            lambda: self,
            command,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            start_new_session=os.name == "posix",
            **_shell(),
        )
        self._transport, self.pid = transport, transport.get_pid()
        if self.stops:
            self._signal("SIGINT")
        await self._exited.wait()
        with suppress(TimeoutError):  # a job behind `&` ignores Ctrl-C: what was stopped is waited for
            await asyncio.wait_for(self._read.wait(), None if self.stops else FINISHING)
        self.code = transport.get_returncode() or 0
        self.leaves = not self._read.is_set()
        if self._rest:
            self._take([self._rest])

    def stop(self) -> None:
        """Interrupt it; if it goes on, end it."""
        self.stops = True
        self._signal("SIGINT")
        self._later(self.end)

    def end(self) -> None:
        """End it; if it goes on, kill it."""
        self._signal("SIGTERM")
        self._later(self._kill)

    def _kill(self) -> None:
        self._signal("SIGKILL")
        self._read.set()  # what has left its group may hold the pipe for ever

    def over(self) -> None:
        """Take no more of it."""
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            if self.leaves and os.name == "posix":
                _read_away(self._transport)
            self._transport.close()

    def _later(self, step: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(GRACE, step)

    def _signal(self, name: str) -> None:
        """Signal the command and what it started."""
        if self._transport is not None:
            with suppress(ProcessLookupError):
                if os.name == "posix":
                    os.killpg(self.pid, getattr(signal, name))
                else:
                    self._transport.kill()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Take what it wrote."""
        *lines, rest = (self._rest + data).split(b"\n")
        self._take(lines)
        self._rest = rest[:LINE_BYTES]

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Nothing writes any more."""
        self._read.set()

    def process_exited(self) -> None:
        """Its shell ended."""
        self._exited.set()

    def _take(self, lines: list[bytes]) -> None:
        self._last.extend(line[:LINE_BYTES] for line in lines)
        self.count += len(lines)


def _read_away(transport: asyncio.SubprocessTransport) -> None:
    """Read what comes later, for the chat's life: without a reader, what writes would end."""
    stream = transport.get_pipe_transport(1)
    assert stream is not None  # noqa: S101 - a pipe
    pipe = os.dup(stream.get_extra_info("pipe").fileno())
    os.set_blocking(pipe, True)

    def read() -> None:
        while os.read(pipe, 65_536):
            pass
        os.close(pipe)

    threading.Thread(target=read, daemon=True).start()
