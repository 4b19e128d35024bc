"""The application: the page, the requests below `/api`, and the socket."""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deep_sessions import SessionBusy, SessionNotFound
from deep_uploads import UploadError, UploadLimitError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles

from .api import WORKING, Refused, routes
from .guard import NO_OWNER, Guard, NoOwner, Owners
from .lists import Lists, Rows
from .protocols import protocol_routes
from .site import Site, TooMany
from .socket import serve_socket

if TYPE_CHECKING:
    from starlette.types import ExceptionHandler

__all__ = ["create_app"]

STATIC = Path(__file__).parent / "static"
logger = logging.getLogger("deep.web")


def create_app(
    open_site: Callable[[], AbstractAsyncContextManager[Site]],
    *,
    token: str | None = None,
    hosts: Sequence[str] = ("127.0.0.1", "localhost", "::1"),
    show_errors: bool = False,
) -> Starlette:
    """Create the application.

    Args:
        open_site: opens what it serves, when the server starts; closed when it stops.
        token: whoever has it owns the whole store, where no plugin implements `deep_web_owner`; None: no client does.
        hosts: the host names under which pages reach the application; others are refused. `*` for any.
        show_errors: whether pages get the texts of exceptions, which may quote a password. If not, they get the id of
            an incident; the plugin and observer `Incidents` writes the cause to the log.
    """

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with open_site() as site:
            app.state.site, app.state.lists, app.state.rows = site, Lists(site), Rows()
            yield

    app = Starlette(
        routes=[
            Route("/", page, methods=["GET"]),
            *routes(),
            *protocol_routes(),
            WebSocketRoute("/api/sessions/{session_id}/socket", serve_socket),
            Mount("/static", StaticFiles(directory=STATIC, check_dir=False)),
        ],
        middleware=[Middleware(Guard, hosts=hosts)],
        exception_handlers=handlers(),
        lifespan=lifespan,
    )
    app.state.owners = Owners(token)
    app.state.boot = secrets.token_hex(8)
    app.state.show_errors = show_errors
    return app


async def page(request: Request) -> Response:
    """Send the page, or the cookie for a token in the address."""
    owners: Owners = request.app.state.owners
    admitted = owners.admit(request)
    if admitted is not None:
        return admitted
    if not (STATIC / "index.html").exists():
        raise HTTPException(404, "There is no page.")
    return FileResponse(STATIC / "index.html")


def handlers() -> dict[Any, ExceptionHandler]:
    """Return what turns exceptions into `{"error": text}`."""

    def told(status: int, text: str | None = None, code: str | None = None) -> Any:
        async def handler(request: Request, error: Exception) -> Response:
            more = {} if code is None else {"code": code}
            return JSONResponse({"error": text or str(error), **more}, status)

        return handler

    async def refused(request: Request, error: Any) -> Response:
        return JSONResponse({"error": str(error), "code": error.code}, 409)

    async def http(request: Request, error: Any) -> Response:
        return JSONResponse({"error": error.detail}, error.status_code)

    found: dict[Any, ExceptionHandler] = {
        HTTPException: http,
        NoOwner: told(401, NO_OWNER),
        Refused: refused,
        SessionNotFound: told(404, "There is no such session."),
        SessionBusy: told(409, WORKING, "busy"),
        TooMany: told(429),
        UploadLimitError: told(413),
        UploadError: told(422),
        ClientDisconnect: told(400, "The upload broke off, and nothing of it was kept."),
    }
    return found
