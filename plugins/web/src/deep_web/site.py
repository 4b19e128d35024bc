"""What an application serves: sessions, the agents that run them, and their files."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from deep_sessions import (
    AgentError,
    NotPending,
    SessionNotFound,
    Sessions,
    SessionStore,
    answer_questions,
    create,
    delete,
    fork,
    load_session,
    questions_of,
)

if TYPE_CHECKING:
    from deep_sessions import SessionInfo
    from pydantic_ai.workspaces import WorkspaceBackend
    from starlette.requests import Request

    from deep_core import PluginKernel

    from .standing import Standing

__all__ = ["Site", "TooMany"]


class TooMany(RuntimeError):
    """The user has the maximum of something. The message says so to the user; the answer is 429."""


class Site:
    """What an application serves: here one agent, for each session a workspace of its own.

    A deployment overrides what differs: who may create how many sessions, for example.

    Args:
        sessions: the agent's sessions. Its store sees all owners.
        kernel: the agent's plugins.
        workspaces: opens the workspace of a session, by its id.
        roots: folders with a folder for each session, which a deletion removes.
        folder: the folder that all sessions work in; "" if each has its own.
        backend: the name of the backend, for people.
        models: the ids of the models that a page may choose; the first is the default.
        examples: messages that an empty conversation offers.
        max_upload_bytes: most bytes of one upload.
        max_file_bytes: most bytes of a file that a page downloads.
    """

    def __init__(
        self,
        sessions: Sessions,
        kernel: PluginKernel,
        workspaces: Callable[[str], AbstractAsyncContextManager[WorkspaceBackend]],
        *,
        roots: Iterable[Path] = (),
        folder: str = "",
        backend: str = "",
        models: Sequence[str] = (),
        examples: Sequence[str] = (),
        max_upload_bytes: int = 50 * 1024**2,
        max_file_bytes: int = 50 * 1024**2,
    ) -> None:
        self.store: SessionStore = sessions.agent.store
        self.kernel = kernel
        self.workspace = workspaces
        self.folder = folder
        self.backend = backend
        self.models = models
        self.examples = examples
        self.max_upload_bytes = max_upload_bytes
        self.max_file_bytes = max_file_bytes
        self._default = sessions
        self._roots = [*roots]
        self._current: dict[str, Sessions] = {}
        """By session: the sessions that ran it last here. All watchers follow them."""
        self._changed: dict[str, asyncio.Event] = {}
        self._messages: dict[str, set[str]] = {}
        self._attending: dict[str, asyncio.Task[None]] = {}
        self._begun: set[str] = set()
        """Sessions of which a run may have begun since `_attend` looked."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    # -- agents --------------------------------------------------------------------------------------------------------

    async def sessions(self, model: str | None) -> Sessions:
        """Return the sessions as the agent with a model runs them; None for the default model.

        Raises:
            LookupError: there is no such model here.
        """
        if model is not None and model not in self.models:
            raise LookupError(f"there is no model {model!r} here")
        return self._default

    def model_of(self, sessions: Sessions) -> str | None:
        """Return the id of the model of an agent."""
        return self.models[0] if self.models else None

    def labels(self, model: str | None) -> Mapping[str, str]:
        """Return what each run keeps."""
        return {"model": model} if model else {}

    def current(self, session_id: str) -> Sessions:
        """Return the sessions through which this process runs a session."""
        return self._current.get(session_id, self._default)

    async def planner(self, model: str | None) -> Sessions:
        """Return the sessions as the agent of plan mode runs them.

        Raises:
            LookupError: there is no such model here, or no plan mode.
        """
        raise LookupError("there is no plan mode here")

    async def choose(self, session_id: str, model: str | None, *, plan: bool = False) -> Sessions:
        """Let an agent run a session from now on, and its watchers follow.

        Args:
            session_id: the session.
            model: its model; None for the default one.
            plan: whether it is the one of plan mode.

        Raises:
            LookupError: there is no such model here, or no plan mode.
        """
        chosen = await (self.planner(model) if plan else self.sessions(model))
        if chosen is not self.current(session_id):
            self._current[session_id] = chosen
            self.notify(session_id)
        return chosen

    def context_window(self, session_id: str) -> int | None:
        """Return the tokens that fit into the window of a session's model; None if unknown."""
        # Models of Pydantic AI have it since 2.64.
        return getattr(self.current(session_id).agent.runner.agent.model, "context_window", None)

    def lock(self, session_id: str) -> asyncio.Lock:
        """Return what lets one message or decision at a time into a session."""
        return self._locks.setdefault(session_id, asyncio.Lock())

    # -- what the user decided beforehand ------------------------------------------------------------------------------

    standing: Standing | None = None
    """The modes and rules of conversations; None: every question is asked."""

    def attend(self, session_id: str) -> None:
        """Answer what `standing` answers, whenever the runs of this process ask."""
        if self.standing is None:
            return
        self._begun.add(session_id)
        if session_id not in self._attending:
            self._attending[session_id] = asyncio.ensure_future(self._attend(session_id, self.standing))

    def attends(self, session_id: str) -> bool:
        """Whether what a run asks may still be answered by `standing`."""
        return session_id in self._attending

    async def _attend(self, session_id: str, standing: Standing) -> None:
        try:
            while session_id in self._begun:
                self._begun.discard(session_id)
                with suppress(Exception):  # the watchers of a run see how it failed
                    await self.current(session_id).wait(session_id)
                with suppress(AgentError):
                    await self._answer(session_id, standing)
        finally:
            # Without an await since the last look: what begins now attends anew.
            self._attending.pop(session_id, None)
            self.notify(session_id)

    async def _answer(self, session_id: str, standing: Standing) -> None:
        async with self.lock(session_id):
            runs = self.current(session_id)
            requests = await runs.waiting(session_id)
            if requests is None:
                return
            run = (await load_session(self.store, session_id)).run
            covered = standing.covered(session_id, requests, {} if run is None else run.labels)
            if {*covered} != {question.path for question in questions_of(requests)}:
                return
            decided = answer_questions(requests, dict.fromkeys(covered, True))
            with suppress(NotPending):  # a person was faster
                await runs.decide(session_id, decided, approval=requests.approval)
                self._begun.add(session_id)

    async def close(self) -> None:
        """Stop answering."""
        tasks = [*self._attending.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- watchers ------------------------------------------------------------------------------------------------------

    def changed(self, session_id: str) -> asyncio.Event:
        """Return what is set when something of a session changes that is no event: its agent, what waits, its title."""
        return self._changed.setdefault(session_id, asyncio.Event())

    def notify(self, session_id: str) -> None:
        """Let all watchers of a session look again."""
        event = self._changed.pop(session_id, None)
        if event is not None:
            event.set()

    # -- sessions ------------------------------------------------------------------------------------------------------

    def store_of(self, owner: str | None) -> SessionStore:
        """Return the store as an owner sees it; None is whoever has the token."""
        return self.store if owner is None else self.store.for_owner(owner)

    async def own(self, owner: str | None, session_id: str) -> SessionInfo:
        """Return a session of an owner that is shown here.

        Raises:
            SessionNotFound: it does not exist, or belongs to others; the error does not say which.
        """
        try:
            info = await self.store_of(owner).info(session_id)
        except ValueError as error:  # no id
            raise SessionNotFound("there is no such session") from error
        if not self.shows(info):
            raise SessionNotFound("there is no such session")
        return info

    def shows(self, info: SessionInfo) -> bool:
        """Whether the pages show a session of its owner."""
        return True

    def new_id(self) -> str:
        """Return an id for a new session."""
        return uuid.uuid4().hex

    async def create(self, owner: str | None, request: Request) -> str:
        """Create a session; return its id.

        Raises:
            TooMany: this owner may not have another one.
        """
        session_id = self.new_id()
        await create(self.store_of(owner), session_id, [])
        return session_id

    async def fork(self, session_id: str, owner: str | None, request: Request, *, at: int | None = None) -> str:
        """Create a session that continues from a state of another one; return its id.

        A workspace of its own begins empty: the files are not copied.

        Raises:
            TooMany: this owner may not have another one.
            AgentError: the session has no entry of this number.
        """
        return await fork(self.store, session_id, at=at, new_id=self.new_id())

    async def knows_message(self, session_id: str, message_id: str) -> bool:
        """Whether a message was taken before, by this process or one before it."""
        return message_id in self._messages.get(session_id, ()) or await self.current(session_id).has_message(
            session_id, message_id
        )

    def note_message(self, session_id: str, message_id: str) -> None:
        """Remember that a message was taken."""
        self._messages.setdefault(session_id, set()).add(message_id)

    async def delete(self, session_id: str) -> None:
        """Stop a session's run, and erase the session with its files."""
        await self.current(session_id).cancel(session_id)
        await self.release(session_id)
        await delete(self.store, session_id, kernel=self.kernel, roots=self._roots)
        self._current.pop(session_id, None)
        self._messages.pop(session_id, None)
        if self.standing is not None:
            self.standing.forget(session_id)
        self.notify(session_id)

    async def release(self, session_id: str) -> None:
        """Let go of a session's workspace, before it is erased."""
