"""The methods of the protocol."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from acp.exceptions import RequestError
from acp.meta import PROTOCOL_VERSION
from acp.schema import (
    AgentCapabilities,
    AuthenticateResponse,
    CloseSessionResponse,
    DeleteSessionResponse,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionDeleteCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionResumeCapabilities,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
)
from deep_sessions import (
    AgentError,
    FolderSettings,
    SessionNotFound,
    delete,
    folder_key,
    is_conversation,
    load_session,
    new_conversation_id,
    title_of,
)

from deep_core import __version__
from deep_core.plugin_api import visible

from .errors import INVALID, told
from .project import Project, real_folder
from .session import EditorSession

if TYPE_CHECKING:
    from acp.schema import ClientCapabilities

    from .client import Editor

__all__ = ["EditorAgent"]

PAGE = 50
"""Sessions of one answer to `session/list`."""


class EditorAgent:
    """The agent of one connection. An editor starts one process for each of its windows.

    Args:
        editor: the editor.
        settings: what `deep acp` was started with.
    """

    def __init__(self, editor: Editor, settings: FolderSettings) -> None:
        self._editor = editor
        self._settings = settings
        self._projects: dict[str, Project] = {}
        """By the editor's MCP servers: all are of one folder."""
        self._folder = ""
        self._sessions: dict[str, EditorSession] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # -- the connection ------------------------------------------------------------------------------------------------

    @told
    async def initialize(
        self, protocol_version: int, client_capabilities: ClientCapabilities | None = None, **more: Any
    ) -> InitializeResponse:
        """Say what this agent can do."""
        self._editor.learn(client_capabilities)
        return InitializeResponse(
            protocol_version=min(protocol_version, PROTOCOL_VERSION),
            agent_info=Implementation(name="deep", title="deep", version=__version__),
            auth_methods=[],
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, audio=False, embedded_context=True),
                mcp_capabilities=McpCapabilities(http=True, sse=True),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(),
                    resume=SessionResumeCapabilities(),
                    close=SessionCloseCapabilities(),
                    delete=SessionDeleteCapabilities(),
                ),
            ),
        )

    @told
    async def authenticate(self, method_id: str, **more: Any) -> AuthenticateResponse:
        """Refuse: a key is stored, or in the environment."""
        raise RequestError(
            INVALID,
            "deep needs no login: store the key of the model's provider with deep keys set openai, or set it in the "
            "environment that the editor gives to deep acp",
        )

    async def close(self) -> None:
        """Stop all runs, as a crash would: they can be resumed."""
        for task in self._tasks:
            task.cancel()
        for session in self._sessions.values():
            await session.unwatch()
        for project in self._projects.values():
            await project.close()

    # -- sessions ------------------------------------------------------------------------------------------------------

    @told
    async def new_session(self, cwd: str, mcp_servers: Sequence[Any] | None = None, **more: Any) -> NewSessionResponse:
        """Begin a conversation. It is stored with its first message."""
        project = await self._opened(cwd, mcp_servers)
        session = await self._open(new_conversation_id(project.folder), project)
        return NewSessionResponse(session_id=session.id, modes=session.modes, config_options=session.options)

    @told
    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Sequence[Any] | None = None, **more: Any
    ) -> LoadSessionResponse:
        """Take up a conversation, and send all of it."""
        session = await self._take_up(session_id, cwd, mcp_servers, replay=True)
        return LoadSessionResponse(modes=session.modes, config_options=session.options)

    @told
    async def resume_session(
        self, session_id: str, cwd: str, mcp_servers: Sequence[Any] | None = None, **more: Any
    ) -> ResumeSessionResponse:
        """Take up a conversation that the editor shows already."""
        session = await self._take_up(session_id, cwd, mcp_servers, replay=False)
        return ResumeSessionResponse(modes=session.modes, config_options=session.options)

    @told
    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **more: Any
    ) -> ListSessionsResponse:
        """List conversations of the folder, the most recently used first."""
        folder = real_folder(cwd) if cwd else None
        project = await self._opened(folder or self._folder or os.getcwd())
        if cursor is not None and not cursor.isdecimal():
            raise RequestError(INVALID, f"cursor: {visible(cursor)!r} is none that session/list gave")
        found: list[SessionInfo] = []
        at, more_follow = int(cursor or 0), False
        async for info in _infos(project, at):
            if len(found) == PAGE:
                more_follow = True
                break
            at += 1
            if is_conversation(info.id) and (shown := await _shown(project, info, folder)) is not None:
                found.append(shown)
        return ListSessionsResponse(sessions=found, next_cursor=str(at) if more_follow else None)

    @told
    async def close_session(self, session_id: str, **more: Any) -> CloseSessionResponse:
        """Stop the turn of a session, and forget it here. It stays stored."""
        await self._forget(self._session(session_id))
        return CloseSessionResponse()

    @told
    async def delete_session(self, session_id: str, **more: Any) -> DeleteSessionResponse:
        """Erase a conversation. One that does not exist is erased."""
        session = self._sessions.get(session_id)
        if session is not None:
            await self._forget(session)
        project = await self._opened(self._folder or os.getcwd()) if session is None else session.project
        with suppress(SessionNotFound):
            await delete(project.store, session_id, kernel=project.kernel)
        return DeleteSessionResponse()

    @told
    async def set_session_mode(self, session_id: str, mode_id: str, **more: Any) -> SetSessionModeResponse:
        """Choose the mode of approvals, or plan mode."""
        await self._session(session_id).set_mode(mode_id)
        return SetSessionModeResponse()

    @told
    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **more: Any
    ) -> SetSessionConfigOptionResponse:
        """Choose the model, or the mode."""
        session = self._session(session_id)
        await session.set_option(config_id, value)
        return SetSessionConfigOptionResponse(config_options=session.options)

    # -- turns ---------------------------------------------------------------------------------------------------------

    @told
    async def prompt(self, session_id: str, prompt: Sequence[Any], **more: Any) -> PromptResponse:
        """Answer a message."""
        return await self._session(session_id).prompt(prompt)

    @told
    async def cancel(self, session_id: str, **more: Any) -> None:
        """Stop the turn of a session."""
        await self._session(session_id).cancel()

    # -- what there is -------------------------------------------------------------------------------------------------

    async def _opened(self, cwd: str, servers: Sequence[Any] | None = None) -> Project:
        project = self._project(cwd, servers)
        await project.open()
        return project

    def _project(self, cwd: str, servers: Sequence[Any] | None = None) -> Project:
        """Return the project of a folder.

        Plugins read the folder's configuration from the current directory, so one process serves one folder.
        """
        folder = real_folder(cwd)
        if folder != self._folder:
            if self._folder:
                raise RequestError(
                    INVALID,
                    f"this process works in {visible(self._folder)}: start another deep acp for {visible(folder)}",
                )
            os.chdir(folder)
            self._folder = folder
        key = repr(servers or [])
        if key not in self._projects:
            self._projects[key] = Project(folder, self._settings, self._editor, servers or [])
        return self._projects[key]

    def _session(self, session_id: str) -> EditorSession:
        session = self._sessions.get(session_id)
        if session is None:
            raise RequestError(
                INVALID, f"session {visible(session_id)} is not open: session/load or session/resume opens it"
            )
        return session

    async def _open(self, session_id: str, project: Project) -> EditorSession:
        choice = project.default_choice()
        await project.sessions(choice)
        session = self._sessions[session_id] = EditorSession(session_id, project, self._editor, choice)
        # Behind the response: editors drop updates of a session that they do not know yet.
        task = asyncio.ensure_future(session.tell_commands())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return session

    async def _take_up(
        self, session_id: str, cwd: str, servers: Sequence[Any] | None, *, replay: bool
    ) -> EditorSession:
        project = await self._opened(cwd, servers)
        if not session_id.startswith(f"{folder_key(project.folder)}."):
            raise RequestError(
                INVALID, f"session {visible(session_id)} is no conversation of {visible(project.folder)}"
            )
        known = self._sessions.get(session_id)
        if known is not None:
            await self._forget(known)
        session = await self._open(session_id, project)
        try:
            await session.open(replay=replay)
        except BaseException as error:
            # One that is open here is stored with its first message: it is empty until then.
            if known is None or not isinstance(error, SessionNotFound):
                del self._sessions[session_id]
                raise
        return session

    async def _forget(self, session: EditorSession) -> None:
        await session.cancel()
        await session.unwatch()
        await session.background.end()
        self._sessions.pop(session.id, None)
        session.project.plugin.listeners.pop(session.id, None)


async def _infos(project: Project, at: int) -> AsyncIterator[Any]:
    while page := await project.store.list(limit=PAGE, offset=at):
        at += len(page)
        for info in page:
            yield info


async def _shown(project: Project, info: Any, folder: str | None) -> SessionInfo | None:
    """Return what `session/list` says of a session; None for one of another folder, or that cannot be read."""
    try:
        if folder is None:
            run = (await load_session(project.store, info.id)).run
            where = run.labels.get("folder") if run is not None else None
        else:
            where = folder if info.id.startswith(f"{folder_key(folder)}.") else None
        if where is None:
            return None
        title = await title_of(project.store, info.id)
    except AgentError:
        return None
    changed = datetime.fromtimestamp(info.updated_at, UTC).isoformat(timespec="seconds")
    return SessionInfo(session_id=info.id, cwd=where, title=visible(title) or None, updated_at=changed)
