"""What the user decided beforehand in the conversations of a folder: the mode, and what *always* covers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from deep_sessions import Always, is_planned, questions_of, rules_for, rules_of

if TYPE_CHECKING:
    from deep_sessions import Question, Rule, Rules
    from pydantic_ai import DeferredToolRequests

__all__ = ["MODES", "Mode", "Standing"]

Mode: TypeAlias = Literal["ask", "accept-edits", "plan"]
MODES: tuple[Mode, ...] = get_args(Mode)


class Standing:
    """What the user decided beforehand. The modes and the rules of a conversation last as long as the server.

    Args:
        folder: the folder, without symlinks.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._kept = rules_of(folder)
        self._modes: dict[str, Mode] = {}
        self._rules: dict[str, Rules] = {}

    # -- the mode ------------------------------------------------------------------------------------------------------

    def mode(self, session_id: str, labels: Mapping[str, str]) -> Mode:
        """Return the mode of a conversation, whose last run has these labels."""
        if session_id in self._modes:
            return self._modes[session_id]
        if is_planned(labels):
            return "plan"
        self._kept.refresh()
        return "accept-edits" if self._kept.accepts_edits else "ask"

    def set_mode(self, session_id: str, mode: Mode, *, keep: bool = False) -> None:
        """Choose the mode.

        Args:
            session_id: the conversation.
            mode: the mode.
            keep: whether the folder's later conversations begin in it.

        Raises:
            ValueError: it cannot be kept.
            OSError: the file of what is kept cannot be written.
        """
        if keep:
            if mode == "plan" or not self._kept.can_keep:
                raise ValueError("plan mode is not kept" if mode == "plan" else "nothing is kept in this folder")
            self._kept.refresh()
            self._kept.keep_edits(mode == "accept-edits")
        self._modes[session_id] = mode

    @property
    def keeps_edits(self) -> bool:
        """Whether the folder's conversations begin in the mode `accept-edits`."""
        self._kept.refresh()
        return self._kept.accepts_edits

    @property
    def can_keep(self) -> bool:
        """Whether anything can be kept for this folder."""
        return self._kept.can_keep

    # -- rules ---------------------------------------------------------------------------------------------------------

    def rules(self, session_id: str) -> Rules:
        """Return the rules of a conversation, with those that the folder keeps now."""
        if session_id not in self._rules:
            self._rules[session_id] = rules_of(self._folder)
        self._rules[session_id].refresh()
        return self._rules[session_id]

    def offers(self, question: Question) -> list[Rule]:
        """Return what *always* could cover, the narrowest first."""
        return rules_for(question, self._folder)

    def add(self, session_id: str, question: Question, about: str, *, keep: bool) -> None:
        """Take the rule of an answer.

        Args:
            session_id: the conversation.
            question: what was asked.
            about: the rule in words: one that the question offers.
            keep: whether to keep it for the project.

        Raises:
            ValueError: the question does not offer it.
            OSError: the file of what is kept cannot be written.
        """
        rule = next((each for each in self.offers(question) if each.about == about), None)
        if rule is None:
            raise ValueError(f"{question.tool}: always does not cover this")
        self.rules(session_id).add(Always(rule, keep))

    def covered(self, session_id: str, requests: DeferredToolRequests, labels: Mapping[str, str]) -> list[str]:
        """Return the paths of the questions that need no answer: of edits in their mode, and what a rule covers."""
        rules, accepts = self.rules(session_id), self.mode(session_id, labels) == "accept-edits"
        return [
            question.path
            for question in questions_of(requests)
            if (accepts and question.is_edit) or rules.covering(question) is not None
        ]

    def forget(self, session_id: str) -> None:
        """Drop what was decided in a conversation that is gone."""
        self._modes.pop(session_id, None)
        self._rules.pop(session_id, None)
