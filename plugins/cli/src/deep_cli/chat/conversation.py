"""`deep chat`: a conversation with an agent of all plugins that sends messages and runs turns."""

from __future__ import annotations

import asyncio
import shlex
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from deep_sessions import (
    AgentError,
    BackgroundCommands,
    ChatCommand,
    DecisionsPending,
    NotCompacted,
    NothingToResume,
    SessionBusy,
    SessionNotFound,
    SessionStore,
    chat_commands,
    words_of_end,
)
from pydantic_ai import CancellationToken
from pydantic_ai.usage import RunUsage, UsageLimits

from deep_core import Kernel, create_default_deps

from ..errors import explain_error
from ..failure import Failure, show_traceback
from ..run.agent import AgentSetup
from ..run.approval import Answer, ApprovalMode, Approver, Question, questions
from ..run.attach import Attachment, Message, as_prompt, takes_pictures
from ..run.names import new_id, project, short_id
from ..run.plan import CARRY_OUT
from ..run.progress import CliProgress
from ..terminal.interrupts import ChatLoop, Interrupts, LeftRunning, Stopped
from ..terminal.screen import one_line
from ..undo import FileLog, TakenBack
from .mentions import Mentions, text_of
from .screen import ChatScreen, as_seen, shown_parts
from .stored import ChatRuns, StoredChat, check_agent, find_chat

if TYPE_CHECKING:
    from deep_sessions import Compacted, Outcome
    from pydantic_ai import DeferredToolRequests, RunContext
    from pydantic_ai.tools import DeferredToolResults
    from pydantic_ai.workspaces import WorkspaceBackend

    from .prompt import ChatPrompt

__all__ = ["Chat", "Left"]

T = TypeVar("T")
End = Literal["done", "stopped", "failed", "lost", "left"]
"""How a turn ended. `lost`: the message did not get into the conversation. `left`: another interface sends it next."""
MODES = ("ask", "accept-edits", "plan")
GO_ON = "Everything so far is kept: /retry tries again, or say what to do next."
SEND_AGAIN = "Nothing is lost: send it again (arrow up)."
WATCH = 1.0
"""Seconds between two looks at what other interfaces did."""
NEXT = "another interface is at work in this chat: your message is the next one"
BEHIND = "other messages wait in this chat: your message is the next one after them"
BUSY = "Another deep chat is at work in this chat. Nothing is lost: send it again (arrow up) when it has answered."


class Left(Exception):
    """The user left in the middle of a turn; the conversation so far is stored.

    Args:
        interrupted: whether by Ctrl-C.
    """

    def __init__(self, *, interrupted: bool = False) -> None:
        super().__init__()
        self.interrupted = interrupted


