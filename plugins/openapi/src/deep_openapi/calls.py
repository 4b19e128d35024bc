"""Send a call, follow its pages, and bound what comes back."""

from __future__ import annotations

import codecs
import json
import os
import re
import ssl
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import httpx2
from pydantic_ai.messages import BinaryContent

from .apis import Api
from .operations import Credential, Operation
from .pages import Next, joined, next_page, pages_said
from .problems import CallError
from .requests import Built, build_request
from .schemas import clip

if TYPE_CHECKING:
    from .options import OpenapiOptions

__all__ = ["Caller", "credential_of"]

REDIRECTS = frozenset({301, 302, 303, 307, 308})
MOST_REDIRECTS = 3
ERROR_CHARS = 2_000
"""Of an answer that says what is wrong."""
MEDIA_BYTES = 5_000_000
_TEXTS = re.compile(r"^text/|json|xml|yaml|javascript")
HEADERS = {"User-Agent": "deep-openapi", "Accept": "application/json, */*;q=0.5", "Accept-Encoding": "identity"}


class Answer(NamedTuple):
    """What was read of an answer."""

    url: httpx2.URL
    status: int
    reason: str
    headers: httpx2.Headers
    body: bytes
    more: bool


class Caller:
    """Calls the operations of one service.

    Args:
        api: the service.
        options: limits.
    """

    def __init__(self, api: Api, options: OpenapiOptions) -> None:
        self._api, self._options = api, options
        self._base = httpx2.URL(api.settings.base_url)

    async def call(self, operation: Operation, args: Mapping[str, Any]) -> str | BinaryContent:
        """Call an operation, and return its answer for the model.

        Raises:
            CallError: the call was not made, or failed.
        """
        credential = credential_of(self._api, operation)
        secret = self._secret(credential)
        built = build_request(self._api.settings.base_url, operation, args, credential, secret)
        try:
            with anyio.fail_after(self._options.call_timeout):
                found = await self._pages(operation, args, built, secret)
        except TimeoutError as error:
            effect = "" if "read" in operation.tags else "; it may have had an effect"
            raise CallError(f"no answer within {self._options.call_timeout:g} seconds{effect}") from error
        return _without(found, secret) if isinstance(found, str) else found

    def _secret(self, credential: Credential | None) -> str:
        variable = self._api.settings.auth_env
        if credential is None or variable is None:
            return ""
        secret = os.environ.get(variable, "").strip()
        if not secret:
            raise CallError(f"the user has not set the environment variable {variable} with the credential")
        if not (secret.isascii() and secret.isprintable()):
            raise CallError(f"the environment variable {variable} has characters that no header takes")
        return secret

    async def _pages(
        self, operation: Operation, args: Mapping[str, Any], built: Built, secret: str
    ) -> str | BinaryContent:
        async with httpx2.AsyncClient(
            trust_env=False, follow_redirects=False, timeout=None, headers=HEADERS, verify=_tls()
        ) as client:
            answer = await self._send(client, operation, built)
            if answer.status >= 400:
                raise CallError(_without(_refused(answer, self._api.settings.auth_env), secret))
            if (media := _media(answer)) is not None:
                return media
            text, bodies, here = _text(answer), list[Any](), dict(args)
            following, seen = self._next(operation, here, answer, text, bodies), {str(answer.url)}
            problem, size = "", len(text)
            while following is not None and len(bodies) < self._options.pages and size < self._options.result_chars:
                here |= following.args
                page = built._replace(url=following.url) if following.url else self._built(operation, here, secret)
                if page.url in seen:
                    following = None
                    break
                seen.add(page.url)
                try:
                    answer = await self._send(client, operation, page)
                except CallError as error:
                    problem = str(error)
                    break
                if answer.status >= 400 or answer.more:
                    problem = f"{answer.status} {answer.reason}"
                    break
                more = _text(answer)
                size += len(more)
                following = self._next(operation, here, answer, more, bodies)
        if len(bodies) > 1:
            text = joined(bodies)
        return self._bounded(text, answer.more, pages_said(len(bodies), following, problem))

    def _built(self, operation: Operation, args: Mapping[str, Any], secret: str) -> Built:
        return build_request(self._api.settings.base_url, operation, args, credential_of(self._api, operation), secret)

    def _next(
        self, operation: Operation, args: Mapping[str, Any], answer: Answer, text: str, bodies: list[Any]
    ) -> Next | None:
        if operation.method != "GET" or answer.more:
            return None
        try:
            body: Any = json.loads(text)
        except (ValueError, RecursionError):
            return None
        bodies.append(body)
        return next_page(operation, args, answer.url, answer.headers.get("link", ""), body, self._same_service)

    def _same_service(self, url: httpx2.URL) -> bool:
        """Whether a credential may go there: the same origin, below the base."""
        base = self._base
        origin = (url.scheme, url.host, url.port) == (base.scheme, base.host, base.port)
        return origin and f"{url.path}/".startswith(base.path.rstrip("/") + "/") and "/../" not in f"{url.path}/"

    async def _send(self, client: httpx2.AsyncClient, operation: Operation, built: Built) -> Answer:
        try:
            url = httpx2.URL(built.url)
        except httpx2.InvalidURL as error:
            raise CallError(f"these arguments make no address, so nothing was called: {error}") from error
        for _ in range(MOST_REDIRECTS + 1):
            how: Any = {"files": built.files} if built.files is not None else {"content": built.content}
            try:
                async with client.stream(operation.method, url, headers=built.headers, **how) as response:
                    if response.status_code not in REDIRECTS or "location" not in response.headers:
                        body, more = await self._read(response)
                        reason = clip(response.reason_phrase, 60)
                        return Answer(url, response.status_code, reason, response.headers, body, more)
                    there = url.join(response.headers["location"][:10_000])
            except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
                effect = "" if "read" in operation.tags else " It may have had an effect."
                raise CallError(f"{self._base.host} did not answer: {type(error).__name__} {error}.{effect}") from error
            if "read" not in operation.tags or not self._same_service(there):
                where = f"{there.scheme}://{there.host}{there.path}"
                raise CallError(f"the service redirects to {clip(where, 200)}, which was not followed")
            url = there
        raise CallError(f"the service redirects more than {MOST_REDIRECTS} times")

    async def _read(self, response: httpx2.Response) -> tuple[bytes, bool]:
        body, limit = bytearray(), self._options.max_bytes
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > limit:
                return bytes(body[:limit]), True
        return bytes(body), False

    def _bounded(self, text: str, cut: bool, note: str) -> str:
        chars = self._options.result_chars
        notes = [note] if note else []
        if len(text) > chars:
            notes.insert(0, f"[truncated: {len(text):,} characters, of which {chars:,} are shown; ask for less]")
        elif cut:
            notes.insert(0, "[truncated: the answer is longer; ask for less]")
        return "\n".join([text[:chars] or "(an empty answer)", *notes])


