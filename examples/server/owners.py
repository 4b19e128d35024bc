"""Identify users by a random token in a cookie. There are no accounts; use yours instead."""

from __future__ import annotations

import hashlib
import secrets
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection
from starlette.responses import Response

__all__ = ["COOKIE", "from_elsewhere", "give_token", "owner_of"]

COOKIE = "deep_owner"
A_YEAR = 365 * 24 * 3600


def owner_of(connection: HTTPConnection) -> str | None:
    """Return the owner of a session as stored: the hash of the token; None without one."""
    token = connection.cookies.get(COOKIE)
    return None if not token else hashlib.sha256(token.encode()).hexdigest()


def give_token(connection: HTTPConnection, response: Response) -> str:
    """Give a new user a token.

    HttpOnly: no script of the page can read the token. SameSite=Lax: requests of other sites do not carry it.
    """
    token = secrets.token_urlsafe(32)
    secure = connection.url.scheme in ("https", "wss")
    response.set_cookie(COOKIE, token, max_age=A_YEAR, httponly=True, samesite="lax", secure=secure, path="/")
    return hashlib.sha256(token.encode()).hexdigest()


def from_elsewhere(connection: HTTPConnection) -> bool:
    """Whether a page of another origin sent this. Browsers always send the origin; other clients need not."""
    origin = connection.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != connection.headers.get("host")
