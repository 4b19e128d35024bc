"""One attempt to run a session: acquire the lease, load, decide what to do next, run, and write how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, cast
from weakref import WeakValueDictionary

from pydantic_ai import Agent, CancellationToken, DeferredToolRequests
from pydantic_ai.exceptions import RunCancelled, RunTimedOut
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    repair_messages,
)
from pydantic_ai.tools import DeferredToolResults, ToolApproved, ToolDenied
from pydantic_ai.usage import RunUsage
from pydantic_core import from_json

from deep_core import DeepAgentDeps, PluginKernel

from .capability import key_of
from .entries import Decision, dump_plain, encode, labels_of_mail, read_prompt, write_prompt
from .errors import (
    AgentError,
    DecisionsPending,
    LeaseLost,
    NothingToResume,
    NotPending,
    SessionBusy,
    UsageError,
    as_agent_error,
)
from .fold import Fold, Run, fold
from .journal import Journal, Tap, session_of, slots_of, usage_of
from .ledger_rows import UNKNOWN
from .slot import JOURNAL
from .store import Lease, Mail, SessionStatus, SessionStore

if TYPE_CHECKING:
    from pydantic_ai import AgentRunResult
    from pydantic_ai.agent import EventStreamHandler
    from pydantic_ai.usage import UsageLimits
    from pydantic_ai.workspaces import WorkspaceBackend

__all__ = ["Outcome", "Runner", "decisions_of", "is_decided", "pending_calls", "results_of"]

Prompt = str | Sequence[UserContent]
Choose = Callable[[Run], tuple[Agent[Any, Any], Mapping[str, Any]]]
Workspaces = Callable[[str], AbstractAsyncContextManager["WorkspaceBackend"]]
MAIL_EVERY = 1.0
"""Seconds between two looks at the mail of a run, which another process may have posted."""
NOT_RUN = "Not executed: the run was stopped before this call."


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended.

    Attributes:
        run_id: the run.
        status: `awaiting`: calls wait for a person.
        result: Pydantic AI's result; None if the run failed or was aborted, or had ended before.
        messages: the conversation as stored.
        requests: the calls that wait.
        usage: of the run, over all attempts, subagents included.
        error: what ended it.
    """

    run_id: str
    status: Literal["completed", "awaiting", "failed", "aborted"]
    result: AgentRunResult[Any] | None
    messages: Sequence[ModelMessage]
    requests: DeferredToolRequests | None
    usage: RunUsage
    error: BaseException | None = None

    @property
    def text(self) -> str | None:
        """The final text of a run that completed; None without one."""
        last = self.messages[-1] if self.status == "completed" and self.messages else None
        return last.text if isinstance(last, ModelResponse) else None


@dataclass
class _Plan:
    """What the next attempt gives to the agent."""

    run: Run
    prompt: Prompt | None
    history: list[ModelMessage]
    results: DeferredToolResults | None = None
    ended: Literal["completed", "aborted"] | None = None
    """How the run ended, where only its end is not stored yet."""
    mail: int | None = None
    """The mail that brought the prompt."""


