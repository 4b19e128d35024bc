"""The screen of a chat: the streamed answer on stdout, the rest on stderr, with an empty line in between."""

from __future__ import annotations

import sys
from base64 import b64encode
from typing import TYPE_CHECKING, Any, TextIO

from ..run.approval import Answer, Question
from ..run.report import Step
from ..run.rules import is_edit, offers
from ..run.task_screen import WHICH, TerminalReporter, answer_of, asks_for, body_of, of_child, rule_of
from ..terminal.asking import show_choice
from ..terminal.output import Part, say_text
from ..terminal.screen import label
from ..view import diff_line
from .mentions import fold_files, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponsePart

    from .prompt import ChatPrompt

__all__ = ["ChatScreen", "as_seen", "shown_parts"]


REPLAYED = 3
"""Messages of the user, with what followed, that a resumed chat shows."""


def user_text(message: ModelMessage) -> str:
    """The text that the user wrote. The kernel's live texts in user turns are marked parts, not strings."""
    from pydantic_ai.messages import ModelRequest, UserPromptPart

    for part in message.parts if isinstance(message, ModelRequest) else ():
        if isinstance(part, UserPromptPart) and (text := text_of(part.content)):
            return text
    return ""


def shown_parts(messages: Sequence[ModelMessage]) -> list[ModelRequestPart | ModelResponsePart]:
    """What a person sees of a conversation, in order: messages, answers, calls and their results."""
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart

    parts: list[ModelRequestPart | ModelResponsePart] = []
    for message in messages:
        for part in message.parts:
            match part:
                case UserPromptPart(content=content) if text_of(content):
                    parts.append(part)
                case TextPart(content=text) if isinstance(message, ModelResponse) and text.strip():
                    parts.append(part)
                case ToolCallPart() | ToolReturnPart():
                    parts.append(part)
                case _:
                    pass
    return parts


def as_seen(part: ModelRequestPart | ModelResponsePart) -> tuple[str, str]:
    """What tells a part from another one on the screen."""
    call = getattr(part, "tool_call_id", None)
    return part.part_kind, str(call) if call else text_of(getattr(part, "content", ""))


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

    def running(self, command: str) -> None:
        """The user's own command runs."""
        self.view.restart()
        self._wait(f"$ {command}")

    def compacting(self) -> None:
        """The conversation is being made shorter."""
        self.view.restart()
        self._wait("summarizing the conversation")

    def text(self, piece: str) -> None:
        """A piece of the answer: rendered on a terminal, else as it is."""
        if self.streams:
            super().text(piece)
        elif piece:
            say_text(piece, self._plain, end="")
            self._open = not piece.endswith("\n")

    def stopping(self, interrupts: int) -> None:
        """The user typed Esc, or Ctrl-C this often; the run is ending."""
        self._end_text()
        self.view.stop()
        self._wait(f"stopping; Ctrl-C {'again' if interrupts else 'twice'} leaves at once")

    def answered(self) -> None:
        """An answer is whole: what follows is not part of it."""
        self._end_prose()

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

    def copy(self, text: str) -> None:
        """Ask the terminal to put a text into its clipboard (OSC 52). It shows nothing, and says nothing back."""
        if self._out.is_terminal:
            self._out.control(f"\x1b]52;c;{b64encode(text.encode('utf-8', 'replace')).decode()}\x07")

    def show_diff(self, lines: Sequence[str]) -> None:
        """Print a diff."""
        for line in lines:
            self._exact("  ", *diff_line(line))

    def replay(self, messages: Sequence[ModelMessage]) -> None:
        """Show the end of a conversation as it was shown when it happened."""
        from pydantic_ai.messages import UserPromptPart

        parts = shown_parts(messages)
        begins = [place for place, part in enumerate(parts) if isinstance(part, UserPromptPart)]
        first = begins[-REPLAYED] if len(begins) > REPLAYED else 0
        if first:
            hidden = next(
                n for n, message in enumerate(messages) if any(part is parts[first] for part in message.parts)
            )
            self._line((f"  … {hidden} messages before", "dim"))
        self._show_parts(parts, first)

    def added(self, messages: Sequence[ModelMessage], shown: int) -> None:
        """Show what another interface added to a conversation, of which these many `shown_parts` were shown."""
        self._show_parts(shown_parts(messages), shown)
        self._end_prose()

    def _show_parts(self, parts: Sequence[ModelRequestPart | ModelResponsePart], first: int) -> None:
        from pydantic_ai.messages import TextPart, ToolCallPart, ToolReturnPart, UserPromptPart

        calls = {part.tool_call_id: part for part in parts if isinstance(part, ToolCallPart)}
        for part in parts[first:]:
            match part:
                case UserPromptPart(content=content):
                    self.show_message(text_of(content))
                case TextPart(content=text):
                    self._show_prose(text) if self.streams else self.show_lines(text)
                case ToolReturnPart() if part.tool_call_id in calls:
                    args = calls[part.tool_call_id].args_as_dict()
                    outcome: Any = "success" if part.outcome == "success" else "failed"
                    step = Step(part.tool_name, "", args, outcome, 0.0, result=part.model_response_str())
                    for line in self.view.ended(step):
                        self._line(*line)
                case _:
                    pass

    def show_message(self, text: str) -> None:
        """Show what the user sent."""
        self._end_prose()
        if self._last:
            self._exact()
        for number, line in enumerate(fold_files(text).split("\n")):
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
            parts = asks_for(question, self.always_for)
            asked = [("", part) if isinstance(part, str) else (part[1].replace("dim", ""), part[0]) for part in parts]
            line = await prompt.reply(asked, at_switch="e" if is_edit(question) else None)
            if line is None:
                return "closed"
            answer = answer_of(line, question)
            if answer == "always" and self.rules is not None:
                found = offers(question, self.rules.folder)
                self._show_rules(found, self.rules)
                answer = rule_of(await prompt.reply([("", WHICH)]) or "", found, self.rules)
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
