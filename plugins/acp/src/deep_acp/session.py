"""One conversation in the editor: its turns, from a prompt to the reason why it stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from acp.exceptions import RequestError
from acp.helpers import update_agent_message_text, update_available_commands, update_current_mode
from acp.schema import (
    AvailableCommand,
    AvailableCommandInput,
    ConfigOptionUpdate,
    PromptResponse,
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionInfoUpdate,
    SessionMode,
    SessionModeState,
    UnstructuredCommandInput,
)
from deep_sessions import (
    CARRY_OUT,
    AgentChoice,
    AgentError,
    Always,
    BackgroundCommands,
    DecisionsPending,
    Event,
    NotCompacted,
    NothingToResume,
    NotPending,
    Question,
    SessionBusy,
    SessionNotFound,
    Sessions,
    UsageError,
    advice_on_stored,
    answer_questions,
    has_plan,
    is_planned,
    load_session,
    questions_of,
    rules_of,
    title_of,
)

from deep_core.plugin_api import visible

from .changes import preview_change
from .errors import INTERNAL, INVALID
from .permissions import ACCEPT_EDITS, CARRY_ON, permission, plan_permission, rule_of, verdict
from .prompts import command_of, read_prompt
from .updates import Tokens, Translator, plan_of

if TYPE_CHECKING:
    from pydantic_ai.messages import UserContent
    from pydantic_ai.tools import ToolDenied

    from .client import Editor
    from .project import Project

__all__ = ["MODES", "EditorSession"]

T = TypeVar("T")
Mode = Literal["ask", "accept-edits", "plan"]
MODES: Mapping[Mode, tuple[str, str]] = {
    "ask": ("Ask", "Ask before each call that needs approval."),
    "accept-edits": ("Accept edits", "Change files without asking; ask before everything else that needs approval."),
    "plan": ("Plan", "Only read until you approve a plan."),
}
STOPPED: Mapping[str, Any] = {"limit_exceeded": "max_turn_requests"}
"""Errors of a run that the protocol has a reason for."""
RETRY = AvailableCommand(name="retry", description="Try the last turn again, from where it failed or was stopped")
COMPACT = AvailableCommand(
    name="compact",
    description="Summarize the conversation so far, and go on from the summary",
    input=AvailableCommandInput(UnstructuredCommandInput(hint="what to keep")),
)
COMMANDS = AvailableCommand(
    name="commands",
    description="Background commands: list them, stop one, or let it go on when the session ends",
    input=AvailableCommandInput(UnstructuredCommandInput(hint="stop NAME, or keep NAME")),
)
OWN = (RETRY, COMPACT, COMMANDS)


class Own(NamedTuple):
    """One of the session's own commands, as it was typed.

    Attributes:
        name: its name.
        words: what follows it.
    """

    name: str
    words: str


@dataclass
class _Turn:
    """A prompt that is being answered."""

    canceled: asyncio.Event = field(default_factory=asyncio.Event)
    runs: Sessions | None = None
    stopping: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the run is stopped."""


