"""Connect to the address that was checked, so that no second answer of the DNS counts."""

from __future__ import annotations

import ssl
from functools import cache
from ipaddress import ip_address

import httpx2

from .addresses import Resolver, checked_addresses

__all__ = ["CheckedTransport"]

MOST_ADDRESSES = 4
"""Addresses of one host that are tried."""
CONNECT_SECONDS = 5.0
"""Time limit of a connection if the host has another address."""


class CheckedTransport(httpx2.AsyncBaseTransport):
    """Resolves a request's host once, checks every address, and sends the request to one of them.

    `Host` and the name in TLS stay the host's own. Every request has its own connection: the pool tells connections
    apart by address, and two hosts with one address must not share one that was made under the other's certificate.

    Args:
        resolver: resolves names.
        allow_private: also connect to addresses that are not public.
        inner: sends the requests; by default over the network, without proxies.
    """

    def __init__(
        self, *, resolver: Resolver, allow_private: bool, inner: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        self._resolver = resolver
        self._allow_private = allow_private
        self._inner = inner or httpx2.AsyncHTTPTransport(
            verify=_tls(), trust_env=False, limits=httpx2.Limits(max_keepalive_connections=0)
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request. Raises WebError if an address is not allowed, `httpx2.TransportError` if all fail."""
        url = request.url
        host = url.raw_host.decode("ascii").rstrip(".")
        port = url.port or (443 if url.scheme == "https" else 80)
        addresses = await checked_addresses(host, port, resolver=self._resolver, allow_private=self._allow_private)
        extensions = {**request.extensions}
        if not _is_address(host):
            extensions["sni_hostname"] = host
        tried = addresses[:MOST_ADDRESSES]
        for left in range(len(tried) - 1, -1, -1):
            timeout = {"connect": CONNECT_SECONDS if left else None, "read": None, "write": None, "pool": None}
            sent = httpx2.Request(
                request.method,
                url.copy_with(host=str(tried[-1 - left])),
                headers=request.headers,
                stream=request.stream,
                extensions={**extensions, "timeout": timeout},
            )
            try:
                return await self._inner.handle_async_request(sent)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                if not left:
                    raise
        raise AssertionError("a host without addresses is refused")

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


@cache
def _tls() -> ssl.SSLContext:
    return httpx2.create_ssl_context()  # reading the certificates takes 20 ms
