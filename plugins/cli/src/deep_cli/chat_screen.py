"""The screen of a chat: the streamed answer on stdout, the rest on stderr, with an empty line in between."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TextIO

from .approval import Answer, Question
from .asking import show_choice
from .output import Part, say_text
from .screen import label, one_line
from .terminal import TerminalReporter, answer_of, body_of, of_child

if TYPE_CHECKING:
    from .chat_prompt import ChatPrompt

__all__ = ["ChatScreen"]


class ChatScreen(TerminalReporter):
    """Show a chat. Arguments as for `TerminalReporter`; `answer` is the stream for the model's text."""

    always_for = "in this chat"

    def __init__(self, answer: TextIO | None = None, **how: Any) -> None:
        super().__init__(answer or sys.stdout, **how)
        self._plain = answer or sys.stdout
        self.is_live = how.get("foot") is not None
        """Whether the prompt is below, so that nothing typed waits in the terminal."""
        self._open = False
        """Whether the last line of an answer that is not rendered is unfinished."""

    # -- a turn --------------------------------------------------------------------------------------------------------

    def waiting(self) -> None:
        """A message is being sent."""
        self.view.restart()
        self._wait("waiting for the model")

    def text(self, piece: str) -> None:
        """A piece of the answer: rendered on a terminal, else as it is."""
        if self.streams:
            super().text(piece)
        elif piece:
            say_text(piece, self._plain, end="")
            self._open = not piece.endswith("\n")

    def stopping(self) -> None:
        """The user typed Ctrl-C; the run is ending."""
        self._end_text()
        self._wait("stopping; Ctrl-C again leaves at once")

    def turn_over(self) -> None:
        """The turn ended."""
        self._end_prose()
        self._quiet()
        self._end_text()

    # -- the rest ------------------------------------------------------------------------------------------------------

    def show_title(self, title: str, about: str, hint: str) -> None:
        """Show which chat this is; the hint only on a terminal."""
        self._line((title, "bold"), (f"  {label(about)}", "dim"))
        if hint:
            self._line((hint, "dim"))

    def problem(self, text: str, hint: str = "") -> None:
        """Show what went wrong and what to type."""
        self._end_prose()
        self._quiet()
        self._line((f"  {self._marks.bad} ", "red"), text)
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

    def show_message(self, text: str) -> None:
        """Show what the user sent."""
        self._end_prose()
        if self._last:
            self._exact()
        for number, line in enumerate(text.split("\n")):
            self._exact(("> " if number == 0 else "  ", "bold"), (line, "bold"))

    async def ask_at(self, prompt: ChatPrompt, question: Question) -> Answer:
        """Ask about a call at the prompt. Raises `Stopped` at Ctrl-C."""
        self._end_prose()
        self._end_text()
        if question.choice is not None:
            self._quiet()
            show_choice(question.choice, f"{question.plugin}{of_child(question)}", self._line)
            while (line := await prompt.reply([("", question.choice.asks_for)])) is not None:
                if (said := question.choice.answer(line)) is not None:
                    self._exact(f"    {said.text}")
                    return said
            return "closed"
        body = body_of(question)
        self._show_question(question, body)
        while True:
            line = await prompt.reply(
                [
                    *(("", "    run it? "), ("bold", "y"), ("", "es, "), ("bold", "n"), ("", "o, "), ("bold", "a")),
                    ("", f"lways ({label(question.tool)}, {self.always_for}), or say why not: "),
                ]
            )
            if line is None:
                return "closed"
            answer = answer_of(line)
            if answer is not None:
                return answer
            if line.strip().lower() in ("v", "view"):
                self._block(body)

    def _line(self, *parts: Part) -> None:
        self._end_text()
        super()._line(*parts)

    def _end_text(self) -> None:
        if self._open:
            self._open = False
            say_text("", self._plain)
