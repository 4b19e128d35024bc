"""The HTTP and WebSocket interface."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Annotated, Any, Literal

from deep_ask import AskOptions
from deep_backends import (
    SessionInUseError,
    SessionLimitError,
    SessionManager,
    SessionPlace,
    docker_session,
    local_backend,
)
from deep_sessions import AgentDeps, DeepAgent, SessionBusy, SessionNotFound, Sessions, open_store
from deep_uploads import UploadError, UploadLimitError, UploadsOptions
from fastapi import Depends, FastAPI, HTTPException, Request, WebSocket, WebSocketDisconnect
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic_ai.models import Model
from pydantic_ai.workspaces import Workspace, WorkspaceBackend, WorkspaceError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, HTTPConnection

from deep_core import Kernel

from .approvals import Stale, Verdict
from .files import listing
from .incidents import Incidents, record
from .owners import Owners, address_of, from_elsewhere
from .scripted import scripted_model
from .sessions import Busy, OwnedSessions, Page, TooMany
from .settings import Settings

__all__ = ["create_app"]

STATIC = Path(__file__).parent / "static"
MESSAGE_CHARS = 20_000
REASON_CHARS = 2_000
# Only our own files, no inline script, no frames: text of a model or a file stays text.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


# -- what a page may send --------------------------------------------------------------------------------------------


class Message(BaseModel, extra="forbid"):
    """A message of the user."""

    type: Literal["message"]
    text: Annotated[str, Field(min_length=1, max_length=MESSAGE_CHARS)]


class Said(BaseModel, extra="forbid"):
    """The user's decision about one call, or the answer to a question of the model."""

    approve: bool = False
    reason: Annotated[str, Field(max_length=REASON_CHARS)] = ""
    answer: Annotated[str, Field(min_length=1, max_length=REASON_CHARS)] | None = None


class Decide(BaseModel, extra="forbid"):
    """The user's answers to an approval: to every question, by its path."""

    type: Literal["decide"]
    approval: str
    verdicts: dict[str, Said]


class Stop(BaseModel, extra="forbid"):
    """The user stops the run."""

    type: Literal["stop"]


class Resume(BaseModel, extra="forbid"):
    """The user continues a run that was interrupted."""

    type: Literal["resume"]


FromPage: TypeAdapter[Message | Decide | Stop | Resume] = TypeAdapter(
    Annotated[Message | Decide | Stop | Resume, Field(discriminator="type")]
)


# -- the application -------------------------------------------------------------------------------------------------


def create_app(settings: Settings | None = None, model: Model | str | None = None) -> FastAPI:
    """Create the application.

    Args:
        settings: default settings if None.
        model: the model of DEEP_MODEL if None, else the scripted one.
    """
    chosen = settings or Settings()

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
        async with contextlib.AsyncExitStack() as stack:
            app.state.owners = Owners(chosen.data.absolute() / "owners.key")
            app.state.sessions = await start(chosen, model or os.environ.get("DEEP_MODEL") or scripted_model(), stack)
            yield

    app = FastAPI(title="deep", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.settings = chosen
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(chosen.hosts))
    app.middleware("http")(guard)
    add_errors(app)
    add_routes(app)
    app.mount("/static", StaticFiles(directory=STATIC))
    return app


async def start(settings: Settings, model: Model | str, stack: contextlib.AsyncExitStack) -> OwnedSessions:
    """Start the agent and what it runs on. The stack closes all of it; runs under way can then be resumed."""
    data, incidents = settings.data.absolute(), Incidents()
    kernel = await stack.enter_async_context(Kernel(plugins=[incidents]))
    store = open_store(settings.store or f"sqlite:///{data / 'sessions.sqlite'}", kernel=kernel)
    stack.push_async_callback(store.aclose)
    factory = docker_session if settings.backend == "docker" else local_session
    root = data / "workspaces"
    workspaces = await stack.enter_async_context(
        SessionManager(factory, root=root, max_sessions=settings.max_workspaces)
    )
    agent = await DeepAgent.create(
        deps=AgentDeps(model=model, session_store=store, workspaces=workspaces.use, observer=incidents, kernel=kernel),
        interrupt_on={"write_file": True, "edit_file": True},  # besides `execute`, which always asks
        # A command of a local session can reach the files of all others, so it needs a single user.
        tool_filter=None if settings.backend == "docker" or settings.execute else "~execute",
        plugins=[UploadsOptions(max_file_bytes=settings.max_upload_bytes), AskOptions(offer=True)],
    )
    stack.push_async_callback(agent.close)
    sessions = await stack.enter_async_context(Sessions(agent, keep_partial=True))
    return OwnedSessions(sessions, kernel, workspaces, root, settings.max_sessions_of_one)


