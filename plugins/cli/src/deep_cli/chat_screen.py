"""The screen of a chat: the streamed answer on stdout, the rest on stderr, with an empty line in between."""

from __future__ import annotations

import sys
from typing import TextIO

from deep_core import RequestEvent, RunEvent

from .approval import Answer, Question
from .output import Part, say_text
from .screen import label, one_line
from .terminal import TerminalReporter

__all__ = ["ChatScreen"]


class ChatScreen(TerminalReporter):
    """Show a chat. Arguments as for `TerminalReporter`; `answer` is the stream for the model's text."""

    always_for = "in this chat"

    def __init__(
        self, answer: TextIO | None = None, *, stream: TextIO | None = None, replies: TextIO | None = None
    ) -> None:
        super().__init__(stream=stream, replies=replies)
        self._text_out = answer or sys.stdout
        self._open = False
        """Whether the answer's last line is unfinished."""
        self._last = ""
        """What was shown last: `text`, `line` or "" for nothing."""

    # -- a turn --------------------------------------------------------------------------------------------------------

    def waiting(self) -> None:
        """A message is being sent."""
        self._last = ""
        self._wait("waiting for the model")

    def text(self, piece: str) -> None:
        """A piece of the answer."""
        if not piece:
            return
        self._quiet()
        if self._last == "line":
            self._gap()
        self._last = "text"
        say_text(piece, self._text_out, end="")
        self._open = not piece.endswith("\n")

    def thinking(self) -> None:
        """The model thinks; the text is not shown."""
        self._end_text()
        self._wait("the model is thinking")

    def stopping(self) -> None:
        """The user typed Ctrl-C; the run is ending."""
        self._end_text()
        self._wait("stopping; Ctrl-C again leaves at once")

    def turn_over(self) -> None:
        """The turn ended."""
        self._quiet()
        self._end_text()
        self._last = ""

    # -- the rest ------------------------------------------------------------------------------------------------------

    def show_title(self, title: str, about: str, hint: str) -> None:
        """Show which chat this is; the hint only on a terminal."""
        self._line((title, "bold"), (f"  {label(about)}", "dim"))
        if hint:
            self._line((hint, "dim"))

    def event(self, event: RunEvent) -> None:
        """Show one line for an event; requests are counted, not shown."""
        if not isinstance(event, RequestEvent):
            super().event(event)

    def problem(self, text: str, hint: str = "") -> None:
        """Show what went wrong and what to type."""
        self._quiet()
        self._line((f"  {self._marks['bad']} ", "red"), text)
        if hint:
            self._line((f"    {hint}", "dim"))

    def show_lines(self, text: str) -> None:
        """Print lines unchanged."""
        for line in text.splitlines():
            self._line(line)

    def show_exchange(self, question: str, answer: str) -> None:
        """Show the last exchange of a resumed chat, one line each."""
        for who, text in (("you  ", question), ("agent", answer)):
            if text:
                self._line((f"  {who}  {one_line(text, max(20, self._out.width - 10))}", "dim"))

    def _question(self, question: Question) -> Answer:
        self._end_text()
        return super()._question(question)

    def _line(self, *parts: Part) -> None:
        self._end_text()
        if self._last == "text":
            self._gap()
        self._last = "line"
        super()._line(*parts)

    def _wait(self, text: str) -> None:
        self._end_text()
        super()._wait(text)

    def _gap(self) -> None:
        if self._out.is_terminal:
            self._out.line()

    def _end_text(self) -> None:
        if self._open:
            self._open = False
            say_text("", self._text_out)
