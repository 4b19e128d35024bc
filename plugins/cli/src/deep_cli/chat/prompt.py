"""The prompt of a chat on a terminal: it stays below what is printed, also while the agent works."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from io import TextIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from deep_core.plugin_api import visible

from ..terminal.interrupts import Stopped
from ..terminal.screen import one_line

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import StyleAndTextTuples

__all__ = ["ChatPrompt"]

KEPT_LINES = "typed"
"""The file of earlier messages, in the project's folder of the store."""
REFRESH = 0.5
"""Seconds between two looks at the time in the status line."""
DIM = "fg:ansibrightblack"


class ChatPrompt:
    """Reads messages below what is printed. Enter sends, or queues while the agent works.

    Args:
        folder: where to keep the history for the up arrow.
    """

    def __init__(self, folder: Path) -> None:
        # A terminal's answer to "where is the cursor?" may come after the prompt has ended: it would be typed text.
        os.environ.setdefault("PROMPT_TOOLKIT_NO_CPR", "1")
        from prompt_toolkit import PromptSession
        from prompt_toolkit.output import create_output
        from prompt_toolkit.shortcuts import CompleteStyle

        self.queue: list[str] = []
        """Messages that wait for the agent."""
        self.busy = False
        """Whether the agent works."""
        self.stop: Callable[[], None] = _nothing
        """Is called at Ctrl-C and Esc while the agent works."""
        self.steer: Callable[[str], None] = self.add
        """Is called with a message for the agent at work (Alt-Enter)."""
        self.switch: Callable[[], None] = _nothing
        """Is called at Shift-Tab."""
        self.about: Callable[[], str] = str
        """Returns what stands after the status above the prompt."""
        self._tail: Sequence[str] = ()
        self._status: Callable[[], str] | None = None
        self._question: tuple[StyleAndTextTuples, asyncio.Future[str | None]] | None = None
        self._typed = asyncio.Event()
        self._output = create_output(always_prefer_tty=True)  # stderr if stdout is a file, which gets the answers only
        self._session: PromptSession[None] = PromptSession(
            self._message,
            history=_history(folder),
            multiline=True,
            prompt_continuation=_continuation,
            key_bindings=self._keys(),
            output=self._output,
            erase_when_done=True,
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,  # a menu would keep empty lines below the prompt
            reserve_space_for_menu=0,
            complete_in_thread=True,
            refresh_interval=REFRESH,
        )
        # Esc alone stops; it also begins Alt-Enter, which terminals send at once.
        self._session.app.timeoutlen = self._session.app.ttimeoutlen = 0.1
        self.stream = cast("TextIO", _Above(self._print))
        """A terminal for lines above the prompt."""

    def complete(self, commands: Callable[[], Iterable[tuple[str, str]]], folder: str) -> None:
        """Complete commands, each with what it does, and files of a folder."""
        from .completion import ChatCompleter

        self._session.completer = ChatCompleter(commands, folder)

    # -- messages ------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[asyncio.Future[None]]:
        """Show the prompt. Yields what is done once the user leaves: Ctrl-D, or Ctrl-C at an empty prompt."""
        app = asyncio.ensure_future(self._session.prompt_async())
        try:
            yield app
        finally:
            if not app.done():
                if self._session.app.is_running:
                    self._session.app.exit()
                else:
                    app.cancel()
            await asyncio.wait([app])

    async def message(self) -> str:
        """Return the next message, once there is one."""
        while not self.queue:
            self._typed.clear()
            await self._typed.wait()
        text = self.queue.pop(0)
        self._redraw()
        return text

    def add(self, text: str) -> None:
        """Add a message to those that wait."""
        self.queue.append(text)
        self._typed.set()
        self._redraw()

    async def reply(self, question: Sequence[tuple[str, str]]) -> str | None:
        """Ask a question in place of the prompt; what was being typed comes back afterwards.

        Args:
            question: texts, each with its style.

        Returns:
            The answer; None for Ctrl-D.

        Raises:
            Stopped: Ctrl-C or Esc.
        """
        buffer = self._session.default_buffer
        draft = buffer.document
        buffer.reset()
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._question = ([(style, visible(text)) for style, text in question], answer)
        self._redraw()
        try:
            return await answer
        finally:
            self._question = None
            buffer.reset(draft)
            self._redraw()

    # -- the screen ----------------------------------------------------------------------------------------------------

    def show(self, tail: Sequence[str], status: Callable[[], str]) -> None:
        """Show the end of an unfinished text, and the status, above the prompt."""
        self._tail, self._status = tail, status
        self._redraw()

    def hide(self) -> None:
        """Show neither."""
        self._tail, self._status = (), None
        self._redraw()

    def _redraw(self) -> None:
        self._session.app.invalidate()

    def _print(self, text: str) -> None:
        app = self._session.app
        if not app.is_running:
            self._output.write_raw(text)
            self._output.flush()
            return
        # What prompt_toolkit does around a print, without leaving raw mode: nobody reads the keyboard meanwhile.
        app.renderer.erase()
        self._output.write_raw(text.replace("\n", "\r\n"))
        self._output.flush()
        app.renderer.reset()
        app.invalidate()

    def _message(self) -> StyleAndTextTuples:
        from prompt_toolkit.formatted_text import ANSI, to_formatted_text

        parts: StyleAndTextTuples = []
        for line in self._tail:
            parts += [*to_formatted_text(ANSI(line)), ("", "\n")]
        if self._question is not None:
            return [*parts, *self._question[0]]
        status = "ready"
        if self.busy:
            status = "working" if self._status is None else visible(self._status())
        parts += [(DIM, f"  next: {one_line(text, 70)}\n") for text in self.queue]
        return [*parts, (DIM, f"{status} · {visible(self.about())}\n"), ("bold", "> ")]

    # -- keys ----------------------------------------------------------------------------------------------------------

    def _keys(self) -> Any:
        from prompt_toolkit.filters import Condition
        from prompt_toolkit.key_binding import KeyBindings

        keys: Any = KeyBindings()
        busy = Condition(lambda: self.busy or self._question is not None)

        @keys.add("enter")
        @keys.add("c-j")  # Enter typed before the prompt appeared
        def send(event: Any) -> None:
            buffer = event.current_buffer
            if self._question is not None:
                self._answer(buffer.text)
            elif buffer.document.current_line_before_cursor.endswith("\\") and buffer.document.is_cursor_at_the_end:
                buffer.delete_before_cursor()
                buffer.insert_text("\n")
            elif buffer.text.strip():
                buffer.append_to_history()
                self.add(buffer.text.rstrip())
                buffer.reset()

        @keys.add("escape", "enter")
        def another_line(event: Any) -> None:
            buffer = event.current_buffer
            if self.busy and self._question is None:
                if buffer.text.strip():
                    buffer.append_to_history()
                    self.steer(buffer.text.rstrip())
                    buffer.reset()
            else:
                buffer.insert_text("\n")

        @keys.add("escape", filter=busy)
        def escape(event: Any) -> None:
            self._stop()

        @keys.add("c-c")
        @keys.add("<sigint>")
        def stop(event: Any) -> None:
            buffer = event.current_buffer
            if self.busy or self._question is not None:
                self._stop()
            elif buffer.text:
                buffer.reset()
            else:
                event.app.exit()

        @keys.add("c-d", filter=Condition(lambda: not self._session.default_buffer.text))
        def leave(event: Any) -> None:
            if self._question is not None:
                self._answer(None)
            elif not self.busy:
                event.app.exit()

        @keys.add("s-tab")
        def switch(event: Any) -> None:
            self.switch()
            self._redraw()

        return keys

    def _answer(self, text: str | None) -> None:
        if self._question is not None and not self._question[1].done():
            self._question[1].set_result(text)

    def _stop(self) -> None:
        if self._question is None:
            self.stop()
        elif not self._question[1].done():
            self._question[1].set_exception(Stopped())


class _Above(TextIOBase):
    """A stream whose lines appear above the prompt."""

    encoding = "utf-8"  # pyright: ignore[reportAssignmentType]  # of the terminal, as prompt_toolkit writes

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._parts: list[str] = []

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return sys.stderr.fileno()

    def write(self, text: str, /) -> int:
        self._parts.append(text)
        return len(text)

    def flush(self) -> None:
        text, self._parts = "".join(self._parts), []
        if text:
            self._show(text)


def _nothing() -> None:
    pass


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
