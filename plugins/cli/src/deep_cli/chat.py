"""`deep chat`: a conversation with an agent of all plugins that sends messages and runs turns."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from deep_sessions import AgentError, DecisionsPending, SessionBusy, SessionStore
from pydantic_ai import CancellationToken
from pydantic_ai.messages import ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.usage import RunUsage, UsageLimits

from deep_core import Kernel, create_default_deps

from .agent import AgentSetup, make_agent
from .approval import Answer, ApprovalMode, Approver, Question, questions
from .chat_screen import ChatScreen
from .chat_sessions import ChatRuns, StoredChat, answers
from .errors import explain_error
from .failure import show_traceback
from .interrupts import ChatLoop, Interrupts
from .names import new_id, short_id
from .plan import CARRY_OUT
from .progress import CliProgress
from .screen import one_line

if TYPE_CHECKING:
    from deep_sessions import Outcome
    from pydantic_ai.workspaces import WorkspaceBackend

__all__ = ["Chat", "Left"]

End = Literal["done", "stopped", "failed", "lost"]
"""How a turn ended. `lost`: no answer came, so the conversation is unchanged."""
GO_ON = "Everything so far is kept: say what to do next."
SEND_AGAIN = "Nothing is lost: send it again (arrow up), or name another model with /model provider:name."
BUSY = "Another deep chat is at work in this chat. Nothing is lost: send it again (arrow up) when it has answered."


class Left(Exception):
    """The user left in the middle of a turn; the conversation so far is stored."""


class Chat:
    """One conversation.

    Args:
        kernel: the kernel, with `progress` among its plugins.
        progress: receives the events of runs.
        setup: the agent, with its model and backend, made for stored sessions.
        stored: the conversation to continue, or a new one.
        store: where it is stored.
        screen: shows it.
        approve: how to decide calls that need approval: `ask`, `allow` or `deny`.
        max_requests: maximum requests of one turn.
        loop: runs everything; a provider's client is tied to the loop that first used it.
        trace: show tracebacks of errors.
    """

    def __init__(
        self,
        kernel: Kernel,
        progress: CliProgress,
        setup: AgentSetup,
        stored: StoredChat,
        store: SessionStore,
        screen: ChatScreen,
        *,
        approve: ApprovalMode,
        max_requests: int,
        loop: ChatLoop,
        trace: bool = False,
    ) -> None:
        self.stored = stored
        self.stopped = False
        """Whether Ctrl-C ended a turn."""
        self.failed = False
        """Whether a turn ended with an error."""
        self._kernel = kernel
        self._progress = progress
        self._screen = screen
        self._limits = UsageLimits(request_limit=max_requests)
        self._loop = loop
        self._trace = trace
        self._runs = ChatRuns(store, kernel, setup.modes, self._workspace, self._not_stored)
        self._backend: WorkspaceBackend | None = None
        self._was_run = False
        """Whether the store may have this conversation."""
        self._approver = Approver(approve, self._ask if screen.ask else None, screen.decided)
        self._interrupts = Interrupts()
        self._use(setup)

    def _use(self, setup: AgentSetup) -> None:
        self._setup = setup
        self.stored.model, self.stored.backend = setup.model, setup.backend

    # -- one turn ------------------------------------------------------------------------------------------------------

    def turn(self, prompt: str | None) -> End:
        """Run until the model has answered, asking about calls that need approval. The store has every step.

        Args:
            prompt: the message; None continues what is unfinished.

        Raises:
            Left: the input ended at a question, which is stored with the conversation; or a second Ctrl-C came
                before the run ended.
        """
        self._interrupts = Interrupts()
        with self._interrupts.handling():
            return self._turn(prompt)

    def _turn(self, prompt: str | None) -> End:
        # What was unfinished belongs to this turn.
        before = answers(self.stored.messages) if prompt is not None else 0
        self._was_run, outcome = True, None
        self._screen.waiting()
        try:
            runs, chat = self._runs, self.stored
            step = partial(runs.resume, chat) if prompt is None else partial(runs.send, chat, prompt)
            while True:
                outcome = self._run(step)
                while outcome.status == "awaiting" and outcome.requests is not None:
                    waiting = self._loop.run(questions(outcome.requests, self._workspace(chat.id)))
                    results = self._approver.decide(outcome.requests, waiting)
                    outcome = self._run(partial(runs.answer, chat, results))
                message = self._loop.run(runs.next_message(chat)) if outcome.status == "completed" else None
                if message is None:
                    break
                self._screen.note(f"another process wrote: {one_line(message, 200)}")
                step = partial(runs.next, chat)
        except KeyboardInterrupt as stop:
            return self._end_stopped(before, stop)
        except Left:
            raise
        except Exception as error:  # noqa: BLE001 - the chat shows the error and continues
            if outcome is not None and not isinstance(error, AgentError):  # no question could be made of the calls
                self._attempt(self._runs.cancel(self.stored))
            return self._end_failed(error, before)
        finally:
            self._interrupts.over()
            self._screen.turn_over()
        if outcome.status == "aborted":
            return self._end_stopped(before)
        return "done" if outcome.error is None else self._end_failed(outcome.error, before)

    def _run(self, step: Callable[..., Coroutine[Any, Any, Outcome]]) -> Outcome:
        token, interrupts = CancellationToken(), self._interrupts

        def cancel() -> None:
            if interrupts.running:
                self._screen.stopping()
                token.cancel()

        # From before the loop runs until after it: raised in between, Ctrl-C would leave the run in the loop and the
        # next turn would continue it. Handled in the loop, because a signal handler may interrupt anything.
        with interrupts.cancelling(lambda: self._loop.soon(cancel)):
            outcome = self._loop.run(step(token=token, usage_limits=self._limits, on_events=self._progress.stream))
        self.stored.messages = outcome.messages
        if interrupts.count and outcome.status == "awaiting":
            raise KeyboardInterrupt  # too late to cancel this run, in time for what it asks
        return outcome

    def _ask(self, question: Question) -> Answer:
        ask = self._screen.ask
        answer = "closed" if ask is None else ask(question)
        if answer == "closed":
            raise Left
        return answer

    def _workspace(self, session_id: str) -> WorkspaceBackend | None:
        """Return the workspace of this chat, and of those that begin with `/new`. A question needs it before a run."""
        if self._backend is None:
            deps = create_default_deps(kernel=self._kernel)
            deps.session_id = session_id
            self._backend = self._progress.backend(deps)
        return self._backend

    # -- other ends of a turn -----------------------------------------------------------------------------------------

    def _end_stopped(self, before: int, stop: KeyboardInterrupt | None = None) -> End:
        self.stopped = True
        running = self._interrupts.running
        self._interrupts.over()
        if stop is not None:
            # At a question: the calls must not wait any more. In a run that does not end: it must not be continued.
            self._attempt(self._runs.cancel(self.stored))
        if running:
            self._attempt(self._runs.load(self.stored))
            self._screen.problem("left while a tool was at work")
            raise Left from stop
        hint = "A tool does not stop, and may still do its work. " if self._loop.thread_at_work() else ""
        self._screen.problem("stopped", hint + (GO_ON if answers(self.stored.messages) != before else SEND_AGAIN))
        return "stopped"

    def _end_failed(self, error: BaseException, before: int) -> End:
        self._interrupts.over()
        self.failed = True
        has_answer = answers(self.stored.messages) != before
        if self._trace:
            show_traceback(error)
        hint = GO_ON if has_answer else SEND_AGAIN
        if isinstance(error, SessionBusy):
            hint = BUSY
        elif isinstance(error, DecisionsPending):
            hint = f"Answer there, or leave and ask again here: deep chat --resume {self.id}"
        self._screen.problem(self._explain(error), hint)
        return "failed" if has_answer else "lost"

    def _explain(self, error: BaseException) -> str:
        if isinstance(error, AgentError):
            return one_line(error.message, None)
        return explain_error(error, self._setup.model).message

    def _attempt(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in the store; show why it failed."""
        try:
            self._loop.run(work)
        except AgentError as error:
            self._screen.problem(self._explain(error))

    def _not_stored(self, why: str) -> None:
        self._screen.problem(f"this chat is not stored: {one_line(why, None)}", "The chat continues.")

    # -- the conversation ----------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The digits that `--resume` takes."""
        return short_id(self.stored.id)

    @property
    def is_resumable(self) -> bool:
        """Whether it is stored with an answer, so that it can be resumed."""
        return self._runs.is_stored and answers(self.stored.messages) > 0

    @property
    def has_denials(self) -> bool:
        """Whether an approval was denied or unanswered."""
        return any(not decision.approved for decision in self._approver.decisions)

    def how_to_go_on(self) -> str:
        """The command to type."""
        return f"Continue with: deep chat --resume {self.id}"

    def last_exchange(self) -> tuple[str, str]:
        """The last messages of the user and the model; "" for none."""
        question = answer = ""
        for message in self.stored.messages:
            if isinstance(message, ModelResponse):
                answer = message.text or answer
            elif text := _user_text(message):
                question, answer = text, ""
        return question, answer

    def finish_last_turn(self) -> None:
        """Ask again about calls that wait, and continue a turn that was interrupted. Raises Left as `turn` does."""
        if self.stored.unfinished == "stopped":
            self._attempt(self._runs.cancel(self.stored))
        elif self.stored.unfinished:
            if self.stored.unfinished == "interrupted":
                self._screen.note(f"the last turn was interrupted, and continues: {one_line(self.stored.prompt, 60)}")
            self.turn(None)

    def usage(self) -> RunUsage:
        """What all turns used.

        Raises:
            AgentError: the store cannot be read.
        """
        return self._loop.run(self._runs.usage(self.stored))

    def use_model(self, model: str) -> None:
        """Switch to another model.

        Raises:
            Exception: it is unknown, or its key or package is missing; the chat keeps its model.
        """
        has_person = self._screen.ask is not None
        self._use(make_agent(self._kernel, model, self._setup.backend, is_stored=True, has_person=has_person))
        self._runs.use(self._setup.modes)

    def ask_about_plan(self) -> str | None:
        """Ask whether to carry out the plan of a turn in plan mode; leave the mode if so.

        Returns:
            The next message; None if the user gives none now.

        Raises:
            Left: the input ended at the question.
        """
        if self._screen.ask is None:
            return None
        message = self._approver.decide_plan("", self._loop.run(self._runs.slots(self.stored)))
        self.stored.plan = message != CARRY_OUT
        return message

    def begin_anew(self) -> None:
        """Leave this conversation stored, and begin another in the same workspace."""
        self.leave()
        self.stored = StoredChat(new_id(self.stored.folder), self.stored.folder, plan=self.stored.plan)
        self._use(self._setup)
        self._approver.forget()

    def leave(self) -> None:
        """Leave this conversation: it is deleted if nothing was answered."""
        if self._was_run and self._runs.is_stored and not answers(self.stored.messages):
            self._attempt(self._runs.drop(self.stored))
        self._was_run = False

    def close(self) -> None:
        """Close the store."""
        self._attempt(self._runs.close())


def _user_text(message: ModelRequest) -> str:
    """The text that the user wrote. The kernel's live texts in user turns are marked parts, not strings."""
    for part in message.parts:
        if isinstance(part, UserPromptPart) and isinstance(part.content, str):
            return part.content
    return ""
