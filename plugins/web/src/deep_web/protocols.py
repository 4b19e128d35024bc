"""The endpoints of AG-UI and of the Vercel AI SDK, beside the page: programs with those clients share its sessions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING

from deep_sessions import SessionNotFound, event_from_json
from pydantic import ValidationError
from pydantic_ai.exceptions import UserError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from .api import owner_of, read_body, site_of
from .clients import Refused, Sent, Turn
from .redact import event_json

if TYPE_CHECKING:
    from deep_sessions import Event, Sessions
    from starlette.requests import Request

    from .agui import AgUi
    from .clients import Shown
    from .vercel import Vercel

__all__ = ["protocol_routes"]


async def ag_ui(request: Request) -> Response:
    """Answer a client of AG-UI."""
    try:
        from .agui import AgUi
    except ImportError as error:
        raise HTTPException(501, "this server has no AG-UI: pip install 'deep-web[ag-ui]'") from error
    return await _answer(request, AgUi)


async def vercel(request: Request) -> Response:
    """Answer a client of the Vercel AI SDK."""
    from .vercel import Vercel

    return await _answer(request, Vercel)


async def vercel_stream(request: Request) -> Response:
    """Show a client of the Vercel AI SDK the run that is under way, or what it asks; 204 without one."""
    from .vercel import write_chunks

    site = site_of(request)
    session_id = await _session(request, request.path_params["session_id"])
    runs = site.current(session_id)
    if session_id not in runs.active and await runs.waiting(session_id) is None:
        return Response(status_code=204)
    return write_chunks(Turn(site, session_id, Sent(), _show(request, session_id)).events())


async def _answer(request: Request, kind: Callable[[bytes, Sessions, str | None], AgUi | Vercel]) -> Response:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "send application/json")
    site = site_of(request)
    owner_of(request)
    body = await read_body(request, site.max_upload_bytes)
    try:
        asked = kind(body, await site.sessions(None), request.headers.get("accept"))
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, found['loc'])) or 'body'}: {found['msg']}" for found in error.errors()]
        raise HTTPException(422, "; ".join(wrong)) from error
    session_id = await _session(request, request.path_params.get("session_id", asked.thread))

    async def events() -> AsyncGenerator[Shown]:
        # Inside the stream: what is wrong is an event of the protocol.
        try:
            sent = asked.sent()
        except UserError as error:
            raise Refused(error.message) from error
        async for event in Turn(site, session_id, sent, _show(request, session_id)).events():
            yield event

    return asked.respond(events())


async def _session(request: Request, session_id: str) -> str:
    """Return the id of a session, if it is the caller's."""
    try:
        return (await site_of(request).own(owner_of(request), session_id)).id
    except SessionNotFound as error:
        raise SessionNotFound("create the session first: POST /api/sessions") from error


def _show(request: Request, session_id: str) -> Callable[[Event], Event]:
    """Return what shows events as a page sees them."""
    show_errors: bool = request.app.state.show_errors

    def show(event: Event) -> Event:
        return event_from_json(event_json(session_id, event, show_errors=show_errors)) or event

    return show


def protocol_routes() -> list[Route]:
    """Return the routes."""
    return [
        Route("/ag-ui", ag_ui, methods=["POST"]),
        Route("/ag-ui/{session_id}", ag_ui, methods=["POST"]),
        Route("/vercel", vercel, methods=["POST"]),
        Route("/vercel/{session_id}", vercel, methods=["POST"]),
        Route("/vercel/{session_id}/stream", vercel_stream, methods=["GET"]),
    ]