@dataclass
class _Held:
    """A lease while it is held, and why it was lost."""

    lease: Lease
    loop: asyncio.AbstractEventLoop
    lost: AgentError | None = None
    journal: Journal | None = None
    live: _Live | None = None
    has_mail: asyncio.Event = field(default_factory=asyncio.Event)
    began: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once it has a journal, or has ended."""
    over: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class _Live:
    """A session that this process has run, as it was left."""

    state: Fold
    deps: DeepAgentDeps[Any]


class Runner:
    """Runs the sessions of one agent.

    Args:
        agent: made with `capabilities=session_capabilities()`.
        store: where its sessions are.
        kernel: who made the agent.
        backend: makes or is the workspace of each session; None leaves it to the agent.
        workspaces: opens the workspace of a session for a run, such as `SessionManager.use`; used instead of `backend`.
        app: the application's own object, as `ctx.deps.app`; a function gets the session's id.
        choose: returns, for a run, the agent that runs it and further arguments of `Agent.run`; None for `agent`.
        ttl: seconds until a lease ends unless it is renewed. It is renewed three times as often.
        keep: how many sessions stay loaded between their runs.
        keep_partial: whether a conversation keeps what a run did before it was stopped: the text of an unfinished
            response too, and a result for each call. The next message follows it.
    """

    def __init__(
        self,
        agent: Agent[Any, Any],
        store: SessionStore,
        *,
        kernel: PluginKernel,
        backend: WorkspaceBackend | Callable[[str], WorkspaceBackend | None] | None = None,
        workspaces: Workspaces | None = None,
        app: Any = None,
        choose: Choose | None = None,
        ttl: float = 30.0,
        keep: int = 128,
        keep_partial: bool = False,
    ) -> None:
        self.agent = agent
        self.store = store
        self._kernel = kernel
        self._backend = backend
        self._workspaces = workspaces
        self._app = app
        self._choose = choose
        self._ttl = ttl
        self._keep = keep
        self.keep_partial = keep_partial
        self.tap: Tap | None = None
        """Receives the events of all runs."""
        self._holds: dict[str, _Held] = {}
        self._live: OrderedDict[str, _Live] = OrderedDict()
        self._backends: dict[str, WorkspaceBackend] = {}
        """The workspaces of sessions that are not loaded any more: a workspace in memory must outlast that."""
        self._edits: dict[str, int] = {}
        """How many `edit` blocks a session is in: it stays loaded."""
        self._locks: WeakValueDictionary[tuple[str, asyncio.AbstractEventLoop], asyncio.Lock] = WeakValueDictionary()
        """Held while a session is loaded, or changes hands between a run and an edit of this event loop."""

    # -- what callers do -----------------------------------------------------------------------------------------------

    async def run(
        self,
        session_id: str,
        prompt: Prompt,
        *,
        run_id: str,
        create: bool = True,
        digest: str = "",
        allowed_tools: Sequence[str] | None = None,
        system_prompt: str | None = None,
        labels: Mapping[str, str] | None = None,
        **how: Any,
    ) -> Outcome:
        """Run the agent with a message.

        If the last run of the session was interrupted, its open calls are answered first, as the ledger knows them.

        Args:
            session_id: the session.
            prompt: the message.
            run_id: the id of this run.
            create: whether to create a session that does not exist.
            digest: of the agent's configuration.
            allowed_tools: names, kept with the run; the caller applies them.
            system_prompt: kept with the run; the caller applies it.
            labels: kept with the run, for the caller.
            how: further arguments of `attempt`.

        Raises:
            SessionBusy: another runner has the session.
            SessionNotFound: it does not exist, and `create` is False.
            DecisionsPending: calls wait for a person.
            UsageError: the session has a run of this id already.
        """

        def plan(state: Fold) -> _Plan:
            _check_decided(state)
            history = closed(state)
            new = Run(run_id, digest, 1, prompt if isinstance(prompt, str) else [*prompt])
            new.allowed_tools = None if allowed_tools is None else [*allowed_tools]
            new.system_prompt = system_prompt
            new.labels = {**(labels or {})}
            if (state.run is not None and state.run.id == run_id) or any(new.wrote(message) for message in history):
                raise UsageError(f"session {session_id} has a run {run_id!r} already: choose another run_id")
            return _Plan(new, prompt, history)

        return await self._attempt(session_id, plan, create=create, **how)

    async def run_next(
        self, session_id: str, *, run_id: str, digest: str = "", labels: Mapping[str, str] | None = None, **how: Any
    ) -> Outcome:
        """Run the agent with the first message that waits in the session. Arguments as for `run`.

        Raises:
            SessionBusy: another runner has the session.
            SessionNotFound: it does not exist.
            DecisionsPending: calls wait for a person.
            NothingToResume: no message waits.
        """

        def plan(state: Fold) -> _Plan:
            mail = _first_message(state.mail)
            if mail is None:
                raise NothingToResume(f"session {session_id} has no message that waits")
            _check_decided(state)
            prompt = read_prompt(mail.data)
            new = Run(run_id, digest, 1, prompt, labels={**(labels or {}), **labels_of_mail(mail.data)})
            return _Plan(new, prompt, closed(state), mail=mail.id)

        return await self._attempt(session_id, plan, create=False, **how)

    async def post(
        self,
        session_id: str,
        kind: Literal["prompt", "steer"],
        message: Prompt,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Leave a message for a session: `steer` for the next request of its run, `prompt` for its next run.

        Args:
            session_id: the session.
            kind: what to do with it.
            message: the message.
            labels: for the run that it begins, besides those of `run_next`.

        Raises:
            SessionNotFound: it does not exist.
        """
        await self.store.post(session_id, kind, write_prompt(message, labels))
        self._poke(session_id)

    async def next_message(self, session_id: str) -> Prompt | None:
        """Return the message that `run_next` would run; None if none waits.

        Raises:
            SessionNotFound: the session does not exist.
        """
        mail = _first_message(await self.store.mail(session_id))
        return None if mail is None else read_prompt(mail.data)

    async def cancel(self, session_id: str) -> None:
        """Stop the run of a session, in this process or another. Does nothing if it has none.

        Calls that wait, and a run whose process died, are ended too.

        Raises:
            SessionNotFound: it does not exist.
        """
        info = await self.store.info(session_id)
        if info.holder is not None:
            await self.store.post(session_id, "cancel", b"{}")
            self._poke(session_id)
        elif info.status in ("running", "awaiting"):

            def plan(state: Fold) -> _Plan | None:
                run = state.run
                if run is None or run.status not in ("running", "paused"):
                    return None
                run.attempt += 1
                return _Plan(run, None, [], ended="aborted")

            await self._attempt(session_id, plan, create=False)

    def _poke(self, session_id: str) -> None:
        held = self._holds.get(session_id)
        if held is not None and held.loop is asyncio.get_running_loop():  # a run of another loop looks every second
            held.has_mail.set()

    async def resume(self, session_id: str, **how: Any) -> Outcome:
        """Continue a run that was interrupted, or that waits and is decided. Returns at once if it still waits.

        Raises:
            SessionBusy: another runner has the session.
            SessionNotFound: it does not exist.
            NothingToResume: its last run has ended.
        """
        return await self._attempt(session_id, self._plan_resume, create=False, **how)

    async def decide(self, session_id: str, results: DeferredToolResults) -> None:
        """Record decisions on waiting calls, for the next `resume`, in any process.

        Raises:
            NotPending: a call does not wait, or was decided before. Nothing is recorded.
        """
        state = fold(await self.store.load(session_id))
        decided = {**(state.run.decisions if state.run else {}), **_mailed(state.mail)}
        requests = (state.run.requests if state.run else None) or DeferredToolRequests()
        decisions = decisions_of(results)
        for what, given, asked in (
            ("an approval", results.approvals.keys(), requests.approvals),
            ("a result", results.calls.keys(), requests.calls),
        ):
            waiting = {call.tool_call_id for call in asked} - decided.keys()
            if unknown := given - waiting:
                raise NotPending(
                    f"session {session_id}: call {min(unknown)!r} does not wait for {what}. "
                    + (f"These do: {', '.join(sorted(waiting))}" if waiting else "None does.")
                )
        await self.store.post(session_id, "decision", dump_plain(decisions))

    @asynccontextmanager
    async def edit(self, session_id: str) -> AsyncGenerator[DeepAgentDeps[Any]]:
        """Yield what a session's tools get as `ctx.deps`, to change its state, such as its uploads. Store what changed.

        A run may be under way, or begin meanwhile: its tools see the change. Blocks may overlap.

        Raises:
            SessionBusy: another process runs the session.
            SessionNotFound: it does not exist.
        """
        async with AsyncExitStack() as stack:
            async with self._lock(session_id):
                held = self._held_here(session_id)
                live = held.live if held is not None and held.live is not None else await self._load(session_id)
                self._edits[session_id] = self._edits.get(session_id, 0) + 1
            stack.callback(self._edited, session_id)
            if self._workspaces is not None:
                live.deps.backend = await stack.enter_async_context(self._workspaces(session_id))
            before = slots_of(live.deps.state)
            yield live.deps
            after = slots_of(live.deps.state)
            names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
            if names:
                await self._write_slots(session_id, live, {name: after.get(name) for name in names})

    def _held_here(self, session_id: str) -> _Held | None:
        held = self._holds.get(session_id)
        if held is not None and held.loop is not asyncio.get_running_loop():
            raise SessionBusy(f"session {session_id} runs in another thread of this process: try it again")
        return held

    def _edited(self, session_id: str) -> None:
        self._edits[session_id] -= 1
        if not self._edits[session_id]:
            del self._edits[session_id]

    async def _write_slots(self, session_id: str, live: _Live, slots: Mapping[str, Any]) -> None:
        """Write changes through the journal of the run under way, or under a lease where none is."""
        while True:
            async with self._lock(session_id):
                held = self._held_here(session_id)
                if held is None:
                    lease = await self.store.acquire(session_id, ttl=self._ttl, create=False)
                    try:
                        is_same = (await self.store.info(session_id)).seq == live.state.seq
                        state = live.state if is_same else fold(await self.store.load(session_id))
                        await Journal(self.store, lease, state, "", self.tap).write_slots(slots)
                    finally:
                        await self.store.release(lease)
                    if not is_same:
                        self._unload(session_id)
                    return
            if held.live not in (None, live):
                raise SessionBusy(f"session {session_id} was run by another process meanwhile: try it again")
            if held.journal is not None:
                await held.journal.write_slots(slots)
                return
            await (held.over if held.began.is_set() else held.began).wait()

    def backend(self, session_id: str) -> WorkspaceBackend | None:
        """Return the workspace of a session that this process has run; None before its first use."""
        live = self._live.get(session_id)
        return self._backends.get(session_id) if live is None else live.deps.backend

    async def usage(self, session_id: str) -> RunUsage:
        """Return what all runs of a session used, subagents included.

        Raises:
            SessionNotFound: it does not exist.
        """
        last: dict[str, Mapping[str, Any]] = {}
        after = 0
        while page := await self.store.entries(session_id, after=after):
            after = page[-1].seq
            for entry in page:
                if entry.kind == "messages":
                    last[entry.run_id or ""] = from_json(entry.data).get("usage", {})
                elif entry.kind == "base" and (run := from_json(entry.data).get("run")):
                    last[run["id"]] = run.get("usage", {})
        total = RunUsage()
        for fields in last.values():
            total.incr(usage_of(fields))
        return total

    def phase(self, session_id: str) -> Literal["preparing", "model_running", "tool_running"]:
        """Return what the run of a session does now, in this process."""
        live = self._live.get(session_id)
        journal = None if live is None else live.deps.state[JOURNAL]
        return "preparing" if journal is None else journal.phase

    # -- one attempt ---------------------------------------------------------------------------------------------------

    async def _attempt(
        self,
        session_id: str,
        plan: Callable[[Fold], _Plan | None],
        *,
        create: bool,
        usage_limits: UsageLimits | None = None,
        token: CancellationToken | None = None,
        on_events: EventStreamHandler[Any] | None = None,
        **more: Any,
    ) -> Outcome:
        token = token or CancellationToken()
        async with self._held(session_id, create=create, token=token) as held:
            async with self._lock(session_id):
                live = held.live = await self._load(session_id)
            state = live.state
            self._take_decisions(state)
            todo = plan(state)
            if todo is None:
                return self._outcome(live, "awaiting", None)
            if todo.ended is not None:
                journal = await self._start(held.lease, live, todo)
                await self._end(journal, live, todo.ended, "idle" if todo.ended == "completed" else "aborted")
                return self._outcome(live, todo.ended, None)
            async with AsyncExitStack() as stack:
                if self._workspaces is not None:
                    try:
                        live.deps.backend = await stack.enter_async_context(self._workspaces(session_id))
                    except BaseException:
                        self._unload(session_id)  # the plan has changed it
                        raise
                if usage_limits is not None:
                    more["usage_limits"] = usage_limits
                return await self._execute(held, live, todo, token, event_stream_handler=on_events, **more)

    async def _execute(self, held: _Held, live: _Live, todo: _Plan, token: CancellationToken, **more: Any) -> Outcome:
        session_id, state = held.lease.session_id, live.state
        journal = held.journal = await self._start(held.lease, live, todo)
        held.began.set()
        for mail in state.mail:
            if mail.kind == "steer":
                journal.steer(mail)
        live.deps.state[JOURNAL] = journal
        agent, options = self.agent, cast("Mapping[str, Any]", {})
        if self._choose is not None:
            agent, options = self._choose(todo.run)
        try:
            result = await agent.run(
                todo.prompt,
                message_history=todo.history,
                deferred_tool_results=todo.results,
                run_id=todo.run.attempt_id,
                conversation_id=session_id,
                deps=live.deps,
                usage=usage_of(todo.run.usage),
                cancellation_token=token,
                **{**options, **more},
            )
        except RunCancelled as error:
            if isinstance(error, RunTimedOut):
                return await self._failed(journal, live, error)
            if held.lost is not None:
                self._unload(session_id)
                raise held.lost from error
            if self.keep_partial:
                await self._settle_partial(journal, live, error)
            await self._end(journal, live, "aborted", "aborted")
            return self._outcome(live, "aborted", None, error)
        except asyncio.CancelledError:
            # The task was cancelled: the session stays resumable, as after a crash.
            self._unload(session_id)
            raise
        except Exception as error:
            if journal.failure is not None:  # nothing more can be written; the session stays resumable
                self._unload(session_id)
                raise journal.failure from error
            return await self._failed(journal, live, error)
        finally:
            held.journal = live.deps.state[JOURNAL] = None
            await journal.flush()
        waits = isinstance(result.output, DeferredToolRequests)
        if state.run is not None:
            state.run.status = "paused" if waits else "completed"
            state.run.requests = result.output if waits else None
            state.run.decisions = {}
        return self._outcome(live, "awaiting" if waits else "completed", result)

    async def _start(self, lease: Lease, live: _Live, todo: _Plan) -> Journal:
        state, run = live.state, todo.run
        journal = Journal(self.store, lease, state, run.id, self.tap)
        data: dict[str, Any] = {"digest": run.digest, "attempt": run.attempt}
        if run.attempt == 1 and run.prompt is not None:
            data["prompt"] = run.prompt
        if run.allowed_tools is not None:
            data["allowed_tools"] = run.allowed_tools
        if run.system_prompt is not None:
            data["system_prompt"] = run.system_prompt
        if run.labels:
            data["labels"] = run.labels
        if state.run is not run:
            run.follow(state.run, time.time())
        entries = [encode("run_started", data, run.id)]
        if state.run is not None and state.run.digest != run.digest:
            changed = {"before": state.run.digest, "after": run.digest}
            entries.insert(0, encode("config_changed", changed, run.id))
        if run.decisions:
            entries.append(encode("decided", {"decisions": run.decisions}, run.id))
        # A request to stop was about the run before.
        read = [mail.id for mail in state.mail if mail.kind in ("decision", "cancel") or mail.id == todo.mail]
        await journal.write(*entries, read=read, status="running")
        state.mail = [mail for mail in state.mail if mail.id not in read]
        state.run, run.status = run, "running"
        return journal

    async def _settle_partial(self, journal: Journal, live: _Live, error: RunCancelled) -> None:
        """Store what a run did before it was stopped, if the model has answered in it."""
        run = live.state.run
        said = [message for message in error.all_messages() if message.parts or isinstance(message, ModelRequest)]
        if run is None or not any(isinstance(message, ModelResponse) and run.wrote(message) for message in said):
            return
        live.state.root.joined = False  # the error has copies of the messages
        await journal.settle("", repair_messages(said), live.deps.state, error.usage)

    async def _failed(self, journal: Journal, live: _Live, error: Exception) -> Outcome:
        known = as_agent_error(error)
        await self._end(journal, live, "failed", "failed", {"code": known.code, "message": known.message})
        if live.deps.session_id not in self._edits:
            self._unload(
                str(live.deps.session_id)
            )  # what no model can be sent is in it as an object, and stored as text
        return self._outcome(live, "failed", None, error)

    async def _end(
        self,
        journal: Journal,
        live: _Live,
        status: Literal["completed", "failed", "aborted"],
        shown: SessionStatus,
        error: dict[str, str] | None = None,
    ) -> None:
        data: dict[str, Any] = {"status": status, **({"error": error} if error else {})}
        await journal.write(encode("run_ended", data, journal.run_id), read=journal.stops, status=shown)
        run = live.state.run
        if run is not None:
            run.status, run.error, run.requests, run.decisions = status, error, None, {}

    def _outcome(
        self,
        live: _Live,
        status: Literal["completed", "awaiting", "failed", "aborted"],
        result: AgentRunResult[Any] | None,
        error: BaseException | None = None,
    ) -> Outcome:
        run = live.state.run or Run("")
        usage = usage_of(run.usage)
        return Outcome(run.id, status, result, live.state.messages(), run.requests, usage, error)

    # -- what to do next -----------------------------------------------------------------------------------------------

    @staticmethod
    def _plan_resume(state: Fold) -> _Plan | None:
        run = state.run
        if run is None or run.status in ("completed", "failed", "aborted"):
            why = "it has no run yet" if run is None else f"its last run {run.status}"
            raise NothingToResume(f"session {state.info.id} has nothing to resume: {why}")
        if run.status == "paused" and not _all_decided(run):
            return None
        run.attempt += 1
        history = state.messages()
        if run.requests is not None:
            return _Plan(run, None, history, results_of(run.requests, run.decisions))
        if not any(run.wrote(message) for message in history):
            return _Plan(run, run.prompt, closed(state))
        last = history[-1]
        ended = isinstance(last, ModelResponse) and not any(isinstance(part, ToolCallPart) for part in last.parts)
        return _Plan(run, None, history, ended="completed" if ended else None)

    @staticmethod
    def _take_decisions(state: Fold) -> None:
        if state.run is not None and state.run.requests is not None:
            state.run.decisions = {**_mailed(state.mail), **state.run.decisions}

    # -- the session ---------------------------------------------------------------------------------------------------

    async def _load(self, session_id: str) -> _Live:
        live = self._live.pop(session_id, None)
        if live is not None:
            info = await self.store.info(session_id)
            if info.seq != live.state.seq:
                live = None  # another process has run it since
            else:
                live.state.mail = [*await self.store.mail(session_id)]
        if live is None:
            state = fold(await self.store.load(session_id))
            slots = state.root.slots
            kept = self._backends.pop(session_id, None)
            backend = self._backend(session_id) if callable(self._backend) else self._backend
            app = self._app(session_id) if callable(self._app) else self._app
            session = session_of(slots)
            session.bind(self._kernel)
            live = _Live(state, DeepAgentDeps(backend=kept or backend, session_id=session_id, state=session, app=app))
        self._live[session_id] = live
        unused = [name for name in [*self._live] if name not in self._edits] if len(self._live) > self._keep else []
        for old in unused[: max(0, len(self._live) - self._keep)]:
            self._unload(old)
        return live

    def _unload(self, session_id: str) -> None:
        """Read the session from the store the next time. Its workspace stays: one in memory must outlast that."""
        gone = self._live.pop(session_id, None)
        if gone is not None and gone.deps.backend is not None and self._workspaces is None:
            self._backends[session_id] = gone.deps.backend

    @asynccontextmanager
    async def _lock(self, session_id: str) -> AsyncGenerator[None]:
        lock = self._locks.setdefault((session_id, asyncio.get_running_loop()), asyncio.Lock())
        async with lock:
            yield

    @asynccontextmanager
    async def _held(self, session_id: str, *, create: bool, token: CancellationToken) -> AsyncGenerator[_Held]:
        async with self._lock(session_id):
            lease = await self.store.acquire(session_id, ttl=self._ttl, create=create)
            held = _Held(lease, asyncio.get_running_loop())
            self._holds[session_id] = held
        renewal = asyncio.ensure_future(self._keep_lease(held, token))
        try:
            yield held
        finally:
            renewal.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await renewal
            try:
                with contextlib.suppress(AgentError):  # the lease ends by itself where the store is gone
                    await asyncio.shield(asyncio.ensure_future(self.store.release(held.lease)))
            finally:
                if self._holds.get(session_id) is held:
                    del self._holds[session_id]
                held.began.set()
                held.over.set()

    async def _keep_lease(self, held: _Held, token: CancellationToken) -> None:
        """Renew the lease and read the mail until cancelled. Stop the run if it must stop."""
        lease, now = held.lease, asyncio.get_running_loop().time
        ends, renew_at = now() + lease.ttl, now() + lease.ttl / 3
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(held.has_mail.wait(), max(0.0, min(MAIL_EVERY, renew_at - now())))
            held.has_mail.clear()
            try:
                if held.journal is not None:
                    await self._read_mail(lease.session_id, held.journal, token)
                if (began := now()) >= renew_at:
                    renew_at = began + lease.ttl / 3
                    await self.store.renew(lease)
                    ends = began + lease.ttl
            except AgentError as error:
                if isinstance(error, LeaseLost) or now() >= ends:
                    held.lost = error
                    token.cancel()
                    return

    async def _read_mail(self, session_id: str, journal: Journal, token: CancellationToken) -> None:
        for mail in await self.store.mail(session_id):
            if mail.kind == "steer":
                journal.steer(mail)
            elif mail.kind == "cancel" and mail.id not in journal.stops:
                journal.stops.append(mail.id)
                token.cancel()


