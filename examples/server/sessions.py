"""The sessions that are watched or at work: one conversation each, with any number of pages."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from datetime import UTC, datetime
from typing import Any

from deep_backends import SessionLimitError, SessionManager
from deep_uploads import Data, UploadedFile, upload_file
from pydantic_ai import Agent, Conversation, ConversationTypeAdapter, DeferredToolRequests, DeferredToolResults
from pydantic_ai.agent import AgentRunEvents
from pydantic_ai.exceptions import RunCancelled, UserError
from pydantic_ai.messages import AgentStreamEvent, FunctionToolResultEvent, ModelMessage, ModelResponse
from pydantic_ai.run import AgentRunResultEvent
from pydantic_ai.workspaces import WorkspaceBackend

from deep_core import AgentContext, DeepAgentDeps, Kernel, RunEvent, hookimpl

from .approvals import Approval, Verdict, answers, approval_of
from .incidents import record
from .store import Row, Store
from .transcript import Transcript

__all__ = ["Busy", "Children", "LiveSession", "Missing", "Sessions", "TooMany"]

QUEUED = 2_000
"""Maximum events that a page may lag behind. One that lags more is disconnected, reconnects, and gets a snapshot."""
TITLE_CHARS = 60


class Missing(LookupError):
    """The session does not exist or is another user's; the error does not say which."""


class Busy(RuntimeError):
    """The session is at work, or waits for an answer."""


class TooMany(RuntimeError):
    """This owner has the maximum number of sessions, or this address of new owners."""


