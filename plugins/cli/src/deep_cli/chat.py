"""A conversation with an agent of all plugins: messages in, turns run, what was done kept. `deep chat` is this."""

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

from .agent import Made, make_agent
from .approval import Answer, ApprovalMode, Approver, Question, questions
from .chat_screen import ChatScreen
from .chat_store import ChatStore, StoredChat
from .explained import explained
from .failure import Failure, show_traceback
from .interrupts import ChatLoop, Interrupts
from .progress import CliProgress
from .screen import plain

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.tools import DeferredToolResults

    from deep_core import DeepAgentDeps

__all__ = ["Chat", "Left"]

End = Literal["done", "stopped", "failed", "lost"]
"""How a turn ended. `lost`: nothing was answered, so the conversation is as it was before."""
GO_ON = "Everything until then is kept: say what to do next."
SEND_AGAIN = "Nothing is lost: send it again (arrow up), or name another model with /model provider:name."


class Left(Exception):
    """Whoever talked has left in the middle of a turn; what there is of it is stored."""


class Chat:
    """One conversation on its way.

    Args:
        kernel: whose plugins; `progress` is among them.
        progress: hears the runs.
        made: the agent.
        stored: what is continued, or a new conversation.
        store: where it is kept.
        screen: what shows it.
        approve: what becomes of calls that need approval.
        max_requests: the most requests of one turn.
        loop: runs everything; a provider's client belongs to the loop it was first used in.
        trace: show the traceback of an error.

    Raises:
        Failure: the stored session cannot be read.
    """

    def __init__(
        self,
        kernel: Kernel,
        progress: CliProgress,
        made: Made,
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
        self._made = made
        self._store = store
        self._screen = screen
        self._limits = UsageLimits(request_limit=max_requests)
        self._loop = loop
        self._trace = trace
        self._deps = _deps(kernel, stored)
        self.kept = self.begun
        """Whether there is a file of it, so that it can be resumed."""
        self._approver = Approver(approve, self._ask if screen.ask else None, screen.decided)
        self._seen: list[ModelMessage] = []
        self._interrupts = Interrupts()

    # -- one turn ------------------------------------------------------------------------------------------------------

    def turn(self, prompt: str | None) -> End:
        """Run until the model has answered, asking about each call that needs it. The conversation is stored after.

        Args:
            prompt: the message; None goes on with what waits for a person.

        Raises:
            Left: a question was met with the end of the input, and is stored with the conversation; or a second
                Ctrl-C came while the run did not end.
        """
        self._interrupts = Interrupts()
        with self._interrupts.heard():
            return self._turn(prompt)

    def _turn(self, prompt: str | None) -> End:
        # What waits for a person is part of this turn: however it ends, those calls get their returns.
        before, usage = self.stored.messages if prompt is not None else [], RunUsage()
        self._screen.waiting()
        try:
            if prompt is not None:
                self._run(prompt, None, usage)
            while self.stored.pending is not None:
                self._save()  # whoever is asked may leave, or be cut off
                asked = self._loop.run(questions(self.stored.pending, self._progress.backend(self._deps)))
                self._run(None, self._approver.decide(self.stored.pending, asked), usage)
        except (RunCancelled, KeyboardInterrupt) as stop:
            return self._stopped(stop, before)
        except Left:
            raise
        except Exception as error:  # noqa: BLE001 - what a turn ends with is shown, and the chat goes on
            return self._failed(error, before)
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

        # From before the loop runs until after it: Ctrl-C raised in between would leave the run in the loop, to go on
        # with the next one. In the loop and not in the handler, which may stand in the middle of anything.
        with interrupts.cancelling(lambda: self._loop.soon(cancel)):
            result = self._loop.run(self._agent_run(prompt, answers, usage, token))
        self._seen = []
        self.stored.messages = result.all_messages()
        self.stored.pending = result.output if isinstance(result.output, DeferredToolRequests) else None
        if interrupts.typed and self.stored.pending is not None:
            raise KeyboardInterrupt  # too late to cancel this run, in time for what it asks

    async def _agent_run(
        self, prompt: str | None, answers: DeferredToolResults | None, usage: RunUsage, token: CancellationToken
    ) -> Any:
        with capture_run_messages() as seen:
            self._seen = seen
            return await self._made.agent.run(
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

    # -- how a turn ends otherwise -----------------------------------------------------------------------------------

    def _stopped(self, stop: RunCancelled | KeyboardInterrupt, before: list[ModelMessage]) -> End:
        kept = self._keep(stop.all_messages() if isinstance(stop, RunCancelled) else self._so_far(), before)
        self.stopped = True
        running = self._interrupts.running
        self._interrupts.over()
        if running:
            self._screen.problem("left while a tool was at work")
            raise Left from stop
        hint = "A tool does not stop, and may still do its work. " if self._loop.thread_at_work() else ""
        self._screen.problem("stopped", hint + (GO_ON if kept else SEND_AGAIN))
        return "stopped"

    def _failed(self, error: Exception, before: list[ModelMessage]) -> End:
        self._interrupts.over()
        self.failed = True
        kept = self._keep(self._so_far(), before)
        if self._trace:
            show_traceback(error)
        self._screen.problem(explained(error, self._made.model).message, GO_ON if kept else SEND_AGAIN)
        return "failed" if kept else "lost"

    def _so_far(self) -> list[ModelMessage]:
        """The history of the run that is under way, or else of those that are over."""
        return list(self._seen) or self.stored.messages

    def _keep(self, messages: list[ModelMessage], before: list[ModelMessage]) -> bool:
        """Make the history one that the next request accepts. Without an answer in it, the turn is taken back."""
        messages = _said(messages)
        kept = _answers(messages) != _answers(before)
        self.stored.messages = repair_messages(messages) if kept else before
        self.stored.pending = None
        self._seen = []
        return kept

    # -- the conversation --------------------------------------------------------------------------------------------

    def _save(self) -> None:
        if not self.begun:
            return
        try:
            self.stored.deps = self._deps.dump()
            saved = self._store.save(self.stored)
        except (OSError, ValueError) as error:
            self._screen.problem(f"this chat could not be stored: {plain(str(error))}", "It goes on all the same.")
            return
        self.kept = True
        if saved.id != self.stored.id:
            self._screen.note(f"chat {self.stored.id} was continued elsewhere; from here on this one is {saved.id}")
        self.stored = saved

    @property
    def begun(self) -> bool:
        """Whether there is anything to go on with."""
        return bool(self.stored.messages)

    @property
    def refused(self) -> bool:
        """Whether an approval was refused, or could not be asked."""
        return any(not decision.approved for decision in self._approver.decisions)

    def how_to_go_on(self) -> str:
        """What to type."""
        return f"Go on with: deep chat --resume {self.stored.id}"

    def last_exchange(self) -> tuple[str, str]:
        """What was said last, by the person and by the model; "" for nothing."""
        asked = answered = ""
        for message in self.stored.messages:
            if isinstance(message, ModelResponse):
                answered = message.text or answered
            elif typed := _typed(message):
                asked, answered = typed, ""
        return asked, answered

    def use_model(self, model: str) -> None:
        """Go on with another model.

        Raises:
            Exception: it is unknown, or its key or package is missing; the chat stays with the one it had.
        """
        self._made = make_agent(self._kernel, model, self._made.backend)
        self.stored.model = self._made.model

    def begin_anew(self) -> None:
        """Leave this conversation as it is stored, and begin another."""
        self.stored = self._store.new(self.stored.folder, self._made.model, self._made.backend)
        self.kept = False
        self._approver.forget()
        backend = self._deps.backend
        self._deps = replace(create_default_deps(kernel=self._kernel), backend=backend)


def _deps(kernel: Kernel, stored: StoredChat) -> DeepAgentDeps[Any]:
    if not stored.deps:
        return create_default_deps(kernel=kernel)
    try:
        return kernel.load_deps(stored.deps)
    except ValueError as error:
        raise Failure(f"chat {stored.id} cannot be resumed: {error}. Its file was left as it is") from error


def _answers(messages: list[ModelMessage]) -> int:
    return sum(isinstance(message, ModelResponse) for message in messages)


def _said(messages: list[ModelMessage]) -> list[ModelMessage]:
    """The messages without answers in which nothing had been said yet when they broke off."""
    return [message for message in messages if not isinstance(message, ModelResponse) or message.parts]


def _typed(message: ModelRequest) -> str:
    """What a person wrote. The kernel's live texts stand in user turns too, as marked items and not as a string."""
    for part in message.parts:
        if isinstance(part, UserPromptPart) and isinstance(part.content, str):
            return part.content
    return ""
