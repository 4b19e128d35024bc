"""The mail of sessions: what anybody leaves for whoever runs one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic_ai import CancellationToken, DeferredToolRequests
from pydantic_ai.tools import DeferredToolResults

from .decisions import decisions_of, mailed, waiting_calls
from .entries import dump_plain, read_prompt, write_prompt
from .errors import NotPending, UsageError
from .fold import fold
from .journal import Journal
from .run_request import Prompt
from .store import Mail, SessionStore, decided_before

if TYPE_CHECKING:
    from .fold import Fold

__all__ = ["MESSAGES", "Mailbox", "first_message"]

MESSAGES = ("prompt", "steer")
"""The kinds of mail that are messages."""


class Mailbox:
    """Posts mail, and hands it to the run under way.

    Args:
        store: where the mail is.
    """

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    async def post(
        self, session_id: str, kind: Literal["prompt", "steer"], message: Prompt, labels: Mapping[str, str] | None
    ) -> None:
        """Leave a message. Raises SessionNotFound if the session does not exist."""
        await self._store.post(session_id, kind, write_prompt(message, labels))

    async def messages(self, session_id: str) -> list[Prompt]:
        """Return the messages that wait, in order. Raises SessionNotFound if the session does not exist."""
        return [read_prompt(mail.data) for mail in await self._store.mail(session_id) if mail.kind in MESSAGES]

    async def decide(self, session_id: str, results: DeferredToolResults, approval: str | None) -> None:
        """Leave decisions on waiting calls. Of all who decide one call, in any process, one succeeds.

        Args:
            session_id: the session.
            results: the decisions.
            approval: `WaitingCalls.approval` of the question that they answer; None for whatever the calls ask now.

        Raises:
            NotPending: a call does not wait, was decided before, or asks something else now. Nothing is recorded.
            UsageError: a result or an argument has no JSON. Nothing is recorded.
        """
        try:
            decisions = {call: dump_plain({call: decision}) for call, decision in decisions_of(results).items()}
        except (ValueError, RecursionError) as error:
            raise UsageError(f"session {session_id}: a decision cannot be written as JSON: {error}") from error
        while True:
            state = fold(await self._store.load(session_id))
            _check_waiting(state, results, approval)
            if await self._store.decide(session_id, state.seq, decisions):
                return

    async def deliver(self, session_id: str, journal: Journal, token: CancellationToken) -> None:
        """Hand what came to the run under way: messages for its next request, and requests to stop."""
        for mail in await self._store.mail(session_id):
            if mail.kind == "steer":
                journal.steer(mail)
            elif mail.kind == "cancel" and mail.id not in journal.stops:
                journal.stops.append(mail.id)
                token.cancel()


def first_message(mails: Sequence[Mail]) -> Mail | None:
    """Return the first message that begins a run."""
    return next((mail for mail in mails if mail.kind in MESSAGES), None)


def _check_waiting(state: Fold, results: DeferredToolResults, approval: str | None) -> None:
    now = waiting_calls(state.run)
    if approval is not None and now is not None and now.approval != approval:
        raise NotPending(
            f"session {state.info.id}: this is not an answer to what is asked now; what you answered was not used. "
            "Look at the session to see what it asks"
        )
    decided = {**(state.run.decisions if state.run else {}), **mailed(state.mail)}
    requests = (state.run.requests if state.run else None) or DeferredToolRequests()
    for what, given, asked in (
        ("an approval", results.approvals.keys(), requests.approvals),
        ("a result", results.calls.keys(), requests.calls),
    ):
        waiting = {call.tool_call_id for call in asked} - decided.keys()
        if unknown := given - waiting:
            if min(unknown) in decided:
                raise decided_before(state.info.id, min(unknown))
            raise NotPending(
                f"session {state.info.id}: call {min(unknown)!r} does not wait for {what}. "
                + (f"These do: {', '.join(sorted(waiting))}" if waiting else "None does.")
            )
