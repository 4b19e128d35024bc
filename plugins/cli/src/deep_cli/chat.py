"""`deep chat`: a conversation with an agent of all plugins that sends messages, runs turns and stores both."""

from __future__ import annotations

from collections.abc import AsyncIterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic_ai import CancellationToken, DeferredToolRequests, capture_run_messages
from pydantic_ai.exceptions import RunCancelled
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    UserPromptPart,
    repair_messages,
)
from pydantic_ai.usage import RunUsage, UsageLimits

from deep_core import Kernel, create_default_deps

from .agent import AgentSetup, make_agent
from .approval import Answer, ApprovalMode, Approver, Question, questions
from .chat_screen import ChatScreen
from .chat_store import ChatStore, StoredChat
from .errors import explain_error
from .failure import Failure, show_traceback
from .interrupts import ChatLoop, Interrupts
from .progress import CliProgress

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.tools import DeferredToolResults

    from deep_core import DeepAgentDeps

__all__ = ["Chat", "Left"]

End = Literal["done", "stopped", "failed", "lost"]
"""How a turn ended. `lost`: no answer came, so the conversation is unchanged."""
GO_ON = "Everything so far is kept: say what to do next."
SEND_AGAIN = "Nothing is lost: send it again (arrow up), or name another model with /model provider:name."


class Left(Exception):
    """The user left in the middle of a turn; the conversation so far is stored."""


