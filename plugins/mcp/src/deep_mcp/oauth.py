"""OAuth for servers at an address: `deep mcp login` gets tokens, and agents use and refresh them.

Imported with the MCP libraries, when a server is first used.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from tempfile import mkstemp
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)

if TYPE_CHECKING:
    from mcp.client.auth.oauth2 import OAuthContext
    from pydantic import BaseModel

__all__ = ["Redirect", "StoredLogin", "login_provider", "token_path"]

REQUEST_BYTES = 16_000
PAGE = b"HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"


def token_path(folder: Path, url: str) -> Path:
    """Return the file of the login at a server's address. It exists after `deep mcp login`."""
    return folder / "logins" / f"{sha256(url.encode()).hexdigest()[:32]}.json"


class _File:
    """The SDK's token storage: one file, which only its user reads.

    It also keeps when the access token ends and where the authorization server is. The SDK remembers neither, and would
    take an old token for a good one, and refresh it at the address of the MCP server.
    """

    context: OAuthContext

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, Any]:
        try:
            data: object = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        return cast("dict[str, Any]", data) if isinstance(data, dict) else {}

    async def get_tokens(self) -> OAuthToken | None:
        found = self.read().get("tokens")
        return None if found is None else OAuthToken.model_validate(found)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        found = self.read().get("client")
        return None if found is None else OAuthClientInformationFull.model_validate(found)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Do nothing: a client without tokens is of no use; `set_tokens` keeps both."""

    async def set_tokens(self, tokens: OAuthToken) -> None:
        context = self.context
        kept = {
            "server": context.server_url,
            "tokens": _plain(tokens),
            "expires": context.token_expiry_time,
            "client": _plain(context.client_info),
            "authorization": _plain(context.oauth_metadata),
            "resource": _plain(context.protected_resource_metadata),
        }
        _write(self._path, kept)


def _write(path: Path, kept: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, temporary = mkstemp(dir=path.parent)  # mode 0600
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(kept, file, indent=1)
    Path(temporary).replace(path)


def _plain(model: BaseModel | None) -> Any:
    return None if model is None else model.model_dump(mode="json", exclude_none=True)


class StoredLogin(httpx2.Auth):
    """What an agent's requests carry: the token of the last login, refreshed when it has ended.

    No request of an agent opens a browser or registers a client.

    Args:
        path: the login's file.
        url: the server's address.

    Attributes:
        needs_login: whether the server refused the last request for want of a login.
    """

    def __init__(self, path: Path, url: str) -> None:
        self.needs_login = False
        self._file, self._url = _File(path), url
        self._kept: dict[str, Any] = {}
        self._provider: OAuthClientProvider | None = None

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with the token. What is refused stays refused: only a person can log in."""
        for _ in range(2):  # again if another process has refreshed the token, or a person has logged in
            if self._provider is None:
                self._kept, self._provider = self._file.read(), _stored(self._file, self._url)
            flow = (self._provider or httpx2.Auth()).async_auth_flow(request)
            self.needs_login = False
            try:
                outgoing = await anext(flow)
                while not self.needs_login:
                    response = yield outgoing
                    if outgoing is request and _is_refused(response):
                        self.needs_login = True
                    else:
                        outgoing = await flow.asend(response)
            except StopAsyncIteration:
                return
            finally:
                await flow.aclose()
            self._provider = None
            if self._file.read() == self._kept:
                return


def _is_refused(response: httpx2.Response) -> bool:
    more = response.status_code == 403 and "insufficient_scope" in response.headers.get("www-authenticate", "")
    return response.status_code == 401 or more


def _stored(storage: _File, url: str) -> OAuthClientProvider | None:
    kept = storage.read()
    try:
        OAuthClientInformationFull.model_validate(kept["client"])
        provider = OAuthClientProvider(url, _client("http://127.0.0.1/callback"), storage)
        storage.context = context = provider.context
        OAuthToken.model_validate(kept["tokens"])
        context.token_expiry_time = kept["expires"]
        context.oauth_metadata = kept["authorization"] and OAuthMetadata.model_validate(kept["authorization"])
        resource = kept["resource"]
        context.protected_resource_metadata = resource and ProtectedResourceMetadata.model_validate(resource)
    except (KeyError, ValueError):  # there is no file, or not one of ours: as if nobody had logged in
        return None
    return provider


def _client(redirect: str) -> OAuthClientMetadata:
    return OAuthClientMetadata.model_validate(
        {"client_name": "deep", "redirect_uris": [redirect], "token_endpoint_auth_method": "none"}
    )


def login_provider(
    path: Path, url: str, redirect: Redirect, show: Callable[[str], Awaitable[None]]
) -> OAuthClientProvider:
    """Return the SDK's flow of a login, which begins anew and writes its tokens to `path`.

    Args:
        path: the login's file.
        url: the server's address.
        redirect: where the browser ends, listening.
        show: given the address that the person opens.
    """

    async def opened(address: str) -> None:
        redirect.state = parse_qs(urlsplit(address).query)["state"][0]
        await show(address)

    # A client that was registered earlier has another port in its redirect address, so none is read.
    storage = _Fresh(path)
    provider = OAuthClientProvider(url, _client(redirect.url), storage, opened, redirect.result)
    storage.context = provider.context
    return provider


class _Fresh(_File):
    async def get_tokens(self) -> None:
        return None

    async def get_client_info(self) -> None:
        return None


class Redirect:
    """An HTTP server on a free port of this machine, which takes the code that the browser brings.

    A context manager. Only a request with the login's own `state` counts: other pages can reach the port, too.

    Attributes:
        url: the redirect address.
        state: of the login, once it is known.
    """

    url: str

    def __init__(self) -> None:
        self.state: str | None = None

    async def __aenter__(self) -> Redirect:
        self._result: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=REQUEST_BYTES)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/callback"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self._result.cancel()

    async def result(self) -> AuthorizationCodeResult:
        """Wait for the browser.

        Raises:
            ValueError: the login was refused; the message is the authorization server's.
        """
        return await self._result

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            status, text = self._take(head.decode("latin-1"))
            writer.write(PAGE % (status, len(text), text))
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # not a browser that comes back
        finally:
            writer.close()

    def _take(self, head: str) -> tuple[bytes, bytes]:
        method, _, rest = head.partition(" ")
        address = urlsplit(rest.partition(" ")[0])
        given = {key: values[0] for key, values in parse_qs(address.query).items()}
        if method != "GET" or address.path != "/callback" or not self.state or given.get("state") != self.state:
            return b"404 Not Found", b"This is not the login that deep waits for."
        if "code" in given:
            if not self._result.done():
                self._result.set_result(
                    AuthorizationCodeResult(code=given["code"], state=self.state, iss=given.get("iss"))
                )
            return b"200 OK", b"You are logged in. Close this page and go back to the terminal."
        said = given.get("error_description") or given.get("error") or "no code came back"
        if not self._result.done():
            self._result.set_exception(ValueError(f"the login was refused: {said}"))
        return b"200 OK", b"The login was refused. Close this page and go back to the terminal."