def credential_of(api: Api, operation: Operation) -> Credential | None:
    """Return where an operation's credential goes: as the user says, else as the document says."""
    if api.settings.auth_env is None or operation.credential is None:
        return None
    if api.settings.auth is None:
        return operation.credential
    kind, _, name = api.settings.auth.partition(" ")
    return Credential(kind, name)


def _refused(answer: Answer, variable: str | None) -> str:
    said = clip(_text(answer), ERROR_CHARS)
    hint = ""
    if answer.status in (401, 403):
        named = f"the credential in {variable}" if variable else "no credential: the user has not named auth_env"
        hint = f" (it got {named})"
    elif answer.status == 429 and (wait := clip(answer.headers.get("retry-after", ""), 40)):
        hint = f" (try again after {wait})"
    return f"the service answered {answer.status} {answer.reason}{hint}: {said or 'nothing more'}"


def _media(answer: Answer) -> BinaryContent | str | None:
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind.startswith("image/") and "svg" not in kind and not answer.more and len(answer.body) <= MEDIA_BYTES:
        return BinaryContent(answer.body, media_type=kind)
    if b"\0" in answer.body[:1_000] or not (_TEXTS.search(kind) or _is_utf8(answer.body[:1_000])):
        size = f"{len(answer.body):,} bytes" + (" or more" if answer.more else "")
        return f"[left out: {clip(kind, 80) or 'binary data'} of {size}]"
    return None


def _is_utf8(data: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)  # which may end in a character
    except UnicodeDecodeError:
        return False
    return True


def _text(answer: Answer) -> str:
    charset = answer.headers.get("content-type", "").lower().partition("charset=")[2].partition(";")[0].strip(' "')
    codec = charset if charset in ("utf-8", "utf-16", "iso-8859-1", "latin-1", "windows-1252", "us-ascii") else "utf-8"
    return answer.body.decode(codec, "replace")


def _without(text: str, secret: str) -> str:
    """Services echo requests. The model, which may print what it reads, does not get the credential."""
    return text.replace(secret, "***") if len(secret) >= 4 else text


@cache
def _tls() -> ssl.SSLContext:
    return httpx2.create_ssl_context()  # reading the certificates takes 20 ms