# -- decisions ---------------------------------------------------------------------------------------------------------


def _check_decided(state: Fold) -> None:
    if state.run is not None and state.run.status == "paused":
        waiting = ", ".join(call.tool_name for call in pending_calls(state))
        raise DecisionsPending(
            f"session {state.info.id} waits for decisions on {waiting}: decide them, then resume the session"
        )


def pending_calls(state: Fold) -> list[ToolCallPart]:
    """Return the calls that wait for a decision or a result."""
    requests = state.run.requests if state.run is not None else None
    return [] if requests is None else [*requests.approvals, *requests.calls]


def is_decided(state: Fold) -> bool:
    """Whether the calls that wait are all decided, by what is in the mail too."""
    run = state.run
    return run is not None and run.status == "paused" and _all_decided(run, _mailed(state.mail))


def decisions_of(results: DeferredToolResults) -> dict[str, Decision]:
    """Return decisions as the journal has them."""
    out: dict[str, Decision] = {}
    for call_id, said in results.approvals.items():
        if isinstance(said, ToolDenied):
            out[call_id] = {"approve": False, "message": said.message}
        elif isinstance(said, ToolApproved) and said.override_args is not None:
            out[call_id] = {"approve": True, "args": said.override_args}
        else:
            out[call_id] = {"approve": said is not False}
    for call_id, result in results.calls.items():
        out[call_id] = {"result": result}
    for call_id, metadata in results.metadata.items():
        if call_id in out:
            out[call_id]["metadata"] = metadata
    return out