def local_session(place: SessionPlace) -> WorkspaceBackend:
    """Create a session's backend in its own directory."""
    assert place.root is not None
    return local_backend(place.root)


async def guard(request: Request, call_next: Any) -> Response:
    """Reject requests from pages of another origin, set the headers, and report failures."""
    if request.method not in ("GET", "HEAD") and from_elsewhere(request):
        response: Response = JSONResponse({"error": "This came from a page of another site."}, 403)
    else:
        try:
            response = await call_next(request)
        except Exception as error:  # noqa: BLE001 - recorded; the server goes on
            text = record(f"{request.method} {request.url.path} failed", error)
            response = JSONResponse({"error": f"The server failed. {text}"}, 500)
    response.headers.update(HEADERS)
    return response


def add_errors(app: FastAPI) -> None:
    """Return errors as `{"error": text}`."""

    def told(status: int, text: str | None = None) -> Any:
        async def handler(request: Request, error: Exception) -> Response:
            return JSONResponse({"error": text or str(error)}, status)

        return handler

    app.add_exception_handler(SessionNotFound, told(404, "There is no such session."))
    app.add_exception_handler(SessionBusy, told(409, "The session is at work in another process."))
    app.add_exception_handler(SessionInUseError, told(409, "The session's files are in use. Try it again."))
    app.add_exception_handler(TooMany, told(429))
    app.add_exception_handler(SessionLimitError, told(503))
    app.add_exception_handler(UploadLimitError, told(413))
    app.add_exception_handler(UploadError, told(422))
    app.add_exception_handler(ClientDisconnect, told(400, "The upload broke off, and nothing of it was kept."))

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, StarletteHTTPException)
        return JSONResponse({"error": error.detail}, error.status_code)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        wrong = [f"{found['loc'][-1]}: {found['msg']}" for found in error.errors()]
        return JSONResponse({"error": "; ".join(wrong)}, 422)

    app.add_exception_handler(StarletteHTTPException, http)
    app.add_exception_handler(RequestValidationError, invalid)


def sessions_of(connection: Request) -> OwnedSessions:
    """The sessions of this server."""
    return connection.app.state.sessions


def owners_of(connection: HTTPConnection) -> Owners:
    """The owners' tokens of this server."""
    return connection.app.state.owners


async def own_session(session_id: str, request: Request) -> str:
    """Return the id of a path, if that session is the caller's."""
    await sessions_of(request).check(session_id, owners_of(request).owner_of(request))
    return session_id


AllSessions = Annotated[OwnedSessions, Depends(sessions_of)]
OwnSession = Annotated[str, Depends(own_session)]


