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
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

__all__ = ["ALT_ENTER", "CTRL_C", "CTRL_D", "UP", "Terminal"]

CTRL_C, CTRL_D, UP, ALT_ENTER = "\x03", "\x04", "\x1b[A", "\x1b\r"
PATIENCE = 60
"""Seconds without output after which a test gives up."""
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[=>78])")


class Terminal:
    """One running command; a context manager that ends it.

    Attributes:
        screen: everything shown, without colors and cursor movements.
    """

    def __init__(self, deep: Any, *arguments: str, env: Mapping[str, str]) -> None:
        self._here, there = pty.openpty()
        fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
        self.process = deep.attach(there, *arguments, env={**env, "TERM": "xterm-256color"})
        os.close(there)
        self._raw = ""
        self._seen = 0
        self.screen = ""

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
        while text not in self.screen[self._seen :]:
            if not self._read():
                raise AssertionError(f"ended without {text!r}:\n{self.screen}")
        end = self.screen.index(text, self._seen) + len(text)
        shown, self._seen = self.screen[self._seen : end], end
        return shown

    def type(self, text: str) -> None:
        """Send keys."""
        os.write(self._here, text.encode())

    def say(self, text: str) -> None:
        """Wait for the chat's prompt, then send a message."""
        self.prompt()
        self.type(f"{text}\r")

    def prompt(self) -> str:
        """Wait for the chat's prompt; return the output before it."""
        return self.expect("\n>")

    def answer(self, text: str) -> str:
        """Wait for a question and answer it; return the output up to it."""
        shown = self.expect("or say why not: ")
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
        self.screen = _ESCAPES.sub("", self._raw).replace("\r", "")
        return bool(data)