class LiveSession:
    """One session in memory: its state, its conversation, the current run, and the pages that watch it."""

    def __init__(self, row: Row, sessions: Sessions) -> None:
        self.id = row.id
        self.title = row.title
        self._sessions = sessions
        self.deps: DeepAgentDeps[None] = sessions.kernel.load_deps(row.deps)
        self.conversation = ConversationTypeAdapter.validate_json(row.conversation)
        self.transcript = Transcript(json.loads(row.items), self._tell)
        self.approval: Approval | None = json.loads(row.approval)
        self.run: asyncio.Task[None] | None = None
        self._stop: asyncio.Event | None = None
        self._pages: set[asyncio.Queue[dict[str, Any] | None]] = set()
        if row.running:
            self.transcript.end()
            told = "The server was stopped while it worked on this. Files may have changed."
            again = " Whether the calls below ran is not known." if self.approval else " Send the message again."
            self.transcript.add({"kind": "error", "text": told + again})

    # -- watching ------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Everything that a page shows; later events are changes to it."""
        return {
            "type": "snapshot",
            "id": self.id,
            "title": self.title,
            "items": self.transcript.items,
            "approval": self.approval,
            "running": self.run is not None,
            "todos": self._todos(),
        }

    @contextlib.contextmanager
    def watched(self) -> Generator[asyncio.Queue[dict[str, Any] | None], None, None]:
        """A queue of events that begins with the snapshot; None in it means that this page lags too far."""
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        # A copy: it is sent later, and the changes until then follow it.
        queue.put_nowait(json.loads(json.dumps(self.snapshot())))
        self._pages.add(queue)
        try:
            yield queue
        finally:
            self._pages.discard(queue)

    def _tell(self, event: dict[str, Any]) -> None:
        for queue in list(self._pages):
            if queue.qsize() >= QUEUED:
                self._pages.discard(queue)
                queue.put_nowait(None)
            else:
                queue.put_nowait(event)

    def _todos(self) -> list[dict[str, str]]:
        return [{"content": todo.content, "status": todo.status} for todo in self.deps.state.get("todos", [])]

    def _tell_state(self) -> None:
        state = {"running": self.run is not None, "approval": self.approval, "title": self.title}
        self._tell({"type": "state", "todos": self._todos(), **state})

    def child_event(self, event: RunEvent) -> None:
        """An event of a subagent's run."""
        self.transcript.hear_child(event)

    # -- working -------------------------------------------------------------------------------------------------

    async def send(self, text: str) -> None:
        """Start to work on a message.

        Raises:
            Busy: a run is in progress, or a call waits for an answer.
        """
        if self.run is not None:
            raise Busy("The agent is still working: wait for it, or stop it.")
        if self.approval is not None:
            raise Busy("A call waits for your answer: approve or deny it first.")
        if not self.title:
            self.title = " ".join(text.split())[:TITLE_CHARS]
        self.transcript.add({"kind": "user", "text": text})
        self._start(text, None)

    async def decide(self, approval_id: str, verdicts: Mapping[str, Verdict]) -> None:
        """Answer the calls that wait, and continue.

        Raises:
            Busy: a run is in progress, or these calls do not wait.
            Stale: not every call was answered.
        """
        requests = self.conversation.deferred_tool_requests
        if self.run is not None or self.approval is None or requests is None or self.approval["id"] != approval_id:
            raise Busy("This was answered already.")
        results = answers(requests, self.approval, verdicts)
        for path, verdict in verdicts.items():
            if "/" in path and not verdict.get("approve"):
                self.transcript.deny(path, verdict.get("reason", ""))
        self._start(None, results)

    def stop(self) -> None:
        """Stop the current run, if any; its changes remain."""
        if self._stop is not None:
            self._stop.set()

    async def upload(self, name: str, data: Data) -> UploadedFile:
        """Put a file into the workspace; the agent sees it listed at its next request."""
        async with self._sessions.workspaces.use(self.id) as backend:
            self.deps.backend = backend
            upload = await upload_file(self.deps, name, data, agent=self._sessions.agent)
        if self.run is None:  # else the run stores it at its end
            await self._sessions.store.save(self.id, deps=self.deps.dump())
        self._tell({"type": "files"})
        return upload

    def _start(self, prompt: str | None, results: DeferredToolResults | None) -> None:
        self._stop = asyncio.Event()
        self.run = asyncio.create_task(self._work(prompt, results))
        self._sessions.runs.add(self.run)
        self.run.add_done_callback(self._sessions.runs.discard)

    async def _work(self, prompt: str | None, results: DeferredToolResults | None) -> None:
        store = self._sessions.store
        # The run keeps its session in memory: it continues after the last page is closed.
        with self._sessions.held(self.id):
            waiting, self.approval = self.approval, None
            self._tell_state()
            try:
                # Not the approval: if the server dies now, it must ask again.
                await store.save(self.id, running=True, title=self.title, items=self._items())
                await self._run(prompt, results)
            except SessionLimitError as error:
                self._fail(str(error), waiting)
            except Exception as error:  # noqa: BLE001 - recorded; the session goes on
                self._fail(record(f"session {self.id}: the run failed", error), waiting)
            finally:
                self.transcript.end()
                try:
                    await self._save()
                finally:
                    self.run = self._stop = None
                    self._tell_state()
                    self._tell({"type": "files"})

    def _fail(self, text: str, waiting: Approval | None) -> None:
        self.transcript.add({"kind": "error", "text": f"The run failed. {text}"})
        if self.conversation.deferred_tool_requests is not None:
            self.approval = waiting  # it did not even begin

    async def _run(self, prompt: str | None, results: DeferredToolResults | None) -> None:
        sessions = self._sessions
        async with sessions.workspaces.use(self.id) as backend:
            self.deps.backend = backend
            async with sessions.agent.run_stream_events(
                prompt, deps=self.deps, conversation=self.conversation, deferred_tool_results=results
            ) as events:
                stopper = asyncio.create_task(self._stopped(events.cancel))
                try:
                    async for event in events:
                        self._hear(event)
                except BaseException as error:
                    # Keep the work so far, so that nothing runs twice.
                    self._keep(events)
                    if not isinstance(error, RunCancelled):
                        raise
                    self.transcript.add({"kind": "note", "text": "Stopped."})
                finally:
                    stopper.cancel()
            requests = self.conversation.deferred_tool_requests
            if requests is not None:
                await self._ask(requests, backend)

    def _hear(self, event: AgentStreamEvent | AgentRunResultEvent[Any]) -> None:
        if isinstance(event, AgentRunResultEvent):
            self.conversation = event.result.conversation
            return
        self.transcript.hear(event)
        if isinstance(event, FunctionToolResultEvent):
            self._tell({"type": "todos", "todos": self._todos()})
            self._tell({"type": "files"})

    def _keep(self, events: AgentRunEvents[Any]) -> None:
        try:
            messages = events.all_messages()
        except UserError:
            return  # the run did not begin: the conversation is unchanged
        self.conversation = Conversation(
            messages=_settled(messages), usage=events.usage, conversation_id=self.conversation.conversation_id
        )

    async def _stopped(self, cancel: Callable[[], None]) -> None:
        assert self._stop is not None
        await self._stop.wait()
        cancel()

    async def _ask(self, requests: DeferredToolRequests, backend: WorkspaceBackend) -> None:
        self.approval = await approval_of(requests, backend)
        for question in self.approval["questions"]:
            self.transcript.wait(question["path"], question["tool"], question["args"])

    async def _save(self) -> None:
        stored = None
        while (deps := self.deps.dump()) != stored:  # again, if an upload came meanwhile
            await self._sessions.store.save(
                self.id,
                running=False,
                items=self._items(),
                deps=deps,
                conversation=ConversationTypeAdapter.dump_json(self.conversation).decode(),
                approval=json.dumps(self.approval),
            )
            stored = deps

    def _items(self) -> str:
        return json.dumps(self.transcript.items)


