"""Identify users by a signed random token in a cookie: the hook `deep_web_owner`. Put your login here instead."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import ipaddress
import os
import re
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deep_core import hookimpl

__all__ = ["Newcomers", "Owners", "Welcome", "address_of"]

A_DAY = 24 * 3600
A_YEAR = 365 * A_DAY
_TOKEN = re.compile(r"([0-9a-f]{64})\.([0-9a-f]{64})", re.ASCII)


class Owners:
    """The tokens of this server: 256 random bits and their signature, so that no client can choose its own.

    Args:
        path: the file with the key, which is made if there is none. Whoever reads it can make tokens of new owners,
            and none of the present ones.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError), open(path, "xb", opener=_private) as file:
            file.write(secrets.token_bytes(32))
        self._key = path.read_bytes()
        if len(self._key) != 32:
            raise ValueError(f"{path} is not a key of 32 bytes: delete it, and every user is a new one")
        # Cookies do not know ports: two servers of one host need two names.
        self.cookie = f"deep_owner_{hashlib.sha256(self._key).hexdigest()[:12]}"

    @hookimpl(of="web")
    def deep_web_owner(self, connection: HTTPConnection) -> str | None:
        """Return the owner of a session as stored: the hash of the token; None without a token of this server."""
        match = _TOKEN.fullmatch(connection.cookies.get(self.cookie, ""))
        if match is None or not hmac.compare_digest(match[2], self._sign(match[1])):
            return None
        return hashlib.sha256(match[0].encode()).hexdigest()

    def new_cookie(self, connection: HTTPConnection) -> str:
        """Return a cookie with the token of a new user.

        HttpOnly: no script of the page can read the token. SameSite=Lax: requests of other sites do not carry it.
        """
        random = secrets.token_hex(32)
        secure = connection.url.scheme in ("https", "wss")
        response = Response()
        response.set_cookie(
            self.cookie,
            f"{random}.{self._sign(random)}",
            max_age=A_YEAR,
            httponly=True,
            samesite="lax",
            secure=secure,
            path="/",
        )
        return response.headers["set-cookie"]

    def _sign(self, random: str) -> str:
        return hmac.new(self._key, random.encode(), hashlib.sha256).hexdigest()


class Welcome:
    """Give whoever opens the page without a token of this server a new one.

    Args:
        app: what answers.
        owners: the tokens.
    """

    def __init__(self, app: ASGIApp, owners: Owners) -> None:
        self._app = app
        self._owners = owners

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if (
            scope["type"] != "http"
            or scope["path"] != "/"
            or self._owners.deep_web_owner(HTTPConnection(scope)) is not None
        ):
            await self._app(scope, receive, send)
            return

        async def send_with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                headers = MutableHeaders(scope=message)
                headers.append("set-cookie", self._owners.new_cookie(HTTPConnection(scope)))
            await send(message)

        await self._app(scope, receive, send_with_cookie)


class Newcomers:
    """Counts who made a first session within the last day, by address: a client without its cookie is a new user.

    Args:
        most: how many may come from one address.
        clock: returns the time in seconds.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._arrivals: deque[tuple[float, str]] = deque()
        self._of_address: Counter[str] = Counter()

    def admit(self, address: str) -> bool:
        """Count a new user, unless too many came from this address."""
        now = self._clock()
        while self._arrivals and self._arrivals[0][0] < now - A_DAY:
            _, gone = self._arrivals.popleft()
            self._of_address[gone] -= 1
            if not self._of_address[gone]:
                del self._of_address[gone]
        if self._of_address[address] >= self._most:
            return False
        self._arrivals.append((now, address))
        self._of_address[address] += 1
        return True


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def address_of(connection: HTTPConnection) -> str:
    """Return the address for which new users are counted; of IPv6 the network, since one client has all of it."""
    host = connection.client.host if connection.client is not None else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host  # a Unix socket
    return str(address if address.version == 4 else ipaddress.ip_network((int(address) >> 64 << 64, 64)))