class Chat:
    """One conversation.

    Args:
        kernel: the kernel, with `progress` among its plugins.
        progress: receives the events of runs.
        setup: the agent, with its model and backend.
        stored: the conversation to continue, or a new one.
        store: where it is stored.
        screen: shows it.
        approve: how to decide calls that need approval: `ask`, `allow` or `deny`.
        max_requests: maximum requests of one turn.
        loop: runs everything; a provider's client is tied to the loop that first used it.
        trace: show tracebacks of errors.

    Raises:
        Failure: the stored conversation cannot be read.
    """

    def __init__(
        self,
        kernel: Kernel,
        progress: CliProgress,
        setup: AgentSetup,
        stored: StoredChat,
        store: ChatStore,
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
        self._setup = setup
        self._store = store
        self._screen = screen
        self._limits = UsageLimits(request_limit=max_requests)
        self._loop = loop
        self._trace = trace
        self._deps = _deps(kernel, stored)
        self.is_resumable = self.has_messages
        """Whether it is stored, so that it can be resumed."""
        self._approver = Approver(approve, self._ask if screen.ask else None, screen.decided)
        self._run_messages: list[ModelMessage] = []
        self._interrupts = Interrupts()

    # -- one turn ------------------------------------------------------------------------------------------------------

    def turn(self, prompt: str | None) -> End:
        """Run until the model has answered, asking about calls that need approval. Store the conversation afterwards.

        Args:
            prompt: the message; None continues with the calls that wait for the user.

        Raises:
            Left: the input ended at a question, which is stored with the conversation; or a second Ctrl-C came
                before the run ended.
        """
        self._interrupts = Interrupts()
        with self._interrupts.handling():
            return self._turn(prompt)

    def _turn(self, prompt: str | None) -> End:
        # Calls that wait belong to this turn: however it ends, they get their returns.
        before, usage = self.stored.messages if prompt is not None else [], RunUsage()
        self._screen.waiting()
        try:
            if prompt is not None:
                self._run(prompt, None, usage)
            while self.stored.pending is not None:
                self._save()  # the user may leave or lose the connection at the question
                waiting = self._loop.run(questions(self.stored.pending, self._progress.backend(self._deps)))
                self._run(None, self._approver.decide(self.stored.pending, waiting), usage)
        except (RunCancelled, KeyboardInterrupt) as stop:
            return self._end_stopped(stop, before)
        except Left:
            raise
        except Exception as error:  # noqa: BLE001 - the chat shows the error and continues
            return self._end_failed(error, before)
        finally:
            self._interrupts.over()
            self.stored.usage += usage
            self._screen.turn_over()
            self._save()
        return "done"

    def _run(self, prompt: str | None, answers: DeferredToolResults | None, usage: RunUsage) -> None:
        token, interrupts = CancellationToken(), self._interrupts

        def cancel() -> None:
            if interrupts.running:
                self._screen.stopping()
                token.cancel()

        # From before the loop runs until after it: raised in between, Ctrl-C would leave the run in the loop and the
        # next turn would continue it. Handled in the loop, because a signal handler may interrupt anything.
        with interrupts.cancelling(lambda: self._loop.soon(cancel)):
            result = self._loop.run(self._agent_run(prompt, answers, usage, token))
        self._run_messages = []
        self.stored.messages = result.all_messages()
        self.stored.pending = result.output if isinstance(result.output, DeferredToolRequests) else None
        if interrupts.count and self.stored.pending is not None:
            raise KeyboardInterrupt  # too late to cancel this run, in time for what it asks

    async def _agent_run(
        self, prompt: str | None, answers: DeferredToolResults | None, usage: RunUsage, token: CancellationToken
    ) -> Any:
        with capture_run_messages() as messages:
            self._run_messages = messages
            return await self._setup.agent.run(
                prompt,
                message_history=self.stored.messages,
                deferred_tool_results=answers,
                conversation_id=self.stored.conversation_id,
                deps=self._deps,
                usage=usage,
                usage_limits=self._limits,
                cancellation_token=token,
                event_stream_handler=self._show,
            )

    async def _show(self, ctx: RunContext[Any], events: AsyncIterable[object]) -> None:
        async for event in events:
            match event:
                case (
                    PartStartEvent(part=TextPart(content=text))
                    | PartDeltaEvent(delta=TextPartDelta(content_delta=text))
                ):
                    self._screen.text(text)
                case PartStartEvent(part=ThinkingPart()):
                    self._screen.thinking()
                case _:
                    pass

    def _ask(self, question: Question) -> Answer:
        ask = self._screen.ask
        answer = "closed" if ask is None else ask(question)
        if answer == "closed":
            raise Left
        return answer

    # -- other ends of a turn -----------------------------------------------------------------------------------------

    def _end_stopped(self, stop: RunCancelled | KeyboardInterrupt, before: list[ModelMessage]) -> End:
        has_answer = self._keep(stop.all_messages() if isinstance(stop, RunCancelled) else self._so_far(), before)
        self.stopped = True
        running = self._interrupts.running
        self._interrupts.over()
        if running:
            self._screen.problem("left while a tool was at work")
            raise Left from stop
        hint = "A tool does not stop, and may still do its work. " if self._loop.thread_at_work() else ""
        self._screen.problem("stopped", hint + (GO_ON if has_answer else SEND_AGAIN))
        return "stopped"

    def _end_failed(self, error: Exception, before: list[ModelMessage]) -> End:
        self._interrupts.over()
        self.failed = True
        has_answer = self._keep(self._so_far(), before)
        if self._trace:
            show_traceback(error)
        self._screen.problem(explain_error(error, self._setup.model).message, GO_ON if has_answer else SEND_AGAIN)
        return "failed" if has_answer else "lost"

    def _so_far(self) -> list[ModelMessage]:
        """The history of the current run, or of the last one."""
        return list(self._run_messages) or self.stored.messages

    def _keep(self, messages: list[ModelMessage], before: list[ModelMessage]) -> bool:
        """Repair the history so that the next request accepts it. Without an answer in it, drop the turn."""
        messages = _drop_empty(messages)
        has_answer = _answers(messages) != _answers(before)
        self.stored.messages = repair_messages(messages) if has_answer else before
        self.stored.pending = None
        self._run_messages = []
        return has_answer

    # -- the conversation ----------------------------------------------------------------------------------------------

    def _save(self) -> None:
        if not self.has_messages:
            return
        try:
            self.stored.deps = self._deps.dump()
            saved = self._store.save(self.stored)
        except (OSError, ValueError) as error:
            self._screen.problem(f"this chat could not be stored: {error}", "The chat continues.")
            return
        self.is_resumable = True
        if saved.id != self.stored.id:
            self._screen.note(f"chat {self.stored.id} was continued in another process; this one is now {saved.id}")
        self.stored = saved

    @property
    def has_messages(self) -> bool:
        """Whether there is anything to continue."""
        return bool(self.stored.messages)

    @property
    def has_denials(self) -> bool:
        """Whether an approval was denied or unanswered."""
        return any(not decision.approved for decision in self._approver.decisions)

    def how_to_go_on(self) -> str:
        """The command to type."""
        return f"Continue with: deep chat --resume {self.stored.id}"

    def last_exchange(self) -> tuple[str, str]:
        """The last messages of the user and the model; "" for none."""
        question = answer = ""
        for message in self.stored.messages:
            if isinstance(message, ModelResponse):
                answer = message.text or answer
            elif text := _user_text(message):
                question, answer = text, ""
        return question, answer

    def use_model(self, model: str) -> None:
        """Switch to another model.

        Raises:
            Exception: it is unknown, or its key or package is missing; the chat keeps its model.
        """
        self._setup = make_agent(self._kernel, model, self._setup.backend)
        self.stored.model = self._setup.model

    def begin_anew(self) -> None:
        """Leave this conversation stored, and begin another."""
        self.stored = self._store.new(self.stored.folder, self._setup.model, self._setup.backend)
        self.is_resumable = False
        self._approver.forget()
        backend = self._deps.backend
        self._deps = replace(create_default_deps(kernel=self._kernel), backend=backend)


def _deps(kernel: Kernel, stored: StoredChat) -> DeepAgentDeps[Any]:
    if not stored.deps:
        return create_default_deps(kernel=kernel)
    try:
        return kernel.load_deps(stored.deps)
    except ValueError as error:
        raise Failure(f"chat {stored.id} cannot be resumed: {error}. Its file is unchanged") from error


def _answers(messages: list[ModelMessage]) -> int:
    return sum(isinstance(message, ModelResponse) for message in messages)


def _drop_empty(messages: list[ModelMessage]) -> list[ModelMessage]:
    """Drop answers that broke off before their first text."""
    return [message for message in messages if not isinstance(message, ModelResponse) or message.parts]


def _user_text(message: ModelRequest) -> str:
    """The text that the user wrote. The kernel's live texts in user turns are marked parts, not strings."""
    for part in message.parts:
        if isinstance(part, UserPromptPart) and isinstance(part.content, str):
            return part.content
    return ""