def _settled(messages: list[ModelMessage]) -> list[ModelMessage]:
    """Drop a last answer whose calls never ran: a provider would reject it."""
    last = messages[-1] if messages else None
    unmade = isinstance(last, ModelResponse) and last.tool_calls and last.state != "interrupted"
    return messages[:-1] if unmade else messages


class Sessions:
    """All sessions: those in the store, and those in memory because they are watched or at work."""

    def __init__(
        self, kernel: Kernel, agent: Agent[Any, Any], store: Store, workspaces: SessionManager, max_of_one: int
    ) -> None:
        self.kernel = kernel
        self.agent = agent
        self.store = store
        self.workspaces = workspaces
        self.runs: set[asyncio.Task[None]] = set()
        self._max_of_one = max_of_one
        self._live: dict[str, LiveSession] = {}
        self._holds: dict[str, int] = {}

    @property
    def in_memory(self) -> tuple[str, ...]:
        """The sessions that are watched or at work."""
        return tuple(self._live)

    async def create(self, owner: str, address: str) -> dict[str, str]:
        """Create a session of this owner, who comes from this address.

        Raises:
            TooMany: this owner has the maximum number of sessions, or this address of new owners.
        """
        deps: DeepAgentDeps[None] = DeepAgentDeps(session_id=uuid.uuid4().hex)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        conversation = ConversationTypeAdapter.dump_json(Conversation()).decode()
        row = Row(deps.session_id, owner, "", created, deps.dump(), conversation)
        if not await self.store.add(row, address=address, most=self._max_of_one):
            most = self._max_of_one
            raise TooMany(f"One user may have {most} sessions, and {most} new users a day may come from one address.")
        return {"id": deps.session_id, "title": "", "created": created}

    @contextlib.asynccontextmanager
    async def open(self, session_id: str, owner: str | None) -> AsyncGenerator[LiveSession, None]:
        """Open a session of this owner, the same object for all of its pages.

        Raises:
            Missing: it does not exist, or is another user's.
        """
        # Hold it first: if it is in memory it stays there, and if not, its row is up to date.
        with self.held(session_id):
            row = await self.store.get(session_id)
            if row is None or row.owner != owner:
                raise Missing(session_id)
            live = self._live.get(session_id)
            if live is None:
                live = self._live[session_id] = LiveSession(row, self)
            yield live

    @contextlib.contextmanager
    def held(self, session_id: str) -> Generator[None, None, None]:
        """Keep a session in memory during the block."""
        self._holds[session_id] = self._holds.get(session_id, 0) + 1
        try:
            yield
        finally:
            self._holds[session_id] -= 1
            if not self._holds[session_id]:
                del self._holds[session_id]
                self._live.pop(session_id, None)

    def child_event(self, event: RunEvent) -> None:
        """Pass an event of a subagent's run to its session."""
        live = self._live.get(event.session_id)
        if live is not None:
            live.child_event(event)

    async def close(self) -> None:
        """Stop all runs; each stores its state."""
        for run in self.runs:
            run.cancel()
        await asyncio.gather(*self.runs, return_exceptions=True)


class Children:
    """The plugin that passes on events of subagents; the kernel gets it as an object."""

    def __init__(self) -> None:
        self.sessions: Sessions | None = None

    @hookimpl
    def deep_run_event(self, event: RunEvent, context: AgentContext) -> None:
        """Receive every event of every run."""
        if event.depth > 0 and self.sessions is not None:
            self.sessions.child_event(event)
