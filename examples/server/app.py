"""The HTTP and WebSocket interface."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Annotated, Any, Literal

from deep_backends import SessionLimitError, SessionManager, SessionPlace, docker_session, local_backend
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
from .incidents import record
from .owners import Owners, address_of, from_elsewhere
from .scripted import scripted_model
from .sessions import Busy, Children, LiveSession, Missing, Sessions, TooMany
from .settings import Settings
from .store import Store

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
    """The user's decision about one call."""

    approve: bool
    reason: Annotated[str, Field(max_length=REASON_CHARS)] = ""


class Decide(BaseModel, extra="forbid"):
    """The user's answers to an approval: to every question, by its path."""

    type: Literal["decide"]
    approval: str
    verdicts: dict[str, Said]


class Stop(BaseModel, extra="forbid"):
    """The user stops the run."""

    type: Literal["stop"]


FromPage: TypeAdapter[Message | Decide | Stop] = TypeAdapter(
    Annotated[Message | Decide | Stop, Field(discriminator="type")]
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
        children = Children()
        data = chosen.data.absolute()
        async with Kernel(plugins=[children]) as kernel:
            agent = kernel.create_agent(
                model or os.environ.get("DEEP_MODEL") or scripted_model(),
                interrupt_on={"write_file": True, "edit_file": True},  # besides `execute`, which always asks
                # A command of a local session can reach the files of all others, so it needs a single user.
                tool_filter=None if chosen.backend == "docker" or chosen.execute else "~execute",
                plugins=[UploadsOptions(max_file_bytes=chosen.max_upload_bytes)],
            )
            store = Store(data / "sessions.sqlite")
            app.state.owners = Owners(data / "owners.key")
            factory = docker_session if chosen.backend == "docker" else local_session
            workspaces = SessionManager(factory, root=data / "workspaces", max_sessions=chosen.max_workspaces)
            async with workspaces:
                sessions = Sessions(kernel, agent, store, workspaces, chosen.max_sessions_of_one)
                children.sessions = app.state.sessions = sessions
                yield
                await sessions.close()
            store.close()

    app = FastAPI(title="deep", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.settings = chosen
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(chosen.hosts))
    app.middleware("http")(guard)
    add_errors(app)
    add_routes(app)
    app.mount("/static", StaticFiles(directory=STATIC))
    return app


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

    app.add_exception_handler(Missing, told(404, "There is no such session."))
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


def sessions_of(connection: Request) -> Sessions:
    """The sessions of this server."""
    return connection.app.state.sessions


def owners_of(connection: HTTPConnection) -> Owners:
    """The owners' tokens of this server."""
    return connection.app.state.owners


async def opened(session_id: str, request: Request) -> AsyncGenerator[LiveSession, None]:
    """Open the session of a path, if it is the caller's."""
    async with sessions_of(request).open(session_id, owners_of(request).owner_of(request)) as live:
        yield live


AllSessions = Annotated[Sessions, Depends(sessions_of)]
OneSession = Annotated[LiveSession, Depends(opened)]


def add_routes(app: FastAPI) -> None:
    """Add the page, the interface below `/api`, and the socket."""

    @app.get("/")
    async def page(request: Request) -> Response:
        response = FileResponse(STATIC / "index.html")
        if owners_of(request).owner_of(request) is None:
            owners_of(request).give_token(request, response)
        return response

    @app.get("/api/sessions")
    async def list_sessions(request: Request, sessions: AllSessions) -> list[dict[str, str]]:
        owner = owners_of(request).owner_of(request)
        return [] if owner is None else await sessions.store.of_owner(owner)

    @app.post("/api/sessions", status_code=201)
    async def create_session(request: Request, response: Response, sessions: AllSessions) -> dict[str, str]:
        owners = owners_of(request)
        owner = owners.owner_of(request) or owners.give_token(request, response)
        return await sessions.create(owner, address_of(request))

    @app.get("/api/sessions/{session_id}")
    async def history(live: OneSession) -> dict[str, Any]:
        return live.snapshot()

    @app.post("/api/sessions/{session_id}/uploads", status_code=201)
    async def upload(live: OneSession, request: Request, name: str) -> dict[str, Any]:
        largest = request.app.state.settings.max_upload_bytes
        if int(request.headers.get("content-length", 0)) > largest:
            raise HTTPException(413, f"{name}: an upload may have {largest:,} bytes.")
        done = await live.upload(name, request.stream())
        return {"path": done.path, "size": done.size, "mime_type": done.mime_type}

    @app.get("/api/sessions/{session_id}/files")
    async def list_files(live: OneSession, sessions: AllSessions) -> dict[str, Any]:
        async with sessions.workspaces.use(live.id) as backend:
            return await listing(Workspace(backend))

    @app.get("/api/sessions/{session_id}/files/{path:path}")
    async def read_file(live: OneSession, sessions: AllSessions, request: Request, path: str) -> Response:
        async with sessions.workspaces.use(live.id) as backend:
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
            return await websocket.send_denial_response(refusal)
        owner = owners_of(websocket).owner_of(websocket)
        try:
            async with websocket.app.state.sessions.open(session_id, owner) as live:
                await websocket.accept()
                await converse(websocket, live)
        except Missing:
            await websocket.send_denial_response(JSONResponse({"error": "There is no such session."}, 404))


# -- the socket ------------------------------------------------------------------------------------------------------


async def converse(websocket: WebSocket, live: LiveSession) -> None:
    """Send events to a page and receive its messages until it disconnects. The run continues without it."""
    with live.watched() as events:
        told = asyncio.create_task(tell(websocket, events))
        heard = asyncio.create_task(hear(websocket, live))
        try:
            ended, _ = await asyncio.wait([told, heard], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (told, heard):
                task.cancel()
            await asyncio.gather(told, heard, return_exceptions=True)
        with contextlib.suppress(WebSocketDisconnect):
            for task in ended:
                task.result()


async def tell(websocket: WebSocket, events: asyncio.Queue[dict[str, Any] | None]) -> None:
    """Send every event; disconnect a page that is too slow."""
    while (event := await events.get()) is not None:
        await websocket.send_json(event)
    await websocket.close(1013, "too slow")


async def hear(websocket: WebSocket, live: LiveSession) -> None:
    """Handle the page's messages; report errors to this page only."""
    while True:
        try:
            said = FromPage.validate_json(await websocket.receive_text())
            match said:
                case Message():
                    await live.send(said.text)
                case Decide():
                    verdicts = {path: Verdict(approve=v.approve, reason=v.reason) for path, v in said.verdicts.items()}
                    await live.decide(said.approval, verdicts)
                case Stop():
                    live.stop()
        except WebSocketDisconnect:
            return
        except (KeyError, ValidationError):  # KeyError: a binary message
            await refuse(websocket, "malformed", "This is no message of this protocol.")
        except Stale as error:
            await refuse(websocket, "stale", str(error))
        except Busy as error:
            await refuse(websocket, "busy", str(error))


async def refuse(websocket: WebSocket, code: str, text: str) -> None:
    """Tell a page that its message was rejected."""
    await websocket.send_json({"type": "refused", "code": code, "text": text})