def add_routes(app: FastAPI) -> None:
    """Add the page, the interface below `/api`, and the socket."""

    @app.api_route("/", methods=["GET", "HEAD"])
    async def page(request: Request) -> Response:
        response = FileResponse(STATIC / "index.html")
        if owners_of(request).owner_of(request) is None:
            owners_of(request).give_token(request, response)
        return response

    @app.get("/api/sessions")
    async def list_sessions(request: Request, sessions: AllSessions) -> list[dict[str, str]]:
        owner = owners_of(request).owner_of(request)
        return [] if owner is None else await sessions.of_owner(owner)

    @app.post("/api/sessions", status_code=201)
    async def create_session(request: Request, response: Response, sessions: AllSessions) -> dict[str, str]:
        owners = owners_of(request)
        owner = owners.owner_of(request) or owners.give_token(request, response)
        return await sessions.create(owner, address_of(request))

    @app.get("/api/sessions/{session_id}")
    async def history(session_id: OwnSession, sessions: AllSessions) -> dict[str, Any]:
        return await Page(sessions, session_id).snapshot()

    @app.delete("/api/sessions/{session_id}", status_code=204)
    async def delete_session(session_id: OwnSession, sessions: AllSessions) -> None:
        await sessions.delete(session_id)

    @app.post("/api/sessions/{session_id}/uploads", status_code=201)
    async def upload(session_id: OwnSession, sessions: AllSessions, request: Request, name: str) -> dict[str, Any]:
        largest = request.app.state.settings.max_upload_bytes
        if int(request.headers.get("content-length", 0)) > largest:
            raise HTTPException(413, f"{name}: an upload may have {largest:,} bytes.")
        done = await sessions.upload(session_id, name, request.stream())
        return {"path": done.path, "size": done.size, "mime_type": done.mime_type}

    @app.get("/api/sessions/{session_id}/files")
    async def list_files(session_id: OwnSession, sessions: AllSessions) -> dict[str, Any]:
        async with sessions.workspaces.use(session_id) as backend:
            return await listing(Workspace(backend))

    @app.get("/api/sessions/{session_id}/files/{path:path}")
    async def read_file(session_id: OwnSession, sessions: AllSessions, request: Request, path: str) -> Response:
        async with sessions.workspaces.use(session_id) as backend:
            try:
                size = (await Workspace(backend).stat(path)).size or 0
                largest = request.app.state.settings.max_file_bytes
                if size > largest:
                    raise HTTPException(413, f"{path}: a file of {size:,} bytes; sent are those up to {largest:,}.")
                data = await Workspace(backend).read_bytes(path)
            except (OSError, ValueError, WorkspaceError) as error:
                raise HTTPException(404, "There is no such file.") from error
        # Download, never show: a page written by the agent must not run as part of this site.
        headers = {"Content-Disposition": "attachment"}
        return Response(data, media_type="application/octet-stream", headers=headers)

    @app.websocket("/api/sessions/{session_id}/socket")
    async def socket(websocket: WebSocket, session_id: str) -> None:
        if from_elsewhere(websocket):
            refusal = JSONResponse({"error": "This came from a page of another site."}, 403)
            await websocket.send_denial_response(refusal)
            return
        sessions: OwnedSessions = websocket.app.state.sessions
        try:
            await sessions.check(session_id, owners_of(websocket).owner_of(websocket))
        except SessionNotFound:
            await websocket.send_denial_response(JSONResponse({"error": "There is no such session."}, 404))
            return
        await websocket.accept()
        await converse(websocket, Page(sessions, session_id))


# -- the socket ------------------------------------------------------------------------------------------------------


async def converse(websocket: WebSocket, page: Page) -> None:
    """Send events to a page and receive its messages until it disconnects. The run continues without it."""
    await websocket.send_json(await page.snapshot())
    telling = asyncio.create_task(tell(websocket, page))
    hearing = asyncio.create_task(hear(websocket, page))
    try:
        ended, _ = await asyncio.wait([telling, hearing], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (telling, hearing):
            task.cancel()
        await asyncio.gather(telling, hearing, return_exceptions=True)
    with contextlib.suppress(WebSocketDisconnect, SessionNotFound):  # SessionNotFound: it was deleted
        for task in ended:
            task.result()


async def tell(websocket: WebSocket, page: Page) -> None:
    """Send every change."""
    async with contextlib.aclosing(page.changes()) as changes:
        async for change in changes:
            await websocket.send_json(change)


async def hear(websocket: WebSocket, page: Page) -> None:
    """Handle the page's messages; report errors to this page only."""
    while True:
        try:
            said = FromPage.validate_json(await websocket.receive_text())
            match said:
                case Message():
                    await send(websocket, page, said.text)
                case Decide():
                    await page.decide(said.approval, {path: verdict(v) for path, v in said.verdicts.items()})
                case Stop():
                    await page.stop()
                case Resume():
                    await page.resume()
        except WebSocketDisconnect:
            return
        except (KeyError, ValidationError):  # KeyError: a binary message
            await refuse(websocket, "malformed", "This is no message of this protocol.")
        except Stale as error:
            await refuse(websocket, "stale", str(error))
        except (Busy, SessionLimitError) as error:
            await refuse(websocket, "busy", str(error))


def verdict(said: Said) -> Verdict:
    """Convert what a page sent."""
    return Verdict(approve=said.approve, reason=said.reason) if said.answer is None else Verdict(answer=said.answer)


async def send(websocket: WebSocket, page: Page, text: str) -> None:
    """Send a message to the agent. The page keeps the text of one that was not accepted."""
    try:
        await page.send(text)
    except SessionLimitError as error:
        for change in await page.refuse(text, str(error)):
            await websocket.send_json(change)


async def refuse(websocket: WebSocket, code: str, text: str) -> None:
    """Tell a page that its message was rejected."""
    await websocket.send_json({"type": "refused", "code": code, "text": text})
