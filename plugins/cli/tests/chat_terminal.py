"""A command on a pseudo-terminal: wait for text on the screen and type, like a person."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

import pyte

__all__ = ["ALT_ENTER", "CTRL_C", "CTRL_D", "ESC", "SHIFT_TAB", "UP", "Terminal"]

CTRL_C, CTRL_D, UP, ALT_ENTER, ESC, SHIFT_TAB = "\x03", "\x04", "\x1b[A", "\x1b\r", "\x1b", "\x1b[Z"
PATIENCE = 60
"""Seconds after which a test gives up waiting for a text. The status line shows the time, so output never ends."""
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[=>78])")


class Terminal:
    """One running command; a context manager that ends it.

    Attributes:
        screen: everything shown, without colors and cursor movements.
        typed: what was typed, in order.
    """

    def __init__(self, deep: Any, *arguments: str, env: Mapping[str, str], size: tuple[int, int] = (120, 50)) -> None:
        self._here, there = pty.openpty()
        self._emulator: Any = _Screen(*size, history=10_000, ratio=0.5)
        self._stream: Any = pyte.ByteStream(self._emulator)
        fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        like_xterm = {"TERM": "xterm-256color", "XTERM_VERSION": "pyte"}  # it cuts lines when it becomes narrower
        self.process = deep.attach(there, *arguments, env={**env, **like_xterm})
        os.close(there)
        self._raw = ""
        self._seen = 0
        self.screen = ""
        self.typed: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._here)

    def expect(self, text: str) -> str:
        """Wait for a text after the last one; return the output until its end."""
        self._wait(lambda: text in self.screen[self._seen :], text)
        end = self.screen.index(text, self._seen) + len(text)
        shown, self._seen = self.screen[self._seen : end], end
        return shown

    @property
    def display(self) -> list[str]:
        """The lines that a person sees now, without empty ones at the end."""
        lines = [line.rstrip() for line in self._emulator.display]
        while lines and not lines[-1]:
            del lines[-1]
        return lines

    @property
    def cells(self) -> list[list[Any]]:
        """The screen as `display` has it: for each column of a line, pyte's character with its style."""
        buffer, columns = self._emulator.buffer, range(self._emulator.columns)
        return [[buffer[row][column] for column in columns] for row in range(len(self.display))]

    @property
    def lines(self) -> list[str]:
        """The lines above the screen, which a person can scroll to, then those on it."""
        return [_text(line) for line in self._emulator.history.top] + self.display

    def see(self, text: str) -> list[str]:
        """Wait until a line on the screen begins with a text; return the screen."""
        self._wait(lambda: any(line.startswith(text) for line in self.display), text)
        return self.display

    def _wait(self, shows: Callable[[], bool], text: str) -> None:
        end = time.monotonic() + PATIENCE
        while not shows():
            if not self._read():
                raise AssertionError(f"ended without {text!r}:\n{self.screen}")
            if time.monotonic() > end:
                raise AssertionError(f"never showed {text!r}:\n{self.screen}\n--\n" + "\n".join(self.lines))

    def until(self, shows: Callable[[], bool], what: str) -> None:
        """Read until this is so."""
        self._wait(shows, what)

    @property
    def tail(self) -> str:
        """The end of what is shown up to the cursor's line, without white space: a narrow screen breaks lines."""
        lines, row = self._emulator.display, self._emulator.cursor.y
        return re.sub(r"\s+", "", "".join(lines[max(0, row - 11) : row + 1]))

    @property
    def state(self) -> str:
        """What the chat does: `ready`, `working`, `question`, or `line first` if a question waits for a line."""
        signs = {
            "ready·": "ready",
            "Escstops": "working",
            "whynot:": "question",
            "ownwords):": "question",
            "aquestionwaits:": "line first",
        }
        found = max(signs, key=self.tail.rfind)
        return signs[found] if found in self.tail else "working"

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the terminal."""
        emulator = self._emulator
        above = max(0, emulator.cursor.y + 1 - rows)
        for _ in range(above):  # as terminals do; pyte would leave the cursor below the screen
            emulator.history.top.append(emulator.buffer[0].copy())
            emulator.cursor.y, y = 0, emulator.cursor.y
            emulator.delete_lines(1)
            emulator.cursor.y = y - 1
        y = emulator.cursor.y
        if rows < emulator.lines:
            emulator.set_margins()
            emulator.lines = rows
        emulator.resize(rows, columns)
        emulator.cursor.y = y
        fcntl.ioctl(self._here, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        """Send keys."""
        self.typed.append(text)
        os.write(self._here, text.encode())

    def say(self, text: str) -> None:
        """Wait for the chat's prompt, then send a message."""
        self.prompt()
        self.type(f"{text}\r")

    def prompt(self, draft: str = "") -> str:
        """Wait until the chat is ready for a message, and shows what was typed of one; return the output before."""
        line = f"> {draft}".rstrip()
        self._wait(lambda: self.display[-1:] == [line] and "".join(self.display[-2:-1]).startswith("ready · "), "ready")
        shown, self._seen = self.screen[self._seen :], len(self.screen)
        return shown

    def answer(self, text: str) -> str:
        """Wait for a question and answer it; return the output up to it."""
        shown = self.expect("or say why not:")
        self.type(f"{text}\n")
        return shown

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self) -> int:
        """Read until it has ended; returns its exit code."""
        while self._read():
            pass
        return self.process.wait(PATIENCE)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._here], [], [], PATIENCE)
        if not ready:
            raise AssertionError(f"nothing more came:\n{self.screen}")
        try:
            data = os.read(self._here, 65536)
        except OSError:  # the other side is closed (Linux)
            return False
        self._raw += data.decode("utf-8", "replace")
        self._stream.feed(data)
        self.screen = _ESCAPES.sub("", self._raw).replace("\r", "")
        return bool(data)


class _Screen(pyte.HistoryScreen):
    """A screen on which faint text is gray: pyte has no faint text."""

    def select_graphic_rendition(self, *attributes: int, **how: Any) -> None:
        if 38 not in attributes and 48 not in attributes:  # there, a 2 begins a color
            attributes = tuple(90 if attribute == 2 else attribute for attribute in attributes)
        super().select_graphic_rendition(*attributes, **how)


def _text(line: Any) -> str:
    return "".join(line[column].data for column in range(max(line, default=-1) + 1)).rstrip()