class EditorSession:
    """One conversation.

    Args:
        session_id: its id.
        project: the folder.
        editor: the editor.
        choice: the agent that runs it.
    """

    def __init__(self, session_id: str, project: Project, editor: Editor, choice: AgentChoice) -> None:
        self.id = session_id
        self.project = project
        self._editor = editor
        self._choice = choice
        self._accepts_edits = False
        self._rules = rules_of(project.folder)
        self._seen = 0
        self._turn: _Turn | None = None
        self._lock = asyncio.Lock()
        self._watcher: asyncio.Future[None] | None = None
        self._showing: asyncio.Future[None] | None = None
        """What the watcher sends now: it is sent whole, or not at all."""
        self._tags: Mapping[str, tuple[str, ...]] = {}
        self._window: int | None = None
        self._titled = False
        self._view = Translator(project.folder, lambda tool: self._tags.get(tool, ()), lambda: self._window)
        project.plugin.listeners[session_id] = self._view.note

    # -- what the editor chooses ---------------------------------------------------------------------------------------

    @property
    def mode(self) -> Mode:
        """The mode of the next run; of approvals, at once."""
        return "plan" if self._choice.plan else "accept-edits" if self._accepts_edits else "ask"

    async def set_mode(self, mode: str) -> None:
        """Choose a mode.

        Raises:
            acp.RequestError: there is no such mode.
        """
        if mode not in MODES:
            raise RequestError(INVALID, f"there is no mode {visible(mode)!r}: choose one of {', '.join(MODES)}")
        self._accepts_edits = mode == "accept-edits"
        self._choice = AgentChoice(self._choice.model, plan=mode == "plan")

    async def set_option(self, name: str, value: str | bool) -> None:
        """Choose the value of an option.

        Raises:
            acp.RequestError: there is no such option or value, or the model's key or package is missing.
        """
        if name == "mode":
            await self.set_mode(str(value))
            await self._tell(update_current_mode(self.mode))
        elif name != "model":
            raise RequestError(INVALID, f"there is no option {visible(name)!r}: choose model or mode")
        elif value not in self._models:
            models = ", ".join(self._models)
            raise RequestError(
                INVALID, f"there is no model {visible(str(value))!r} in [plugins.acp.options] models: {models}"
            )
        else:
            choice = AgentChoice(str(value), self._choice.plan)
            await self.project.sessions(choice)
            self._choice = choice

    @property
    def modes(self) -> SessionModeState:
        """The modes, for editors that do not know options."""
        modes = [SessionMode(id=id, name=name, description=about) for id, (name, about) in MODES.items()]
        return SessionModeState(current_mode_id=self.mode, available_modes=modes)

    @property
    def options(self) -> list[Any]:
        """The options: the mode and the model."""
        modes = [
            SessionConfigSelectOption(value=id, name=name, description=about) for id, (name, about) in MODES.items()
        ]
        models = [SessionConfigSelectOption(value=model, name=model) for model in self._models]
        return [
            SessionConfigOptionSelect(
                id="mode", name="Mode", category="mode", type="select", current_value=self.mode, options=modes
            ),
            SessionConfigOptionSelect(
                id="model",
                name="Model",
                category="model",
                type="select",
                current_value=self._choice.model,
                options=models,
            ),
        ]

    @property
    def _models(self) -> list[str]:
        return list(dict.fromkeys([*self.project.models, self._choice.model]))

    async def tell_commands(self) -> None:
        """Send the session's own commands, and those that plugins add."""
        commands = [
            *OWN,
            *(
                AvailableCommand(
                    name=command.name,
                    description=visible(command.about),
                    input=AvailableCommandInput(UnstructuredCommandInput(hint=visible(command.usage)))
                    if command.usage
                    else None,
                )
                for command in self.project.commands().values()
                if command.name not in {own.name for own in OWN}
            ),
        ]
        await self._tell(update_available_commands(commands))

    # -- what is stored ------------------------------------------------------------------------------------------------

    async def open(self, *, replay: bool) -> None:
        """Take up a stored conversation, with the model and the mode of its last run.

        Args:
            replay: whether to send it.

        Raises:
            SessionNotFound: it does not exist.
        """
        state = await load_session(self.project.store, self.id)
        labels = {} if state.run is None else state.run.labels
        choice = AgentChoice(labels.get("model") or self._choice.model, is_planned(labels))
        try:
            runs = await self.project.sessions(choice)
        except RequestError:  # its model is not to be had here: the editor's goes on
            choice = AgentChoice(self._choice.model, choice.plan)
            runs = await self.project.sessions(choice)
        self._choice = choice
        await self._learn(runs)
        async with aclosing(runs.stream(self.id, follow=False)) as events:
            async for event in events:
                self._seen = event.n
                for update in self._view.translate(event):
                    if replay:
                        await self._tell(update)
        self._view.tokens = Tokens()
        self._watch()
        if replay:
            if plan := plan_of(state.root.slots):
                await self._tell(plan)
            await self._tell_title()

    # -- a turn --------------------------------------------------------------------------------------------------------

    async def prompt(self, blocks: Sequence[Any]) -> PromptResponse:
        """Answer a prompt. A prompt that comes during a turn waits for its end.

        Raises:
            acp.RequestError: the prompt cannot be read, or the run failed.
            SessionBusy: another process runs the session.
        """
        async with self._lock:
            await self.unwatch()
            turn = self._turn = _Turn()
            self._view.tokens = Tokens()
            try:
                reason = await self._answer(blocks, turn)
            finally:
                self._turn = None
                self._watch()
            if not self._titled:
                await self._tell_title()
            return PromptResponse(stop_reason=reason, usage=self._view.tokens.usage())

    async def cancel(self) -> None:
        """Stop the turn, if there is one."""
        if self._turn is not None:
            self._turn.canceled.set()
            await self._stop(self._turn)

    async def _stop(self, turn: _Turn) -> None:
        if turn.runs is not None:
            async with turn.stopping:
                with suppress(SessionNotFound):  # it has not begun
                    await turn.runs.cancel(self.id)

    async def _answer(self, blocks: Sequence[Any], turn: _Turn) -> Any:
        runs = await self.project.sessions(self._choice)
        await self._learn(runs)
        message = await self._read(blocks, runs)
        if isinstance(message, Own) and message.name == COMPACT.name:
            return await self._compact(message.words, turn)
        if isinstance(message, Own) and message.name == COMMANDS.name:
            return await self._obey_commands(message.words)
        reason = "end_turn" if isinstance(message, Own) else await self._finish_waiting(turn)
        while reason == "end_turn":
            reason = await (self._retry(turn) if isinstance(message, Own) else self._run(message, turn))
            if reason != "end_turn" or not self._choice.plan or not await self._approve_plan(turn):
                break
            message = CARRY_OUT
        return "cancelled" if turn.canceled.is_set() else reason

    async def _read(self, blocks: Sequence[Any], runs: Sessions) -> str | list[UserContent] | Own:
        """Return what the prompt says to the agent, or the session's own command."""
        model = self.project.model_of(runs)
        takes_pictures = model is None or model.profile.get("supports_image_input", True)
        message = read_prompt(blocks, self.project.folder, pictures=takes_pictures)
        named = command_of(message)
        if named is not None and named[0] in {own.name for own in OWN}:
            return Own(*named)
        command = None if named is None else self.project.commands().get(named[0])
        if named is None or command is None:
            return message
        try:
            rendered = command.render(named[1])
            return rendered if isinstance(rendered, str) else await rendered
        except ValueError as error:
            raise RequestError(INVALID, f"/{named[0]}: {visible(str(error))}") from error

    async def _finish_waiting(self, turn: _Turn) -> Any:
        """Ask about calls that wait since an earlier time: the message follows them."""
        try:
            state = await load_session(self.project.store, self.id)
        except SessionNotFound:
            return "end_turn"
        if state.run is None or state.run.status != "paused":
            return "end_turn"
        runs = turn.runs = await self.project.sessions(AgentChoice(self._choice.model, is_planned(state.run.labels)))
        return await self._follow(runs, turn, state.run.id, asks=True)

    async def _compact(self, keep: str, turn: _Turn) -> Any:
        """Summarize the conversation; cancel stops it."""
        runs = await self.project.sessions(self._choice)
        try:
            done = await self._unless_canceled(turn, runs.compact(self.id, keep))
        except SessionNotFound as error:
            raise RequestError(INVALID, "there is nothing to compact yet") from error
        except (NotCompacted, DecisionsPending, UsageError) as error:
            raise RequestError(INVALID, error.message) from error
        if done is None:
            return "cancelled"
        await self._tell(update_agent_message_text(f"{done}\n"))
        return "end_turn"

    @property
    def background(self) -> BackgroundCommands:
        """The session's commands that stay. An agent must exist."""
        return BackgroundCommands(self.project.kernel, self.id, self.project.backend_of(self.id))

    async def _obey_commands(self, words: str) -> Any:
        """List the background commands, or stop or keep one."""
        try:
            lines = await self.background.obey(words)
        except ValueError as error:
            raise RequestError(INVALID, f"/commands: {visible(str(error))}") from error
        await self._tell(update_agent_message_text("".join(f"{visible(line)}\n" for line in lines)))
        return "end_turn"

    async def _retry(self, turn: _Turn) -> Any:
        """Try the last run again. One whose calls wait goes on, once they are decided."""
        try:
            state = await load_session(self.project.store, self.id)
        except SessionNotFound as error:
            raise RequestError(INVALID, "there is nothing to try again: send a message first") from error
        if state.run is None:
            raise NothingToResume("there is nothing to try again: send a message first")
        if state.run.status == "paused":
            return await self._finish_waiting(turn)
        runs = turn.runs = await self.project.sessions(AgentChoice(self._choice.model, is_planned(state.run.labels)))
        await self._learn(runs)
        await runs.retry(self.id)
        if turn.canceled.is_set():
            await self._stop(turn)
        return await self._follow(runs, turn, state.run.id, attempt=state.run.attempt + 1)

    async def _run(self, message: str | list[UserContent], turn: _Turn) -> Any:
        runs = turn.runs = await self.project.sessions(self._choice)
        await self._learn(runs)
        run_id = runs.agent.deps.id_generator()
        self._view.own.add(run_id)
        labels = self.project.agents.labels(self._choice)
        if waits := await self._has_waiting(runs):  # that goes first, as in a terminal
            await runs.queue(self.id, message, message_id=run_id, labels=labels)
        else:
            await runs.send(self.id, message, run_id=run_id, labels=labels)
        if turn.canceled.is_set():  # it came before there was a run to stop
            await self._stop(turn)
        return await self._follow(runs, turn, "" if waits else run_id, message_id=run_id)

    async def _has_waiting(self, runs: Sessions) -> bool:
        with suppress(SessionNotFound):
            return bool(await runs.queued(self.id))
        return False

    async def _follow(
        self, runs: Sessions, turn: _Turn, run_id: str, *, message_id: str = "", asks: bool = False, attempt: int = 0
    ) -> Any:
        """Send what happens until a run ends, and ask about calls that wait; return why it stopped.

        Args:
            runs: what runs it.
            turn: the prompt that it answers.
            run_id: the run; "" until one begins with the message. One before it that fails ends the turn too.
            message_id: the message that was queued.
            asks: whether calls wait already.
            attempt: the first attempt that counts: another interface may have made some that were not sent yet.
        """
        begun = 0
        if asks:
            await self._decide(runs, turn)
        async with aclosing(runs.stream(self.id, after=self._seen)) as events:
            async for event in events:
                if event.kind == "run_started":
                    begun = int(_field(event, "attempt"))
                    if message_id and _field(event, "message_id") == message_id:
                        run_id = event.run_id
                await self._show(event)
                if begun < attempt:
                    continue
                if event.kind == "approvals_asked" and not event.path:
                    await self._decide(runs, turn)
                elif event.kind == "run_interrupted":
                    raise RequestError(INTERNAL, f"the run was interrupted: {_field(event, 'message')}")
                elif event.kind == "run_ended" and (
                    event.run_id == run_id or (not run_id and _field(event, "status") != "completed")
                ):
                    # Its end is told before its lease is released: the answer must mean that the session is free.
                    with suppress(AgentError):
                        await runs.wait(self.id)
                    async with turn.stopping:
                        return self._reason(event, turn)
        raise RequestError(INTERNAL, "the agent was closed during the turn")

    def _reason(self, event: Event, turn: _Turn) -> Any:
        status, code = _field(event, "status"), _field(event, "code")
        if status == "aborted" or turn.canceled.is_set():
            return "cancelled"
        if status == "completed":
            # Never `refusal`: at that, an editor drops the message, which the conversation keeps.
            return "max_tokens" if _field(event, "finish_reason") == "length" else "end_turn"
        if code in STOPPED:
            return STOPPED[code]
        advice = advice_on_stored(event.to_json(), self._choice.model)
        what = "; ".join(filter(None, (visible(_field(event, "message")), advice)))
        message = f"the run failed: {what} (/{RETRY.name} tries it again)"
        raise RequestError(INTERNAL, message, {"code": code})

    # -- between turns -------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Send what other interfaces do in the conversation as it happens, until the next prompt."""
        self._watcher = asyncio.ensure_future(self._follow_others())

    async def unwatch(self) -> None:
        """End that."""
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.wait([each for each in (self._watcher, self._showing) if each is not None])
            self._watcher = self._showing = None

    async def _follow_others(self) -> None:
        with suppress(AgentError, RequestError, OSError):  # the next prompt says what is wrong
            runs = await self.project.sessions(self._choice)
            async with aclosing(runs.stream(self.id, after=self._seen)) as events:
                async for event in events:
                    self._showing = asyncio.ensure_future(self._show(event))
                    await asyncio.shield(self._showing)

    async def _show(self, event: Event) -> None:
        self._seen = event.n
        for update in self._view.translate(event):
            await self._tell(update)

    # -- approvals -----------------------------------------------------------------------------------------------------

    async def _decide(self, runs: Sessions, turn: _Turn) -> None:
        """Decide the calls that wait. A question that is canceled stops the turn."""
        requests = await runs.waiting(self.id)
        if requests is None:  # another process was faster
            if (await self.project.store.info(self.id)).status == "awaiting":
                # It may have died between the answer and the run. A run that was stopped stays so.
                with suppress(SessionBusy, NothingToResume):
                    await runs.resume(self.id)
            return
        answers: dict[str, bool | str | ToolDenied] = {}
        for question in questions_of(requests):
            answer = await self._answer_to(question, turn)
            if answer is None:
                turn.canceled.set()
                await self._stop(turn)
                return
            answers[question.path] = answer
        try:
            await runs.decide(self.id, answer_questions(requests, answers), approval=requests.approval)
        except NotPending as error:  # another interface was faster: its answer is what happens
            await self._tell(update_agent_message_text(f"{error.message}\n"))
        if turn.canceled.is_set():
            await self._stop(turn)

    async def _answer_to(self, question: Question, turn: _Turn) -> bool | str | ToolDenied | None:
        if self._accepts_edits and question.is_edit:
            return True
        self._rules.refresh()  # a terminal or the page may keep one, or forget it
        if self._rules.covering(question) is not None:
            return True
        view = self._view.call_of(question)
        view.change = await preview_change(question.args, self.project.backend_of(self.id))
        call, options = permission(question, view, self.project.folder, self._tags.get(question.tool, ()))
        chosen = await self._unless_canceled(turn, self._editor.ask(self.id, call, options))
        if chosen is None:
            return None
        if (rule := rule_of(question, chosen, self.project.folder)) is not None:
            self._rules.add(Always(rule))
        return verdict(question, chosen, self.project.folder)

    async def _approve_plan(self, turn: _Turn) -> bool:
        """Ask whether to carry out the plan, if there is one; leave the mode if so."""
        state = await load_session(self.project.store, self.id)
        if not has_plan(state):
            return False
        call, options = plan_permission(f"plan-{self._seen}", state.root.slots)
        chosen = await self._unless_canceled(turn, self._editor.ask(self.id, call, options))
        if chosen not in (CARRY_ON, ACCEPT_EDITS):
            return False
        await self.set_mode("accept-edits" if chosen == ACCEPT_EDITS else "ask")
        await self._tell(update_current_mode(self.mode))
        await self._tell(ConfigOptionUpdate(session_update="config_option_update", config_options=self.options))
        return True

    async def _unless_canceled(self, turn: _Turn, question: Coroutine[Any, Any, T]) -> T | None:
        """Wait for an answer, at most until the turn is canceled: an editor may leave a question open then."""
        asking = asyncio.ensure_future(question)
        canceled = asyncio.ensure_future(turn.canceled.wait())
        try:
            await asyncio.wait([asking, canceled], return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() and not turn.canceled.is_set() else None
        finally:
            asking.cancel()
            canceled.cancel()

    # -- the editor ----------------------------------------------------------------------------------------------------

    async def _tell(self, update: Any) -> None:
        await self._editor.update(self.id, update)

    async def _tell_title(self) -> None:
        with suppress(SessionNotFound):
            title = await title_of(self.project.store, self.id)
            if title:
                self._titled = True
                await self._tell(SessionInfoUpdate(session_update="session_info_update", title=visible(title)))

    async def _learn(self, runs: Sessions) -> None:
        tools = await asyncio.to_thread(runs.agent.get_tools)
        self._tags = {tool.name: tuple(tool.tags) for tool in tools}
        model = self.project.model_of(runs)
        self._window = getattr(model, "context_window", None)


def _field(event: Event, name: str) -> str:
    return str(event.to_json().get(name, ""))
