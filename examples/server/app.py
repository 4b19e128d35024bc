"""A deployment of deep-web: many users, one agent, for each session a workspace of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from deep_ask import AskOptions
from deep_backends import (
    SessionInUseError,
    SessionLimitError,
    SessionManager,
    SessionPlace,
    docker_session,
    local_backend,
)
from deep_sessions import AgentDeps, DeepAgent, Sessions, open_store
from deep_uploads import UploadsOptions
from deep_web import Incidents, Site, TooMany, create_app
from pydantic_ai.models import Model
from pydantic_ai.workspaces import WorkspaceBackend
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from deep_core import Kernel

from .owners import Newcomers, Owners, Welcome, address_of
from .scripted import scripted_model
from .settings import Settings

__all__ = ["Deployment", "create_server"]

EXAMPLES = ("help", "plan buy milk, bake bread", "write notes.txt: some text", "ask Which color?: red, blue")


class Deployment(Site):
    """The sessions of all users, with a limit for each.

    Args:
        sessions: the agent's sessions.
        kernel: the agent's plugins.
        workspaces: the sessions' files.
        root: where the files are.
        settings: the limits.
    """

    def __init__(
        self, sessions: Sessions, kernel: Kernel, workspaces: SessionManager, root: Path, settings: Settings
    ) -> None:
        super().__init__(
            sessions,
            kernel,
            workspaces.use,
            roots=[root],
            backend=settings.backend,
            examples=EXAMPLES,
            max_upload_bytes=settings.max_upload_bytes,
            max_file_bytes=settings.max_file_bytes,
        )
        self.workspaces = workspaces
        self._most = settings.max_sessions_of_one
        self._newcomers = Newcomers(self._most)
        self._creating = asyncio.Lock()

    async def create(self, owner: str | None, request: Request) -> str:
        """Create a session, unless the owner has the maximum, or too many new owners came from one address."""
        async with self._creating:  # of many requests at once, none is counted late
            await self._admit(owner, request)
            return await super().create(owner, request)

    async def fork(self, session_id: str, owner: str | None, request: Request, *, at: int | None = None) -> str:
        """Fork a session: it counts as another one."""
        async with self._creating:
            await self._admit(owner, request)
            return await super().fork(session_id, owner, request, at=at)

    async def release(self, session_id: str) -> None:
        """Close a session's workspace, before it is erased."""
        await self.workspaces.release(session_id)

    async def _admit(self, owner: str | None, request: Request) -> None:
        own = len(await self.store_of(owner).list(limit=self._most))
        if own == self._most or (not own and not self._newcomers.admit(address_of(request))):
            most = self._most
            raise TooMany(f"One user may have {most} sessions, and {most} new users a day may come from one address.")


def create_server(settings: Settings | None = None, model: Model | str | None = None, plugins: Any = ()) -> Starlette:
    """Create the application.

    Args:
        settings: default settings if None.
        model: the model of DEEP_MODEL if None, else the scripted one.
        plugins: more plugins of the kernel.
    """
    chosen = settings or Settings()
    owners = Owners(chosen.data.absolute() / "owners.key")

    @contextlib.asynccontextmanager
    async def open_site() -> AsyncGenerator[Site]:
        """Open the agent and what it runs on. Closing stops the runs; they can then be resumed."""
        data, incidents = chosen.data.absolute(), Incidents()
        async with contextlib.AsyncExitStack() as stack:
            kernel = await stack.enter_async_context(Kernel(plugins=[incidents, owners, *plugins]))
            store = open_store(chosen.store or f"sqlite:///{data / 'sessions.sqlite'}", kernel=kernel)
            stack.push_async_callback(store.aclose)
            factory = docker_session if chosen.backend == "docker" else local_session
            root = data / "workspaces"
            workspaces = await stack.enter_async_context(
                SessionManager(factory, root=root, max_sessions=chosen.max_workspaces)
            )
            agent = await DeepAgent.create(
                deps=AgentDeps(
                    model=model or os.environ.get("DEEP_MODEL") or scripted_model(),
                    session_store=store,
                    workspaces=workspaces.use,
                    observer=incidents,
                    kernel=kernel,
                ),
                interrupt_on={"write_file": True, "edit_file": True},  # besides `execute`, which always asks
                # A command of a local session can reach the files of all others, so it needs a single user.
                tool_filter=None if chosen.backend == "docker" or chosen.execute else "~execute",
                plugins=[UploadsOptions(max_file_bytes=chosen.max_upload_bytes), AskOptions(offer=True)],
            )
            stack.push_async_callback(agent.close)
            sessions = await stack.enter_async_context(Sessions(agent, keep_partial=True))
            yield Deployment(sessions, kernel, workspaces, root, chosen)

    app = create_app(open_site, hosts=chosen.hosts)
    app.add_middleware(Welcome, owners=owners)
    app.add_exception_handler(SessionInUseError, _busy)
    app.add_exception_handler(SessionLimitError, _full)
    return app


def local_session(place: SessionPlace) -> WorkspaceBackend:
    """Create a session's backend in its own directory."""
    assert place.root is not None
    return local_backend(place.root)


async def _busy(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "The session's files are in use. Try it again.", "code": "busy"}, 409)


async def _full(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 503)
