"""The prompt of a chat on a terminal: it stays below what is printed, also while the agent works."""

from __future__ import annotations

import asyncio
import os
import select
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from io import TextIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from deep_core.plugin_api import visible

from ..terminal.interrupts import Interrupts, Stopped
from ..terminal.screen import one_line

if TYPE_CHECKING:
    from prompt_toolkit.document import Document
    from prompt_toolkit.formatted_text import StyleAndTextTuples

__all__ = ["ChatPrompt"]

KEPT_LINES = "typed"
"""The file of earlier messages, in the project's folder of the store."""
REFRESH = 0.5
"""Seconds between two looks at the time in the status line."""
DIM = "fg:ansibrightblack"
_REFLOWS = not os.environ.get("XTERM_VERSION") and os.environ.get("TERM") != "linux"
"""Whether the terminal breaks long lines anew when it becomes narrower. All do but xterm and Linux's console."""
LINE_FIRST = "a question waits: Enter queues this line, Ctrl-C sets it aside"


@dataclass(eq=False, repr=False)
class _Asked:
    """A question at the prompt.

    Attributes:
        text: what it asks.
        answer: gets the answer; None for Ctrl-D.
        at_switch: the answer of Shift-Tab; None: it changes the mode, and answers nothing.
        is_open: whether it takes the keys. Before, they belong to the line that was begun before it.
    """

    text: StyleAndTextTuples
    answer: asyncio.Future[str | None]
    at_switch: str | None
    is_open: bool = False

    def reply(self, text: str | None) -> None:
        """Take the answer."""
        if not self.answer.done():
            self.answer.set_result(text)


