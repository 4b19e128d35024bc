"""What a person types into a chat: lines of a pipe, or a prompt with editing and history."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["prompted", "typed_lines"]

KEPT_LINES = "typed"
"""The file with what was typed before, in the project's folder of the store."""


def typed_lines() -> Iterator[str]:
    """The lines of stdin that say something, until its end."""
    for line in sys.stdin:
        if line.strip():
            yield line.rstrip("\n")


def prompted(folder: Path) -> Iterator[str]:
    """Messages typed at a prompt, until Ctrl-D, or Ctrl-C where nothing is typed yet.

    Enter sends; Alt-Enter, or a backslash at a line's end, begins another line; pasted lines stay one message.

    Args:
        folder: where the lines of before are kept, for the up arrow.
    """
    # A terminal's answer to "where is the cursor?" may come after the prompt has ended, and would be typed text then.
    os.environ.setdefault("PROMPT_TOOLKIT_NO_CPR", "1")
    from prompt_toolkit import PromptSession
    from prompt_toolkit.output import create_output

    session: PromptSession[str] = PromptSession(
        [("", "\n"), ("bold", "> ")],
        history=_history(folder),
        multiline=True,
        prompt_continuation=_continuation,
        key_bindings=_keys(),
        output=create_output(always_prefer_tty=True),  # stderr, where stdout is a file: that has the answers alone
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

    kept = folder / KEPT_LINES
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(kept, os.O_WRONLY | os.O_CREAT, 0o600))  # before the library makes it for everybody to read
    except OSError:
        return InMemoryHistory()  # nothing can be written there; the chat says so when it is to be stored
    return FileHistory(str(kept))


def _continuation(width: int, line: int, wrapped: int) -> str:
    return "  "


def _keys() -> Any:
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    def bind(*names: str) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
        return keys.add(*names)

    @bind("enter")
    @bind("c-j")  # Enter, as it comes when it was typed before the prompt stood there
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
