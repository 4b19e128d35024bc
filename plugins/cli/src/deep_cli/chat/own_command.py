"""`!COMMAND` in a chat: a command of the user's own, which Esc and Ctrl-C stop. The model does not see it."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from ..terminal.interrupts import LeftRunning

if TYPE_CHECKING:
    from .conversation import Chat
    from .screen import ChatScreen

__all__ = ["OUTPUT", "run_own"]

OUTPUT = 40
"""Lines shown of a command."""
LINE_BYTES = 4_000
"""Bytes kept of a line."""
GRACE = 2.0
"""Seconds until a command that was interrupted is killed."""


async def run_own(command: str, chat: Chat, screen: ChatScreen) -> None:
    """Run a command in the folder, and show the end of its output.

    It has a session of its own, so that a Ctrl-C for the chat is no signal for it, and so that it cannot read what is
    typed: a program that needs the terminal says so and ends.
    """
    process = await asyncio.create_subprocess_shell(
        command, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, start_new_session=os.name == "posix"
    )
    timers: list[asyncio.TimerHandle] = []

    def stop() -> None:
        _signal(process, signal.SIGINT)
        timers.append(asyncio.get_running_loop().call_later(GRACE, _kill, process))

    screen.running(command)
    work = asyncio.ensure_future(_read(process))
    try:
        lines = await chat.stoppable(work, stop)
    except LeftRunning:  # a second Ctrl-C
        _kill(process)
        lines = await work
    finally:
        for timer in timers:
            timer.cancel()
        screen.turn_over()
    screen.show_lines("\n".join(lines))
    if timers:
        screen.problem("stopped")
    elif process.returncode:
        screen.problem(f"exit code {process.returncode}")


async def _read(process: Process) -> list[str]:
    """Read the output to its end, and keep the last lines: it may have no end."""
    stream = process.stdout
    assert stream is not None  # noqa: S101 - a pipe
    last, count, rest = deque[bytes](maxlen=OUTPUT), 0, b""
    while piece := await stream.read(65_536):
        *lines, rest = (rest + piece).split(b"\n")
        last.extend(line[:LINE_BYTES] for line in lines)
        count, rest = count + len(lines), rest[:LINE_BYTES]
    if rest:
        last.append(rest)
        count += 1
    await process.wait()
    hidden = [f"… {count - len(last)} lines before"] if count > len(last) else []
    return [*hidden, *(line.decode("utf-8", "backslashreplace") for line in last)]


def _signal(process: Process, number: int) -> None:
    """Signal the command and what it started."""
    with suppress(ProcessLookupError):
        if os.name == "posix":
            os.killpg(process.pid, number)
        else:
            process.kill()


def _kill(process: Process) -> None:
    _signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))