class Chat:
    """One conversation.

    Args:
        kernel: the kernel, with `progress` among its plugins.
        progress: receives the events of runs.
        setup: the agent, with its model and backend, made for stored sessions.
        stored: the conversation to continue, or a new one.
        store: where it is stored.
        screen: shows it.
        make: makes the agent with another model.
        plugin_files: the files of `-p` in the kernel, as in `StoredChat`.
        prompt: where the user types; None without a terminal.
        approve: how to decide calls that need approval: `ask`, `allow` or `deny`.
        max_requests: maximum requests of one turn.
        attach_chars: maximum characters of the text files that one message mentions.
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
        make: Callable[[str], AgentSetup],
        plugin_files: Mapping[str, str] = MappingProxyType({}),
        prompt: ChatPrompt | None = None,
        approve: ApprovalMode,
        max_requests: int,
        attach_chars: int = 200_000,
        loop: ChatLoop,
        trace: bool = False,
    ) -> None:
        self.stored = stored
        self._plugin_files = plugin_files
        self.stopped = False
        """Whether Ctrl-C ended a turn."""
        self.failed = False
        """Whether a turn ended with an error."""
        self.elsewhere = ""
        """The folder of the chat that follows this one, such as a worktree; "" for none."""
        self._kernel = kernel
        self._progress = progress
        self._screen = screen
        self._limits = UsageLimits(request_limit=max_requests)
        self._loop = loop
        self._trace = trace
        self._make = make
        self._runs = ChatRuns(store, setup.kernel, setup.modes, self._workspace, self._not_stored)
        self._backend: WorkspaceBackend | None = None
        self._was_run = False
        """Whether the store may have this conversation."""
        self._prompt = prompt
        self._own: list[str] = []
        """Messages to the run under way that may become the next message."""
        self._posts: set[asyncio.Future[None]] = set()
        self._entry = 0
        """The last entry of the journal that the messages here have, as of the last look."""
        self._said: list[str] = []
        """The messages of the turn under way, as the screen shows them."""
        self._has_left = False
        """Whether a message was left for another interface, which may not have taken it."""
        self._held: list[str] = []
        """The messages that wait since a turn ended early, as the screen shows them."""
        self._goes_on = asyncio.Event()
        """Whether the user wants them sent."""
        self._approver = Approver(approve, None, screen.decided, screen.rules)
        self.log = progress.log = FileLog()
        """What the tools of this chat changed."""
        self._interrupts = Interrupts()
        self.output: tuple[str, str] | None = None
        """The last `!` command of the user, and its output."""
        self.mentions = Mentions(stored.folder, attach_chars, lambda: self.output)
        self._use(setup)

    def _use(self, setup: AgentSetup) -> None:
        self._setup = setup
        self.stored.model, self.stored.backend = setup.model, setup.backend
        self.stored.plugin_files = {**self.stored.plugin_files, **self._plugin_files}

    # -- one turn ------------------------------------------------------------------------------------------------------

    async def turn(self, prompt: Message | None, *, how: Literal["", "again", "next"] = "") -> End:
        """Run until the model has answered, asking about calls that need approval. The store has every step.

        Args:
            prompt: the message; None continues what is unfinished.
            how: `again`: try the last turn again, from its last step, also if it failed or was stopped. `next`: run a
                message that waits in the store.

        Raises:
            Left: the input ended at a question, which is stored with the conversation; or a second Ctrl-C came
                before the run ended.
        """
        self._interrupts = Interrupts()
        with self._hearing(self._interrupts):
            return await self._turn(prompt, how)

    async def stoppable(self, work: Awaitable[T], cancel: Callable[[], None]) -> T:
        """Wait for something that is no turn, and that Esc and Ctrl-C cancel. Messages wait meanwhile.

        Raises:
            LeftRunning: a second Ctrl-C came, and it has not ended.
        """
        interrupts = Interrupts()
        with self._hearing(interrupts):
            return await interrupts.run(work, cancel)

    async def agrees(self, question: str) -> bool:
        """Ask the user; without a terminal, the answer is no."""
        if self._prompt is None:
            return False
        try:
            return (await self._prompt.reply([("bold", f"{question} y/n ")]) or "").strip().lower() in ("y", "yes")
        except Stopped:
            return False

    @asynccontextmanager
    async def lend(self) -> AsyncGenerator[bool]:
        """Give the terminal to another program of the user. Yields whether there is one."""
        if self._prompt is None:
            yield False
            return
        async with self._prompt.lend():
            yield True

    @contextmanager
    def _hearing(self, interrupts: Interrupts) -> Generator[None]:
        """Hear Ctrl-C: as a key at the prompt, or as a signal."""
        if self._prompt is not None:
            with self._prompt.hearing(interrupts):
                yield
            return
        loop = asyncio.get_running_loop()
        usual = signal.getsignal(signal.SIGINT)
        loop.add_signal_handler(signal.SIGINT, interrupts)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            signal.signal(signal.SIGINT, usual)

    async def _turn(self, prompt: Message | None, how: Literal["", "again", "next"]) -> End:
        with suppress(AgentError):  # the run says it
            if await self._look() and prompt is not None:
                self._screen.show_message(text_of(prompt))
        # What was unfinished belongs to this turn.
        before = len(self.stored.messages) if prompt is not None else 0
        self._said = [] if prompt is None else [text_of(prompt)]
        self._was_run, outcome, is_next, is_left, is_changed = True, None, how == "next", False, False
        if prompt is not None and await self._runs.waiting(self.stored):  # that goes first
            if await self._leave_message(prompt, BEHIND) == "lost":
                return "lost"
            prompt, self._said, is_next, is_left = None, [], True, True
        self._screen.waiting()
        if begins := prompt is not None or is_next:
            self.log.begin(self._entry)
        try:
            runs, chat = self._runs, self.stored
            ways = {"": partial(runs.resume, chat), "again": partial(runs.retry, chat), "next": self._run_next}
            step = ways["next" if is_next else how] if prompt is None else partial(runs.send, chat, prompt)
            while True:
                outcome = await self._run(step)
                is_changed |= begins and not await self._runs.follows(chat, self._entry, outcome.run_id)
                while outcome.status == "awaiting" and outcome.requests is not None:
                    waiting = await questions(outcome.requests, self._workspace(chat.id))
                    results = await self._decide(outcome.requests, waiting)
                    outcome = await self._run(partial(runs.answer, chat, outcome.requests.approval, results))
                if self._posts:  # what was typed as the run ended is the next message
                    await asyncio.wait(self._posts)
                if outcome.status != "completed" or not await self._runs.waiting(chat):
                    break
                step, is_next, begins, outcome = self._run_next, True, True, None
                with suppress(AgentError):
                    await self._look()
                self.log.begin(self._entry)  # a turn of its own: /undo takes back one message
        except Stopped:  # at a question: the calls must not wait any more
            await self._attempt(self._runs.cancel(self.stored))
            return await self._end_stopped(before)
        except LeftRunning as stop:  # it must not be continued
            await self._attempt(self._runs.cancel(self.stored))
            await self._attempt(self._runs.load(self.stored))
            self.stopped = True
            self._screen.problem("left while a tool was at work")
            raise Left(interrupted=True) from stop
        except Left:
            raise
        except Exception as error:  # noqa: BLE001 - the chat shows the error and continues
            if begins and outcome is None and isinstance(error, SessionBusy | NothingToResume | DecisionsPending):
                self.log.drop()
            if is_next and isinstance(error, SessionBusy | NothingToResume):
                return "left" if is_left else "done"  # another interface was faster
            if isinstance(error, SessionBusy) and prompt is not None and self._prompt is not None:
                return await self._leave_message(prompt, NEXT)
            if outcome is not None and not isinstance(error, AgentError):  # no question could be made of the calls
                await self._attempt(self._runs.cancel(self.stored))
            return self._end_failed(error, before)
        finally:
            self._interrupts.over()
            self._screen.turn_over()
            if is_changed:  # just before a run; to take that one back would take back what another person did
                self.log.clear()
                self._show_anew()
        if outcome.status == "aborted":
            return await self._end_stopped(before)
        if outcome.error is not None:
            return self._end_failed(outcome.error, before)
        if words := words_of_end(outcome.finish_reason or ""):
            self.failed = True
            why, _, hint = words.partition(". ")
            self._screen.problem(f"the answer is not whole: {why}", hint)
            return "failed"
        return "done"

    async def _run(self, step: Callable[..., Coroutine[Any, Any, Outcome]]) -> Outcome:
        token = CancellationToken()

        def cancel() -> None:
            self._screen.stopping(self._interrupts.count)
            token.cancel()

        work = step(token=token, usage_limits=self._limits, on_events=self._progress.stream)
        outcome = await self._interrupts.run(work, cancel)
        self.stored.messages = outcome.messages
        return outcome

    async def _decide(self, requests: DeferredToolRequests, waiting: list[Question]) -> DeferredToolResults:
        if self._interrupts.stops:
            raise Stopped  # too late to cancel the run, in time for what it asks
        if self._prompt is None:
            return self._approver.decide(requests, waiting)
        return await self._answer(self._approver.deciding(requests, waiting))

    async def _answer(self, steps: Generator[Question, Answer, T]) -> T:
        """Ask each question at the prompt."""
        if self._prompt is None:
            raise RuntimeError("a chat without a prompt asks no question")
        try:
            question = next(steps)
            while True:
                answer = await self._screen.ask_at(self._prompt, question)
                if answer == "closed":
                    raise Left
                question = steps.send(answer)
        except StopIteration as end:
            return end.value

    def attach(self, text: str, more: Sequence[Attachment] = ()) -> Message | None:
        """Return a message with the files that it mentions, and say which these are.

        Args:
            text: the message.
            more: goes with it too.

        Returns:
            What to send; None if the model would not see a picture of it, which is said.
        """
        found = self.mentions.find(text)
        attachments = [*more, *found.attachments]
        pictures = [one_line(each.name) for each in attachments if each.text is None]
        if pictures and not takes_pictures(self._setup.agent.model):
            self._screen.problem(
                f"not sent: {self.stored.model} takes no pictures: {', '.join(pictures)}",
                "Take another model with /model, then send it again (arrow up).",
            )
            return None
        for each in attachments:
            self._screen.note(f"  attached {one_line(each.name)} ({each.about})")
        for name, why in found.problems:
            self._screen.note(f"  not attached: {one_line(name)}: {why}")
        return as_prompt(text, attachments)

    def steer(self, message: str) -> None:
        """Add a message to the next request of the run under way; it is the next message if the run ends before."""
        self._posts.add(task := asyncio.ensure_future(self._post(message)))
        task.add_done_callback(self._posts.discard)

    async def _post(self, message: str) -> None:
        attached = self.attach(message)
        if attached is None:
            return
        sent = text_of(attached)
        self._own.append(sent)
        try:
            await self._runs.steer(self.stored, attached)
        except AgentError as error:
            self._own.remove(sent)
            if not isinstance(error, SessionNotFound):  # the first run has not begun
                self._screen.problem(self._explain(error), "The message is sent next.")
            if self._prompt is not None:
                self._prompt.add(message)
        else:
            self._screen.note(f"  steering: {one_line(message, 200)}")

    def _tell_message(self, message: str) -> None:
        self._said.append(message)
        self._screen.answered()
        if message in self._own:
            self._own.remove(message)
            self._screen.show_message(message)
        else:
            self._screen.note(f"another process wrote: {one_line(message, 200)}")

    def _workspace(self, session_id: str) -> WorkspaceBackend | None:
        """Return the workspace of this chat, and of those that begin with `/new`. A question needs it before a run."""
        if self._backend is None:
            deps = create_default_deps(kernel=self._kernel)
            deps.session_id = session_id
            self._backend = self._progress.backend(deps)
        return self._backend

    # -- other interfaces ----------------------------------------------------------------------------------------------

    async def _run_next(self, *, on_events: Any, **how: Any) -> Outcome:
        """Run the message that waits, and show it once this interface has it."""
        has_told = False

        async def hear(ctx: RunContext[Any], events: Any) -> None:
            nonlocal has_told
            if not has_told:
                has_told = True
                self._tell_message(text_of(ctx.prompt or ""))
            await on_events(ctx, events)

        outcome = await self._runs.next(self.stored, on_events=hear, **how)
        if not has_told:  # it failed at once
            said = [text for kind, text in map(as_seen, shown_parts(outcome.messages)) if kind == "user-prompt"]
            self._tell_message(said[-1] if said else "")
        return outcome

    async def _leave_message(self, prompt: Message, place: str) -> End:
        """Leave a message behind those that wait, for whoever sends them; say so."""
        try:
            await self._runs.leave_message(self.stored, prompt)
        except AgentError as error:
            self._screen.problem(self._explain(error), SEND_AGAIN)
            return "lost"
        self._own.append(text_of(prompt))
        self._has_left = True
        self._screen.note(f"  {place}")
        return "left"

    async def meanwhile(self, wait: Coroutine[Any, Any, T]) -> T | None:
        """Wait for the user, and show what other interfaces add. None: the messages that wait are to be sent."""
        waiting, going = asyncio.ensure_future(wait), asyncio.ensure_future(self._goes_on.wait())
        try:
            while True:
                await asyncio.wait([waiting, going], timeout=WATCH, return_when=asyncio.FIRST_COMPLETED)
                is_left = False
                with suppress(AgentError):  # the next turn says it
                    is_left = await self._catch_up()
                if waiting.done():
                    return waiting.result()
                if is_left:
                    return None
                if self._goes_on.is_set():  # there is nothing to send
                    self._goes_on.clear()
                    going = asyncio.ensure_future(self._goes_on.wait())
        finally:
            self._goes_on.clear()
            waiting.cancel()
            going.cancel()

    def go_on(self) -> None:
        """Send what waits since a turn ended early."""
        self._goes_on.set()

    async def _catch_up(self) -> bool:
        """Show what another interface did. Returns whether it is for this one to send what waits."""
        chat = self.stored
        if (before := await self._read_again()) is not None:
            if _seen(chat)[: len(before)] == before:
                self._screen.added(chat.messages, len(before))
            else:
                self._show_anew()
        waiting = await self._runs.waiting(chat)
        self._has_left = self._has_left and bool(waiting)
        sends = await self._runs.sends(chat) if waiting else ""
        held = waiting if sends == "person" else []
        if held and held != self._held:
            self._screen.note("  these wait since the last turn ended early: Enter sends them")
            for message in held:
                self._screen.note(f"  next: {one_line(message, 70)}")
        self._held = held
        return sends not in ("", "runner") and (self._goes_on.is_set() or (self._has_left and sends == "anyone"))

    async def _look(self) -> bool:
        """Show the conversation anew if another interface changed it since the last look. Returns whether it did."""
        if await self._read_again() is None:
            return False
        self._screen.answered()
        self._show_anew()
        return True

    async def _read_again(self) -> list[tuple[str, str]] | None:
        """Read the conversation again; return what is shown of it, if another interface changed it."""
        entry, before = await self._runs.entry(self.stored), _seen(self.stored)
        if entry == self._entry:
            return None
        await self._runs.load(self.stored)
        self._entry, now = entry, _seen(self.stored)
        if now == before:
            return None
        self.log.clear()  # to take back a turn would take back another person's
        self._own = [message for message in self._own if ("user-prompt", message) not in now]
        return before

    def _show_anew(self) -> None:
        self._screen.note("  another interface changed the conversation, which is now:")
        self._screen.replay(self.stored.messages)

    # -- other ends of a turn -----------------------------------------------------------------------------------------

    async def _end_stopped(self, before: int) -> End:
        self.stopped = True
        self._interrupts.over()
        hint = "A tool does not stop, and may still do its work. " if await self._loop.thread_at_work() else ""
        self._screen.problem("stopped", hint + (GO_ON if len(self.stored.messages) > before else SEND_AGAIN))
        return "stopped"

    def _end_failed(self, error: BaseException, before: int) -> End:
        self._interrupts.over()
        self.failed = True
        is_kept = len(self.stored.messages) > before
        if self._trace:
            show_traceback(error)
        hint = GO_ON if is_kept else SEND_AGAIN
        if isinstance(error, SessionBusy):
            hint = BUSY
        elif isinstance(error, NothingToResume):
            self._screen.problem("there is nothing to try again: the last message has its answer", "Say what to do.")
            return "failed"
        elif isinstance(error, DecisionsPending):
            hint = f"Answer there, or leave and ask again here: deep chat --resume {self.id}"
        self._screen.problem(self._explain(error), hint)
        return "failed" if is_kept else "lost"

    def _explain(self, error: BaseException) -> str:
        if isinstance(error, AgentError):
            return one_line(error.message, None)
        return explain_error(error, self._setup.model).message

    async def _attempt(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in the store; show why it failed."""
        try:
            await work
        except AgentError as error:
            self._screen.problem(self._explain(error))

    def _not_stored(self, why: str) -> None:
        self.log.clear()  # its entries have other numbers in memory
        self._screen.problem(f"this chat is not stored: {one_line(why, None)}", "The chat continues.")

    # -- the conversation ----------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The digits that `--resume` takes."""
        return short_id(self.stored.id)

    @property
    def is_resumable(self) -> bool:
        """Whether it is stored with a message, so that it can be resumed."""
        return self._runs.is_stored and len(self.stored.messages) > 0

    @property
    def has_denials(self) -> bool:
        """Whether an approval was denied or unanswered."""
        return any(not decision.approved for decision in self._approver.decisions)

    def how_to_go_on(self) -> str:
        """The command to type."""
        how = ["deep", "chat", "--resume", self.id, *(["--agent", self.stored.agent] if self.stored.agent else [])]
        return f"Continue with: {shlex.join(how)}"

    async def finish_last_turn(self) -> None:
        """Ask again about calls that wait, and continue a turn that was interrupted. Raises Left as `turn` does."""
        if self.stored.unfinished == "stopped":
            await self._attempt(self._runs.cancel(self.stored))
        elif self.stored.unfinished == "failed":
            self._screen.note("the last turn failed: /retry tries it again")
        elif self.stored.unfinished:
            if self.stored.unfinished == "interrupted":
                self._screen.note(f"the last turn was interrupted, and continues: {one_line(self.stored.prompt, 60)}")
            await self.turn(None)

    # -- modes ---------------------------------------------------------------------------------------------------------

    @property
    def mode(self) -> str:
        """`ask`, `accept-edits` or `plan`."""
        return "plan" if self.stored.plan else "accept-edits" if self._approver.accepts_edits else "ask"

    def switch_mode(self, mode: str = "") -> None:
        """Take a mode; without its name, the next one."""
        mode = mode or MODES[(MODES.index(self.mode) + 1) % len(MODES)]
        self._approver.accepts_edits, self.stored.plan = mode == "accept-edits", mode == "plan"

    def keep_mode(self) -> None:
        """Begin later chats of this folder in this mode: `ask` or `accept-edits`.

        Raises:
            Failure: it is `plan`, or nothing can be kept for this folder.
        """
        rules = self._screen.rules
        if rules is None or not rules.can_keep or self.stored.plan:
            why = (
                "plan mode is not: deep chat --plan begins in it" if self.stored.plan else "nothing is, in this folder"
            )
            raise Failure(f"no mode is kept: {why}")
        rules.keep_edits(self._approver.accepts_edits)

    # -- back and elsewhere --------------------------------------------------------------------------------------------

    async def take_back(self, turns: int) -> TakenBack | None:
        """Take back the last turns: what tools changed in files, and the conversation. None if there are fewer.

        Raises:
            AgentError: another process runs the chat, or the store fails.
        """
        backend = self._workspace(self.stored.id)
        if backend is None or not 1 <= turns <= len(self.log):
            return None
        if await self._look():
            return None
        done = await self.log.take_back(turns, backend)
        if done.entry:
            await self._runs.rewind(self.stored, done.entry)
            await self._runs.load(self.stored)
        else:
            await self._runs.drop(self.stored)
            self.stored.messages = []
        return done

    async def compact(self, keep: str) -> Compacted:
        """Make the conversation shorter, which Esc and Ctrl-C stop.

        Args:
            keep: what to keep above all, in words.

        Raises:
            AgentError: it was not made shorter; the message says why.
            Left: a second Ctrl-C came before it stopped.
        """
        if not self.is_resumable:
            raise NotCompacted("there is nothing to compact yet")
        token = CancellationToken()
        self._screen.compacting()
        try:
            return await self.stoppable(self._runs.compact(self.stored, keep, token), token.cancel)
        except LeftRunning as stop:
            raise Left(interrupted=True) from stop
        finally:
            self._screen.turn_over()

    async def diff(self) -> list[str]:
        """Return the lines of a diff of the files that tools changed in this chat."""
        backend = self._workspace(self.stored.id)
        return [] if backend is None else await self.log.diff(backend)

    async def fork(self) -> None:
        """Continue in a copy of this conversation; this one stays as it is. Raises AgentError if the store fails."""
        copy = new_id(self.stored.folder)
        await self._runs.fork(self.stored, copy)
        self.stored = replace(self.stored, id=copy, is_new=True)
        self.log.clear()

    async def others(self, words: str) -> list[tuple[str, str]]:
        """Return the digits and titles of this folder's chats whose title has the words, the newest first."""
        found = await self._runs.titles(f"{project(self.stored.folder)}.")
        wanted = words.lower().split()
        return [(short_id(id), title) for id, title in found if all(word in title.lower() for word in wanted)]

    async def search(self, words: str) -> list[tuple[str, str, str]]:
        """Return messages of this folder's chats with these words: digits, who wrote it, an excerpt.

        Raises:
            AgentError: the store fails.
        """
        return await self._runs.search(words)

    async def go_to(self, digits: str) -> None:
        """Leave this conversation, and continue another one of this folder.

        Raises:
            Failure: there is no such chat, or it cannot be read.
        """
        found = await find_chat(self._runs.store, digits, self.stored.folder)
        check_agent(found, self.stored.agent)
        found.agent = self.stored.agent
        await self.leave()
        model = found.model
        self.stored = found
        self.log.clear()
        self._approver.forget()
        if model is not None and model != self._setup.model:
            self.use_model(model)
        else:
            self._use(self._setup)
        other = {path: digest for path, digest in found.plugin_files.items() if path not in self._plugin_files}
        self.tell_missing(dict.fromkeys(other, "this process began without it"))

    def tell_missing(self, reasons: Mapping[str, str]) -> None:
        """Name files of `-p` that this chat used and does not have now.

        Args:
            reasons: by path.
        """
        for path, reason in reasons.items():
            how = shlex.join(["deep", "chat", "--resume", self.id, "-p", path])
            self._screen.problem(
                f"this chat used -p {one_line(path, None)}, and has it no longer: {one_line(reason, None)}",
                f"The chat continues without its tools. To have them: {how}",
            )

    def last_answer(self) -> str:
        """Return the text of the agent's last answer; "" before there is one."""
        texts = (getattr(message, "text", None) for message in reversed(self.stored.messages))
        return next((text for text in texts if text), "")

    def tools(self) -> Sequence[Any]:
        """Return the tools that the model is offered, as `deep explain` shows them."""
        with self._progress.mute():
            return self._setup.tools()

    async def render(self, name: str, words: str) -> str | None:
        """Return the message of a plugin's command; None if no plugin has it. Raises ValueError as the command does."""
        command = self.plugin_commands().get(name)
        if command is None:
            return None
        message = command.render(words)
        return message if isinstance(message, str) else await message

    @property
    def background(self) -> BackgroundCommands:
        """The commands of this conversation that stay."""
        return BackgroundCommands(self._kernel, self.stored.id, self._workspace(self.stored.id))

    def plugin_commands(self) -> Mapping[str, ChatCommand]:
        """Return the commands that plugins add, by name."""
        return chat_commands(self._kernel)

    async def usage(self) -> RunUsage:
        """What all turns used.

        Raises:
            AgentError: the store cannot be read.
        """
        return await self._runs.usage(self.stored)

    def use_model(self, model: str) -> None:
        """Switch to another model.

        Raises:
            Exception: it is unknown, or its key or package is missing; the chat keeps its model.
        """
        self._use(self._make(model))
        self._runs.use(self._setup.modes)

    async def ask_about_plan(self) -> str | None:
        """Ask whether to carry out the plan of a turn in plan mode, if there is one; leave the mode if so.

        Returns:
            The next message; None if the user gives none now.

        Raises:
            Left: the input ended at the question.
        """
        if self._prompt is None or (slots := await self._runs.plan(self.stored)) is None:
            return None
        try:
            message = await self._answer(self._approver.deciding_plan("", slots))
        except Stopped:
            return None
        self.stored.plan = message != CARRY_OUT
        return message

    async def begin_anew(self) -> None:
        """Leave this conversation stored, and begin another in the same workspace."""
        await self.leave()
        old = self.stored
        self.stored = StoredChat(new_id(old.folder), old.folder, plan=old.plan, is_new=True, agent=old.agent)
        self._use(self._setup)
        self._approver.forget()
        self.log.clear()

    async def leave(self) -> None:
        """Leave this conversation: its commands end, and it is deleted if it began here and nothing was said."""
        chat = self.stored
        if self._was_run:
            await self.background.end()
        if chat.is_new and self._was_run and self._runs.is_stored and not chat.messages:
            await self._attempt(self._runs.drop_empty(chat))
        self._was_run = False

    async def close(self) -> None:
        """Close the store."""
        await self._attempt(self._runs.close())


def _seen(chat: StoredChat) -> list[tuple[str, str]]:
    return [as_seen(part) for part in shown_parts(chat.messages)]
