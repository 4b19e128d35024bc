"""Read the messages of a chat: lines of a pipe, or a prompt with editing and history."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["prompt_messages", "read_lines"]

KEPT_LINES = "typed"
"""The file of earlier messages, in the project's folder of the store."""


def read_lines() -> Iterator[str]:
    """Yield the lines of stdin that are not blank."""
    for line in sys.stdin:
        if line.strip():
            yield line.rstrip("\n")


def prompt_messages(folder: Path) -> Iterator[str]:
    """Yield messages typed at a prompt, until Ctrl-D, or Ctrl-C at an empty prompt.

    Enter sends; Alt-Enter, or a backslash at the end of a line, begins another line; a paste stays one message.

    Args:
        folder: where to keep the history for the up arrow.
    """
    # A terminal's answer to "where is the cursor?" may come after the prompt has ended, and would then be typed text.
    os.environ.setdefault("PROMPT_TOOLKIT_NO_CPR", "1")
    from prompt_toolkit import PromptSession
    from prompt_toolkit.output import create_output

    session: PromptSession[str] = PromptSession(
        [("", "\n"), ("bold", "> ")],
        history=_history(folder),
        multiline=True,
        prompt_continuation=_continuation,
        key_bindings=_keys(),
        output=create_output(always_prefer_tty=True),  # stderr if stdout is a file, which gets the answers only
    )
    while True:
        try:
            text = session.prompt()
        except (EOFError, KeyboardInterrupt):
            return
        if text.strip():
            yield text.rstrip()


def _history(folder: Path) -> Any:
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    file = folder / KEPT_LINES
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600))  # before the library creates it readable by all users
    except OSError:
        return InMemoryHistory()  # not writable; the chat reports that when it stores
    return FileHistory(str(file))


def _continuation(width: int, line: int, wrapped: int) -> str:
    return "  "


def _keys() -> Any:
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    def bind(*names: str) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
        return keys.add(*names)

    @bind("enter")
    @bind("c-j")  # Enter typed before the prompt appeared
    def send(event: Any) -> None:
        buffer = event.current_buffer
        if buffer.document.current_line_before_cursor.endswith("\\") and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @bind("escape", "enter")
    def another_line(event: Any) -> None:
        event.current_buffer.insert_text("\n")

    @bind("c-c")
    @bind("<sigint>")
    def drop(event: Any) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt, style="class:aborting")

    return keys