def results_of(requests: DeferredToolRequests, decisions: Mapping[str, Decision]) -> DeferredToolResults:
    """Return decisions as Pydantic AI takes them: for every call that waits."""
    results = DeferredToolResults()
    for call in requests.approvals:
        said = decisions[call.tool_call_id]
        if not said.get("approve"):
            message = said.get("message")
            results.approvals[call.tool_call_id] = ToolDenied() if message is None else ToolDenied(message)
        else:
            results.approvals[call.tool_call_id] = ToolApproved(override_args=said.get("args"))
    for call in requests.calls:
        results.calls[call.tool_call_id] = decisions[call.tool_call_id].get("result")
    for call_id, said in decisions.items():
        if "metadata" in said:
            results.metadata[call_id] = said["metadata"]
    return results


def _first_message(mails: Sequence[Mail]) -> Mail | None:
    return next((mail for mail in mails if mail.kind in ("prompt", "steer")), None)


def _mailed(mails: Sequence[Mail]) -> dict[str, Decision]:
    """Return the decisions in the mail. The first one on a call counts."""
    decisions: dict[str, Decision] = {}
    for mail in mails:
        if mail.kind == "decision":
            decisions = {**from_json(mail.data), **decisions}
    return decisions


def _all_decided(run: Run, more: Mapping[str, Decision] = MappingProxyType({})) -> bool:
    requests, decided = run.requests or DeferredToolRequests(), {**run.decisions, **more}
    return all(call.tool_call_id in decided for call in (*requests.approvals, *requests.calls))


