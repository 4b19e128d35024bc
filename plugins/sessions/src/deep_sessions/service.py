"""`Sessions`: runs sessions for interfaces, which send messages, watch, decide, steer and cancel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic_ai.messages import (
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    UserContent,
)

from .compaction import Compacted
from .decisions import is_decided, pending_calls, waiting_calls
from .entries import labels_of_mail
from .errors import AgentClosed, AgentError, NothingToResume, SessionBusy
from .events import SHIFT, Event, events_of, number
from .feed import Feed
from .fold import fold
from .mailbox import MESSAGES
from .manage import short_title, take_back
from .plain import MESSAGE, prompt_text
from .reading import entries_of
from .run_request import RunRequest
from .searching import CallSearch, StoredCall, is_message
from .slot import TITLE, session_in
from .store import Entry

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.tools import DeferredToolResults

    from deep_core import DeepAgentDeps

    from .agent import DeepAgent
    from .decisions import WaitingCalls
    from .results import RunResult

__all__ = ["Sessions"]

POLL = (0.05, 1.0)
"""Seconds between two looks at a session that another process runs: at first, and at most."""
PAGE = 200
"""Entries that are read at once."""


class Sessions:
    """The sessions of an agent, for interfaces: a terminal, a page, a program.

    Runs go on in the background; watchers come and go. An agent has one `Sessions`. Use it as a context manager, or
    close it: runs that are under way then stop as at a crash, and can be resumed.

    Args:
        agent: the agent. Its store has the sessions. The caller closes it.
        keep_partial: whether a conversation keeps what a run did before `cancel`: the text of an unfinished response
            too, which watchers have seen.
    """

    def __init__(self, agent: DeepAgent, *, keep_partial: bool = False) -> None:
        self._agent = agent
        self._runner = agent.runner
        self._store = agent.store
        self._runner.tap = self
        self._runner.keep_partial = keep_partial
        self._feeds: dict[str, Feed] = {}
        self._tasks: dict[str, asyncio.Task[RunResult]] = {}
        self._started: dict[str, asyncio.Future[None]] = {}
        self._ending: dict[str, asyncio.Event] = {}
        """Sessions whose run has ended in the journal, while its task has not. The event: another run began."""
        self._posted: set[str] = set()
        """Sessions to which this process posted since it last looked at their mail."""
        self._labels: dict[str, Mapping[str, str]] = {}
        """The labels of a session's last run that this process began: those of the messages that wait behind it."""
        self._plugins: Mapping[str, str] = {}
        self._is_closed = False

    @property
    def agent(self) -> DeepAgent:
        """The agent."""
        return self._agent

    @property
    def active(self) -> Sequence[str]:
        """The sessions that this process runs or that are watched in it."""
        return [*{**self._tasks, **self._feeds}]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    # -- what a person does --------------------------------------------------------------------------------------------

    async def send(
        self,
        session_id: str,
        message: str | Sequence[UserContent],
        *,
        run_id: str | None = None,
        allowed_tools: Sequence[str] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> str:
        """Run the agent with a message, in the background. Return the run's id once the journal has the message.

        Args:
            session_id: the session; a new one is created.
            message: the message.
            run_id: the run's id; None makes one.
            allowed_tools: the names of the tools that the run may use; None for all.
            labels: kept with the run and with those of messages that wait behind it: `load_session(…).run.labels`.

        Raises:
            SessionBusy: the session has a run, in this process or another. `queue` and `steer` wait for it.
            DecisionsPending: calls of the session wait for decisions.
            ToolNotFound: `allowed_tools` names a tool that the agent does not have.
        """
        run_id = run_id or self._agent.deps.id_generator()
        request = RunRequest(
            verb="message",
            session_id=session_id,
            prompt=message,
            run_id=run_id,
            allowed_tools=allowed_tools,
            labels=labels,
        )
        await self._begin(session_id, request)
        self._labels[session_id] = labels or {}
        return run_id

    async def resume(self, session_id: str) -> None:
        """Continue a session in the background: its last run if it did not complete, then the messages that wait.

        A run that failed or was aborted is tried again too, from its last step, unless a message waits: it follows
        instead. `retry` tries that run again nevertheless.

        Raises:
            SessionBusy: the session has a run.
            SessionNotFound: it does not exist.
            NothingToResume: its last run completed or it has none, and no message waits.
        """
        if (await self._store.info(session_id)).sends == "person" and await self._has_message(session_id):
            await self._begin(session_id, self._next(session_id))
            return
        try:
            await self._begin(session_id, RunRequest(verb="resume", session_id=session_id))
        except NothingToResume:
            if not await self._has_message(session_id):
                raise
            await self._begin(session_id, self._next(session_id))

    async def retry(self, session_id: str) -> None:
        """Try the last run of a session again, in the background: a new attempt of the same run, from its last step.

        Raises:
            SessionBusy: the session has a run.
            SessionNotFound: it does not exist.
            DecisionsPending: calls of the session wait for decisions.
            NothingToResume: its last run completed, or it has none.
        """
        await self._begin(session_id, RunRequest(verb="retry", session_id=session_id))

    async def compact(self, session_id: str, keep: str = "") -> Compacted:
        """Make the conversation of a session shorter now; watchers get `HistoryReplaced`.

        Args:
            session_id: the session.
            keep: what to keep above all, in words, for whoever writes the summary.

        Raises:
            NotCompacted: it was not made shorter; the message says why.
            SessionBusy: the session has a run.
            SessionNotFound: it does not exist.
            DecisionsPending: calls of the session wait for decisions.
            UsageError: its last run was interrupted, and may go on.
        """
        try:
            return await self._agent.compact(session_id, keep=keep)
        finally:
            if session_id in self._posted and session_id not in self._tasks:
                await self._continue(session_id)  # it came while this held the session

    async def queue(
        self,
        session_id: str,
        message: str | Sequence[UserContent],
        *,
        message_id: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Send a message as soon as the runs before it have ended: at once if the session is idle.

        Args:
            session_id: the session.
            message: the message.
            message_id: kept with it, for `has_message`.
            labels: of the messages that wait, instead of those of the last run.

        Raises:
            SessionNotFound: the session does not exist.
        """
        if labels is not None:
            self._labels[session_id] = labels
        await self._post(session_id, "prompt", message, message_id)

    async def steer(
        self, session_id: str, message: str | Sequence[UserContent], *, message_id: str | None = None
    ) -> None:
        """Add a message to the next request of the run under way, in this process or another.

        If the run ends before, the message begins the next run. Arguments and errors as for `queue`.
        """
        await self._post(session_id, "steer", message, message_id)

    async def has_message(self, session_id: str, message_id: str) -> bool:
        """Whether the session has a message already: a run of this id, or a message that was queued or steered with it.

        It reads the whole journal. A client that got no answer sends its message again, and must not send it twice.

        Raises:
            SessionNotFound: the session does not exist.
        """
        mail = await self._store.mail(session_id)
        if any(labels_of_mail(each.data).get(MESSAGE) == message_id for each in mail if each.kind in MESSAGES):
            return True
        async for entry in entries_of(self._store, session_id):
            if is_message(entry, message_id):
                return True
        return False

    async def queued(self, session_id: str) -> Sequence[str]:
        """Return the texts of the messages that wait, in order.

        Raises:
            SessionNotFound: the session does not exist.
        """
        return [prompt_text(each) for each in await self._runner.messages(session_id)]

    async def rename(self, session_id: str, title: str) -> None:
        """Give a session a title, also while this process runs it. See `deep_sessions.rename`.

        Raises:
            SessionBusy: another process runs the session.
            SessionNotFound: the session does not exist.
        """
        async with self._runner.edit(session_id) as deps:
            deps.state[TITLE] = short_title(title)

    async def decide(self, session_id: str, results: DeferredToolResults, *, approval: str | None = None) -> None:
        """Record decisions on calls that wait. Once all are decided, continue the run in the background.

        Args:
            session_id: the session.
            results: the decisions.
            approval: the question that they answer: `requests.approval`. Name it if an answer may come late, as over
                HTTP: a model may use the id of a call again. None answers whatever the calls ask now.

        Raises:
            NotPending: a call does not wait, was decided before, or asks something else now. Nothing is recorded.
            SessionNotFound: the session does not exist.
        """
        await self._agent.decide(session_id, results, approval=approval)
        self._posted.add(session_id)
        await self._continue(session_id)

    async def cancel(self, session_id: str) -> None:
        """Stop the run of a session, in this process or another, and wait for it if it is in this one.

        Calls that wait, and a run whose process died, are ended too. Messages that wait stay.

        Raises:
            SessionNotFound: the session does not exist.
        """
        task = self._tasks.get(session_id)
        await self._runner.cancel(session_id)
        if task is not None:
            await asyncio.wait([task])

    async def has_more(self, session_id: str, number: int) -> bool:
        """Whether something was written after an event, which a person who has seen the event does not know.

        Raises:
            SessionNotFound: the session does not exist.
        """
        return (await self._store.info(session_id)).seq > number >> SHIFT

    async def take_back(self, session_id: str, number: int) -> None:
        """Take back a message that began a run, with all that followed it. Files stay as they are.

        Args:
            session_id: the session.
            number: the `n` of the message's event `RunStarted`.

        Raises:
            LookupError: no run began with this event.
            SessionBusy: the session is running.
            SessionNotFound: it does not exist.
        """
        await self._end(session_id)
        await take_back(self._store, session_id, number)
        if (feed := self._feeds.get(session_id)) is not None:
            feed.committed(await self._store.entries(session_id, after=feed.seq, limit=PAGE))

    @asynccontextmanager
    async def edit(self, session_id: str) -> AsyncGenerator[DeepAgentDeps[Any]]:
        """Yield what a session's tools get as `ctx.deps`, to change its state: upload a file, for example.

        What changed is stored at the end of the block. A run may be under way: its tools see the change.

        Raises:
            SessionBusy: another process runs the session.
            SessionNotFound: the session does not exist.
        """
        async with self._runner.edit(session_id) as deps:
            yield deps
        if session_id in self._posted and session_id not in self._tasks:
            await self._continue(session_id)  # it came while this held the session

    async def wait(self, session_id: str) -> RunResult | None:
        """Wait until this process runs the session no more; return how its last run ended. None if it runs none."""
        task = self._tasks.get(session_id)
        return None if task is None else await asyncio.shield(task)

    # -- what an interface shows ---------------------------------------------------------------------------------------

    async def stream(self, session_id: str, *, after: int = 0, follow: bool = True) -> AsyncGenerator[Event]:
        """Yield the events of a session: from the journal, then as they happen, in this process or another.

        Deltas are kept for a while only. A watcher that is late gets the message instead, which is their text.

        Args:
            session_id: the session.
            after: yield events with larger numbers: the `n` of the last event that was seen.
            follow: wait for further events; False ends with those that exist.

        Raises:
            SessionNotFound: the session does not exist.
        """
        info = await self._store.info(session_id)
        await self._learn_tools()
        is_new = session_id not in self._feeds
        feed = self._feed(session_id, info.seq)
        feed.watchers += 1
        pause = POLL[0]
        try:
            if is_new:
                feed.provisional(fold(await self._store.load(session_id)))
            elif session_id not in self._tasks:  # another process may have gone on
                while entries := await self._store.entries(session_id, after=feed.seq, limit=PAGE):
                    feed.committed(entries)
            while True:
                if after + 1 < (floor := feed.floor):
                    async for event in self._stored(session_id, after, floor, feed):
                        yield event
                    after = floor - 1
                batch = feed.after(after)
                for event in batch:
                    yield event
                    after = event.n
                if batch:
                    pause = POLL[0]
                elif feed.is_closed or not follow:
                    return
                elif session_id in self._tasks:
                    await feed.changed(None)
                else:
                    await feed.changed(pause)
                    pause = min(pause * 2, POLL[1])
                    feed.committed(await self._store.entries(session_id, after=feed.seq, limit=PAGE))
        finally:
            feed.watchers -= 1
            self._forget(session_id)

    async def _stored(self, session_id: str, after: int, floor: int, feed: Feed) -> AsyncGenerator[Event]:
        """Yield the events between two numbers that the journal has."""
        seq, page = max(0, (after >> SHIFT) - 1), [Entry("", b"")]
        while page:
            page = [*await self._store.entries(session_id, after=seq, limit=PAGE)]
            for entry in page:
                seq = entry.seq
                if number(seq) >= floor:
                    return
                for event in feed.named(events_of(entry)):
                    if after < event.n < floor:
                        yield event

    async def history(self, session_id: str) -> Sequence[ModelMessage]:
        """Return the conversation.

        Raises:
            SessionNotFound: the session does not exist.
        """
        return fold(await self._store.load(session_id)).messages()

    async def slots(self, session_id: str) -> Mapping[str, Any]:
        """Return the session's state by the names of its slots, such as `todos`, as JSON values.

        Raises:
            SessionNotFound: the session does not exist.
        """
        return fold(await self._store.load(session_id)).root.slots

    async def call(self, session_id: str, call_id: str, path: str = "") -> StoredCall:
        """Return a call with its whole arguments and result.

        Events have the first 2,000 characters of both. An id that a session has twice names the last call.

        Args:
            session_id: the session.
            call_id: the call's id.
            path: as the event `ToolStarted` has it.

        Raises:
            SessionNotFound: the session does not exist.
            LookupError: it has no such call.
        """
        found = CallSearch(call_id, path)
        async for entry in entries_of(self._store, session_id):
            found.read(entry)
        state = fold(await self._store.load(session_id))
        found.read_messages(state.messages(path)[-1:])
        return found.result()

    async def waiting(self, session_id: str) -> WaitingCalls | None:
        """Return the calls that wait for a person; None if none do, or if all are decided.

        Raises:
            SessionNotFound: the session does not exist.
        """
        state = fold(await self._store.load(session_id))
        if state.run is None or state.run.status != "paused" or not pending_calls(state) or is_decided(state):
            return None
        return waiting_calls(state.run)

    async def close(self) -> None:
        """Stop the runs of this process, as a crash would: they can be resumed. End all watchers."""
        self._is_closed = True
        tasks = [*self._tasks.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for feed in self._feeds.values():
            feed.close()
        self._runner.tap = None

    # -- runs ----------------------------------------------------------------------------------------------------------

    async def _begin(self, session_id: str, request: RunRequest) -> None:
        """Start a run, and wait until the journal has its start."""
        await self._learn_tools()
        await self._end(session_id)
        if self._is_closed:
            raise AgentClosed("the sessions were closed: make another Sessions")
        if session_id in self._tasks:
            raise SessionBusy(f"session {session_id} has a run in this process: queue the message, or steer the run")
        started = self._started[session_id] = asyncio.get_running_loop().create_future()
        task = self._tasks[session_id] = asyncio.ensure_future(self._work(session_id, request))
        task.add_done_callback(lambda task: None if task.cancelled() else task.exception())  # wait() raises it
        try:
            await asyncio.wait([task, started], return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._started[session_id]
        if not started.done():
            task.result()  # raises what prevented the run

    async def _work(self, session_id: str, request: RunRequest) -> RunResult:
        """Run, then take the messages that wait."""
        try:
            result = await self._perform(request)
            while result.status in ("completed", "awaiting_human"):
                self._posted.discard(session_id)
                if result.status == "completed" and await self._has_message(session_id):
                    request = self._next(session_id)
                elif result.status == "awaiting_human" and await self._is_decided(session_id):
                    request = RunRequest(verb="resume", session_id=session_id)
                elif session_id in self._posted:
                    continue
                else:
                    break
                try:
                    result = await self._perform(request)
                except (SessionBusy, NothingToResume):  # another process was faster
                    break
            return result
        except AgentError as error:
            started = self._started.get(session_id)
            if started is None or started.done():  # else it never began, and the caller gets the error
                info = {"code": error.code, "message": error.message}
                self._feeds[session_id].live("run_interrupted", **info)
            raise
        finally:
            # Without an await since the last look at the mail: what comes now finds the session idle.
            del self._tasks[session_id]
            self._posted.discard(session_id)
            self._ending.pop(session_id, None)
            if session_id in self._feeds:
                self._feeds[session_id].wake()
                self._forget(session_id)

    async def _post(
        self,
        session_id: str,
        kind: Literal["prompt", "steer"],
        message: str | Sequence[UserContent],
        message_id: str | None,
    ) -> None:
        labels = {} if message_id is None else {MESSAGE: message_id}
        await self._runner.post(session_id, kind, message, labels)
        self._posted.add(session_id)
        await self._continue(session_id)

    async def _continue(self, session_id: str) -> None:
        """Do what waits in a session that nobody runs: an unfinished run, then messages."""
        info = await self._store.info(session_id)
        if session_id in self._tasks or info.holder is not None:
            return  # whoever runs it looks at the mail after each run
        with suppress(SessionBusy, NothingToResume):
            if info.status in ("awaiting", "running"):
                await self._begin(session_id, RunRequest(verb="resume", session_id=session_id))
            elif await self._has_message(session_id):
                await self._begin(session_id, self._next(session_id))

    def _next(self, session_id: str) -> RunRequest:
        return RunRequest(verb="next", session_id=session_id, labels=self._labels.get(session_id))

    async def _perform(self, request: RunRequest) -> RunResult:
        return await self._agent.perform(replace(request, on_events=self._hear))

    async def _end(self, session_id: str) -> None:
        """Wait for the task of a run that has ended in the journal. Watchers know its end before."""
        task, began = self._tasks.get(session_id), self._ending.get(session_id)
        if task is not None and began is not None:
            another = asyncio.ensure_future(began.wait())
            try:
                await asyncio.wait([task, another], return_when=asyncio.FIRST_COMPLETED)
            finally:
                another.cancel()

    async def _is_decided(self, session_id: str) -> bool:
        """Whether the calls that wait are all decided."""
        return is_decided(fold(await self._store.load(session_id)))

    async def _has_message(self, session_id: str) -> bool:
        return await self._runner.next_message(session_id) is not None

    # -- the tap of the runner ---------------------------------------------------------------------------------------

    def committed(self, session_id: str, entries: Sequence[Entry]) -> None:
        """Receive entries that were written."""
        self._feed(session_id, entries[0].seq - 1).committed(entries)
        for entry in entries:
            if entry.kind == "run_started" and session_id in self._ending:
                self._ending.pop(session_id).set()
            elif entry.kind in ("run_ended", "paused") and session_id in self._tasks:
                self._ending[session_id] = asyncio.Event()
        started = self._started.get(session_id)
        if started is not None and not started.done():
            started.set_result(None)

    def live(self, session_id: str, seq: int, kind: str, **fields: Any) -> None:
        """Receive what happens in a run."""
        self._feed(session_id, seq).live(kind, **fields)

    async def _hear(self, ctx: RunContext[Any], events: AsyncIterable[object]) -> None:
        run_id = (ctx.run_id or "").partition("~")[0]
        async for event in events:
            match event:
                case (
                    PartStartEvent(part=TextPart(content=str(text)))
                    | PartDeltaEvent(delta=TextPartDelta(content_delta=str(text)))
                ):
                    kind = "text_added"
                case (
                    PartStartEvent(part=ThinkingPart(content=str(text)))
                    | PartDeltaEvent(delta=ThinkingPartDelta(content_delta=str(text)))
                ):
                    kind = "thinking_added"
                case _:
                    continue
            session = session_in(ctx) if text else None
            if session is not None and session.depth == 0:
                self._feeds[session.session_id].live(kind, run_id=run_id, text=text)

    def _feed(self, session_id: str, seq: int) -> Feed:
        if session_id not in self._feeds:
            self._feeds[session_id] = Feed(seq, lambda tool: self._plugins.get(tool, ""))
        return self._feeds[session_id]

    def _forget(self, session_id: str) -> None:
        if session_id not in self._tasks and not self._feeds[session_id].watchers:
            del self._feeds[session_id]

    async def _learn_tools(self) -> None:
        if not self._plugins:
            tools = await asyncio.to_thread(self._agent.get_tools)
            self._plugins = {tool.name: tool.plugin for tool in tools}
