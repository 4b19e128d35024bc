"""Download a page: redirects one by one, each checked, and everything bounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx2

from .addresses import Resolver, resolve
from .bodies import ACCEPTED, read_body
from .errors import WebError
from .kinds import content_type, is_text, looks_binary
from .transport import CheckedTransport
from .urls import check_url, parse_url, same_site

__all__ = ["Download", "Downloader"]

HEADERS = {
    "User-Agent": "deep-web-tools",
    "Accept": "text/markdown, text/html;q=0.9, text/*;q=0.8, application/json;q=0.8, */*;q=0.1",
    "Accept-Encoding": ACCEPTED,
}
REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True)
class Download:
    """What was read of a page."""

    url: str
    """Its address, after redirects."""
    kind: str
    """The media type, in lower case; empty if the server gave none."""
    charset: str | None
    """The charset that the server named."""
    body: bytes
    more: bool
    """The page has more bytes than were read."""


@dataclass(frozen=True)
class Downloader:
    """Downloads text, within limits. Time is limited by the caller."""

    max_bytes: int
    max_redirects: int = 5
    hosts: Sequence[str] = ("*",)
    allow_private: bool = False
    stay: bool = False
    """Do not follow a redirect to another site."""
    resolver: Resolver = field(default=resolve)
    inner: httpx2.AsyncBaseTransport | None = None
    """Sends the requests to addresses that were checked; by default over the network."""

    async def download(self, url: str) -> Download:
        """Download a page. Raises WebError."""
        transport = CheckedTransport(resolver=self.resolver, allow_private=self.allow_private, inner=self.inner)
        async with httpx2.AsyncClient(
            transport=transport, trust_env=False, follow_redirects=False, timeout=None, headers=HEADERS
        ) as client:
            here = parse_url(url)
            for _ in range(self.max_redirects + 1):
                check_url(here, self.hosts)
                try:
                    async with client.stream("GET", here) as response:
                        if response.status_code not in REDIRECTS:
                            return await self._read(here, response)
                        there = self._target(here, response)
                except httpx2.TransportError as error:
                    raise WebError(f"{here.host} cannot be read: {_reason(error)}") from error
                client.cookies.clear()  # no page may recognize the next one's reader
                here = there
        raise WebError(f"the page redirects more than {self.max_redirects} times; the last address is {here}")

    def _target(self, here: httpx2.URL, response: httpx2.Response) -> httpx2.URL:
        location = response.headers.get("location", "")
        if not location:
            raise WebError(f"{here} redirects, but does not say where.")
        try:
            there = parse_url(str(here.join(location[:20_000])))
        except (httpx2.InvalidURL, ValueError) as error:
            raise WebError(f"{here} redirects to an address that cannot be read.") from error
        if self.stay and not same_site(here, there):
            raise WebError(f"{here} redirects to another site, which needs its own approval. Call fetch with {there}")
        return there

    async def _read(self, url: httpx2.URL, response: httpx2.Response) -> Download:
        if response.status_code >= 400:
            phrase = f"{response.status_code} {response.reason_phrase[:60]}".strip()
            raise WebError(f"{url.host} answered {phrase}.{_advice(response.status_code)}")
        kind, charset = content_type(response.headers.get("content-type", ""))
        if not is_text(kind):
            size = response.headers.get("content-length", "")
            amount = f" of {int(size):,} bytes" if size.isdecimal() and len(size) < 20 else ""
            raise WebError(f"the page is {kind[:80]}{amount}, which is not text. fetch reads text only.")
        encoding = response.headers.get("content-encoding", "")
        body, more = await read_body(response.aiter_raw(), encoding, self.max_bytes)
        if looks_binary(body):
            raise WebError(f"the page says that it is {kind or 'text'}, but it contains binary data.")
        return Download(str(url), kind, charset, body, more)


def _reason(error: httpx2.TransportError) -> str:
    if isinstance(error, httpx2.ConnectError):
        return f"no connection ({error or 'refused'})."
    if isinstance(error, httpx2.ConnectTimeout):
        return "no connection in time."
    return f"the server's answer is broken ({type(error).__name__}: {str(error)[:200]})."


def _advice(status: int) -> str:
    if status in (401, 402, 403):
        return " The page is not public."
    if status in (404, 410):
        return " Check the address."
    return " Try again later." if status == 429 or status >= 500 else ""