# -- histories ---------------------------------------------------------------------------------------------------------


def open_calls(history: Sequence[ModelMessage]) -> set[str]:
    """Return the ids of the last response's calls without a result."""
    calls: set[str] = set()
    for message in history:
        if isinstance(message, ModelResponse):
            calls = {call.tool_call_id for call in message.tool_calls}
        else:
            # By kind, not by class: older versions of Pydantic AI answer a call with a class that is deprecated now.
            ended = [part for part in message.parts if part.part_kind in ("tool-return", "retry-prompt")]
            calls -= {str(getattr(part, "tool_call_id", "")) for part in ended}
    return calls


def closed(state: Fold) -> list[ModelMessage]:
    """Return the conversation with a result for every call, so that a message can follow.

    A run that was stopped or failed leaves calls open. The ledger knows which of them ran.
    """
    history = state.messages()
    waiting = open_calls(history)
    if not waiting:
        return history
    last = next(message for message in reversed(history) if isinstance(message, ModelResponse))
    parts: list[ToolReturnPart] = []
    for index, call in enumerate(last.tool_calls):
        if call.tool_call_id not in waiting:
            continue
        row = state.effects.get(key_of("", last, index))
        if row is None:
            parts.append(ToolReturnPart(call.tool_name, NOT_RUN, call.tool_call_id, outcome="interrupted"))
        elif row.result is not None:
            parts.append(replace(row.result, tool_call_id=call.tool_call_id))
        else:
            outcome = "failed" if row.state == "failed" else "retried" if row.state == "retry" else "interrupted"
            parts.append(ToolReturnPart(call.tool_name, row.message or UNKNOWN, call.tool_call_id, outcome=outcome))
    return [*history, ModelRequest(parts)]
