"""Approvals of a command: asked on the terminal as `deep run` asks, or decided by `--approve`."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from deep_cli import Question, Refusal, TerminalReporter

from deep_core.plugin_api import EVERY_CALL, are_answered

from .agents import REFUSED, UNANSWERED, CallOutcome, WaitingCall

__all__ = ["Approver", "Decided"]


@dataclass(frozen=True)
class Decided:
    """The decision about one call: `by` is `you`, `always`, `allow`, `deny` or `unanswered`."""

    tool: str
    plugin: str
    approved: bool
    by: str


class Approver:
    """Decide on calls that wait.

    Attributes:
        decisions: in order.
    """

    def __init__(self, mode: Literal["ask", "allow", "deny"], screen: TerminalReporter) -> None:
        self.decisions: list[Decided] = []
        self._mode = mode
        self._screen = screen
        self._always: set[str] = set()

    async def __call__(self, outcome: CallOutcome) -> bool | str:
        """Approve if every call that waits is approved."""
        verdict: bool | str = True
        for call in outcome.waiting:
            answer, by = self._decide(call)
            self.decisions.append(Decided(call.tool, call.plugin, answer is True, by))
            if answer is not True:
                verdict = answer
        return verdict

    def _decide(self, call: WaitingCall) -> tuple[bool | str, str]:
        if self._mode != "ask":
            return (True if self._mode == "allow" else UNANSWERED), self._mode
        if call.identity in self._always and are_answered(call.reasons, EVERY_CALL):
            return True, "always"
        if self._screen.ask is None:
            return UNANSWERED, "unanswered"
        question = Question(
            "", call.tool, call.plugin, call.arguments, call.reasons, child=call.subagent, identity=call.identity
        )
        with _interruptible():
            answer = self._screen.ask(question)
        if answer == "always" and call.identity:
            self._always.add(call.identity)
        if answer in ("yes", "always"):
            return True, "you"
        if answer == "closed":
            return UNANSWERED, "unanswered"
        return f"The user refused this call: {answer.reason}" if isinstance(answer, Refusal) else REFUSED, "you"


@contextmanager
def _interruptible() -> Generator[None]:
    """Let Ctrl-C end a question: the event loop would only note it, and the question keeps the loop waiting."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