class ChatPrompt:
    """Reads messages below what is printed. Enter sends, or queues while the agent works.

    A question takes only keys that came after it was drawn below an empty line: a line that was begun before is a
    message, and so is what was typed ahead.

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
        self.busy = True
        """Whether something is at work: all the time but while `message` waits for one."""
        self.steer: Callable[[str], None] = self.add
        """Is called with a message for the agent at work (Alt-Enter)."""
        self.switch: Callable[[], None] = _nothing
        """Is called at Shift-Tab."""
        self.go_on: Callable[[], None] = _nothing
        """Is called at Enter on an empty line."""
        self.about: Callable[[], str] = str
        """Returns what stands after the status above the prompt."""
        self.dropped: set[str] = set()
        """Gets the files that are dropped on the terminal: whole paths."""
        self._folder = ""
        self._lent = False
        """Whether another program has the terminal."""
        self._interrupts: Interrupts | None = None
        """Hears Esc and Ctrl-C of what is at work; None where nothing can be stopped."""
        self._early = Interrupts()
        """Heard them before."""
        self._asked: _Asked | None = None
        self._draft: Document | None = None
        """The line that was set aside for a question, or came back after one."""
        self._tail: Sequence[str] = ()
        self._status: Callable[[], str] | None = None
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
        self._session.app.before_render += self._open
        self._session.default_buffer.on_text_changed += self._forget_draft
        app: Any = self._session.app
        usual: Callable[[], None] = app._on_resize
        app._on_resize = lambda: (self._reach_top(), usual())
        # Esc alone stops; it also begins Alt-Enter, which terminals send at once.
        self._session.app.timeoutlen = self._session.app.ttimeoutlen = 0.1
        self.stream = cast("TextIO", _Above(self._print))
        """A terminal for lines above the prompt."""

    def complete(self, commands: Callable[[], Iterable[tuple[str, str]]], folder: str) -> None:
        """Complete commands, each with what it does, and files of a folder."""
        from .completion import ChatCompleter

        self._session.completer = ChatCompleter(commands, folder)
        self._folder = folder

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
        self._early = Interrupts()  # what was typed before was about the message before
        if not self.queue:
            self.busy = False
            self._redraw()
            while not self.queue:
                self._typed.clear()
                await self._typed.wait()
        self.busy = True
        text = self.queue.pop(0)
        self._redraw()
        return text

    @contextmanager
    def hearing(self, interrupts: Interrupts) -> Generator[None]:
        """Let Esc and Ctrl-C stop what is at work, also those that came since its message was sent."""
        before, self._interrupts = self._interrupts, interrupts
        early, self._early = self._early, Interrupts()
        early.repeat(interrupts)
        try:
            yield
        finally:
            self._interrupts = before

    def add(self, text: str) -> None:
        """Add a message to those that wait."""
        self.queue.append(text)
        self.busy = True  # already: a Ctrl-C that follows is about this message
        self._typed.set()
        self._redraw()

    async def reply(self, question: Sequence[tuple[str, str]], *, at_switch: str | None = None) -> str | None:
        """Ask a question in place of the prompt; what was being typed comes back afterwards.

        Args:
            question: texts, each with its style.
            at_switch: the answer of Shift-Tab; None: it changes the mode, and answers nothing.

        Returns:
            The answer; None for Ctrl-D.

        Raises:
            Stopped: Ctrl-C or Esc.
        """
        text: StyleAndTextTuples = [(style, visible(text)) for style, text in question]
        asked = self._asked = _Asked(text, asyncio.get_running_loop().create_future(), at_switch)
        if self._draft is not None and self._draft.text == self._session.default_buffer.text:
            self._set_aside()  # it came back after the question before, and the user did not go on with it
        else:
            self._draft = None
        self._redraw()
        try:
            return await asked.answer
        finally:
            self._asked = None
            if asked.is_open and self._session.default_buffer.text:
                self._session.default_buffer.reset()
            if self._draft is not None and not self._session.default_buffer.text:
                self._session.default_buffer.reset(self._draft)
            self._redraw()

    @asynccontextmanager
    async def lend(self) -> AsyncGenerator[None]:
        """Give the terminal to another program; what was being typed comes back afterwards."""
        from prompt_toolkit.application import in_terminal
        from prompt_toolkit.application.current import set_app

        self._lent = True
        try:
            with set_app(self._session.app):
                async with in_terminal():
                    yield
        finally:
            self._lent = False
            self._redraw()

    # -- questions -----------------------------------------------------------------------------------------------------

    def _open(self, app: Any) -> None:
        """Let a question take the keys from now on, if no line was begun: it is about to be drawn."""
        if self._asked is not None and not self._session.default_buffer.text and not self._has_typed_ahead():
            self._asked.is_open = True

    def _has_typed_ahead(self) -> bool:
        """Whether unread keys wait, or keys that may begin one."""
        app = self._session.app
        if app.key_processor.input_queue or app.key_processor.key_buffer:
            return True
        return os.name == "posix" and bool(select.select([app.input.fileno()], [], [], 0)[0])

    @property
    def _is_asking(self) -> bool:
        return self._asked is not None and self._asked.is_open

    def _forget_draft(self, buffer: Any) -> None:
        """The user goes on with a line that came back after a question."""
        if self._asked is None:
            self._draft = None

    def _set_aside(self) -> None:
        buffer = self._session.default_buffer
        self._draft = buffer.document
        buffer.reset()
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

    def _reach_top(self) -> None:
        """After a resize: move up by the lines that the terminal has broken, which prompt_toolkit does not know of.

        It would leave a copy of them.
        """
        renderer: Any = self._session.app.renderer
        screen, width = renderer._last_screen, self._output.get_size().columns
        if screen is None or not _REFLOWS:
            return
        rows = [screen.data_buffer[row] for row in range(renderer._cursor_pos.y)]
        ends = [max((place for place, cell in row.items() if cell.char.strip()), default=0) for row in rows]
        self._output.cursor_up(sum(end // width for end in [*ends, renderer._cursor_pos.x]))

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
        parts += [(DIM, f"  next: {one_line(text, 70)}\n") for text in self.queue]
        if self._asked is not None and self._asked.is_open:
            return [*parts, *self._asked.text]
        if self._asked is not None:
            return [*parts, (DIM, f"{LINE_FIRST}\n"), ("bold", "> ")]
        status = "ready"
        if self.busy:
            status = "working" if self._status is None else self._status()
        room, about = self._output.get_size().columns - 1, visible(self.about())
        if self.busy:  # what stops it is always on the line
            room -= len(about) + 3
        line = one_line(status if self.busy else f"{status} · {about}", max(1, room))
        return [*parts, (DIM, f"{line} · {about}\n" if self.busy else f"{line}\n"), ("bold", "> ")]

    # -- keys ----------------------------------------------------------------------------------------------------------

    def _keys(self) -> Any:
        from prompt_toolkit.filters import Condition
        from prompt_toolkit.key_binding import KeyBindings
        from prompt_toolkit.keys import Keys

        keys: Any = KeyBindings()
        busy = Condition(lambda: self.busy)

        @keys.add("enter")
        @keys.add("c-j")  # Enter typed before the prompt appeared
        def send(event: Any) -> None:
            buffer = event.current_buffer
            if self._asked is not None and self._asked.is_open:
                self._asked.reply(buffer.text)
            elif buffer.document.current_line_before_cursor.endswith("\\") and buffer.document.is_cursor_at_the_end:
                buffer.delete_before_cursor()
                buffer.insert_text("\n")
            elif buffer.text.strip():
                buffer.append_to_history()
                self.add(buffer.text.rstrip())
                buffer.reset()
            elif not self.busy:
                self.go_on()

        @keys.add("escape", "enter")
        def another_line(event: Any) -> None:
            buffer = event.current_buffer
            if self.busy and not self._is_asking:
                if buffer.text.strip():
                    buffer.append_to_history()
                    self.steer(buffer.text.rstrip())
                    buffer.reset()
            else:
                buffer.insert_text("\n")

        @keys.add("escape", filter=busy)
        def escape(event: Any) -> None:
            if self._asked is not None:
                self._stop_asking()
            else:
                (self._interrupts or self._early).once()

        @keys.add("c-c")
        @keys.add("<sigint>")
        def stop(event: Any) -> None:
            buffer = event.current_buffer
            if self._lent:  # the signal is for the program that has the terminal
                return
            if self._asked is not None:
                if buffer.text and not self._asked.is_open and self._draft is None:
                    self._set_aside()
                else:
                    self._stop_asking()
            elif self.busy:
                (self._interrupts or self._early)()
                if self._interrupts is None and self._early.count > 1:  # nothing hears it
                    event.app.exit()
            elif buffer.text:
                buffer.reset()
            else:
                event.app.exit()

        @keys.add("c-d", filter=Condition(lambda: not self._session.default_buffer.text))
        def leave(event: Any) -> None:
            if self._asked is not None and self._asked.is_open:
                self._asked.reply(None)
            elif not self.busy:
                event.app.exit()

        @keys.add(Keys.BracketedPaste)
        def paste(event: Any) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            event.current_buffer.insert_text(self._pasted(text))

        @keys.add("s-tab")
        def switch(event: Any) -> None:
            if self._asked is not None and self._asked.is_open and self._asked.at_switch is not None:
                self._asked.reply(self._asked.at_switch)
            else:
                self.switch()
            self._redraw()

        return keys

    def _pasted(self, text: str) -> str:
        """Return what a pasted text becomes: the names of dropped files are mentions, but in an answer."""
        from .mentions import dropped_paths, mention

        paths = dropped_paths(text) if self._folder and not self._is_asking else []
        self.dropped.update(paths)
        return "".join(f"{mention(path, self._folder)} " for path in paths) or text

    def _stop_asking(self) -> None:
        if self._asked is not None and not self._asked.answer.done():
            self._asked.answer.set_exception(Stopped())


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
