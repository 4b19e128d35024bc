"""Who may send what: the names of this host, the pages of this site, the token, and the headers of every answer."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from .incidents import record

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from .site import Site

__all__ = ["Guard", "NoOwner", "Owners"]

# Only our own files, no inline script, no frames: text of a model or a file stays text.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
CODE_SECONDS = 60.0
"""For which a code for the browser admits."""
_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
NO_OWNER = "Open the page with the address that deep web printed: it has the token."


class NoOwner(Exception):
    """The request has no owner."""


class Owners:
    """Says whose a request is: by the hook `deep_web_owner`, or by a token where no plugin has it.

    Args:
        token: who has it owns the store; None: no client does.
    """

    def __init__(self, token: str | None) -> None:
        self._token = token
        self._code, self._code_ends = "", 0.0
        # Cookies do not know ports: two applications of one host need two names.
        digest = hashlib.sha256(f"deep-web {token}".encode()).hexdigest()
        self.cookie = f"deep_web_{digest[:12]}"

    def owner_of(self, connection: HTTPConnection, site: Site) -> str | None:
        """Return the owner; None for whoever has the token, who sees all sessions.

        Raises:
            NoOwner: the request has no owner.
        """
        caller, active = site.kernel.caller, site.kernel.active
        if caller.plugins("deep_web_owner", active):
            owner = caller.first("deep_web_owner", {"connection": connection}, among=active)
            if owner is None:
                raise NoOwner
            return owner
        kind, _, given = connection.headers.get("authorization", "").partition(" ")
        tokens = [connection.cookies.get(self.cookie, ""), given if kind.lower() == "bearer" else ""]
        if not any(map(self._is_token, tokens)):
            raise NoOwner
        return None

    def new_code(self) -> str:
        """Return a code that admits once, within a minute: for the arguments of a program, which others may read."""
        self._code, self._code_ends = secrets.token_urlsafe(32), time.monotonic() + CODE_SECONDS
        return self._code

    def admit(self, request: Request) -> Response | None:
        """Return the answer to an address with the token, or a new code: a cookie, and the address without it."""
        code = request.query_params.get("code", "")
        if not (self._is_token(request.query_params.get("token", "")) or (code and self._is_code(code))):
            return None
        response = RedirectResponse(request.url.path, 303)
        secure = request.url.scheme == "https"
        response.set_cookie(self.cookie, self._token or "", httponly=True, samesite="strict", secure=secure, path="/")
        return response

    def _is_code(self, given: str) -> bool:
        if self._token is None or time.monotonic() > self._code_ends or not _same(given, self._code):
            return False
        self._code_ends = 0.0
        return True

    def _is_token(self, given: str) -> bool:
        return self._token is not None and _same(given, self._token)


def _same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), secret.encode())


class Guard:
    """Refuse requests for another host and of other sites, set the headers, and report failures.

    Args:
        app: what answers the others.
        hosts: the names under which the application is reached; `*` for any.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self._app = app
        self._hosts = {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let a page connect."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def send_guarded(message: Message) -> None:
            nonlocal has_begun
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                has_begun = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        refusal = self._refusal(HTTPConnection(scope), scope)
        if refusal is not None:
            await _answer(refusal, scope, receive, send_guarded)
            return
        try:
            await self._app(scope, receive, send_guarded)
        except Exception as error:
            if scope["type"] != "http" or has_begun:
                raise
            text = record(f"{scope['method']} {scope['path']} failed", error)
            await _answer(JSONResponse({"error": f"The server failed. {text}"}, 500), scope, receive, send_guarded)

    def _refusal(self, connection: HTTPConnection, scope: Scope) -> Response | None:
        given = connection.headers.getlist("host")
        name = _HOST.fullmatch(given[0]) if len(given) == 1 else None
        if name is None:
            return JSONResponse({"error": "The header Host is malformed."}, 400)
        # A page of another name, which its owner lets point to this machine, must not reach it.
        if "*" not in self._hosts and name[1].strip("[]").lower() not in self._hosts:
            return JSONResponse({"error": "This server has another name."}, 400)
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD"):
            return None
        # Browsers always send the origin; other clients need not.
        origin = connection.headers.get("origin")
        if origin is not None and origin.partition("://")[2] != given[0]:
            return JSONResponse({"error": "This came from a page of another site."}, 403)
        return None


async def _answer(response: Response, scope: Scope, receive: Receive, send: Any) -> None:
    if scope["type"] == "http":
        await response(scope, receive, send)
        return
    denial: dict[str, str] = {"http.response.start": "websocket.http.response.start"}
    denial["http.response.body"] = "websocket.http.response.body"
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
        return

    async def send_denial(message: Message) -> None:
        await send({**message, "type": denial[message["type"]]})

    await response({**scope, "type": "http", "method": "GET"}, receive, send_denial)
