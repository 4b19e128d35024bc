"""The addresses that `fetch` takes, and where a redirect may lead."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import httpx2

from .errors import WebError

__all__ = ["check_url", "parse_url", "same_site"]

LONGEST = 8_000
"""Maximum characters of an address."""


def parse_url(text: str) -> httpx2.URL:
    """Read an address, without its fragment.

    Raises:
        WebError: it is none of http or https, or has no host, a password, or a port that does not exist.
    """
    text = text.strip()
    if len(text) > LONGEST:
        raise WebError(f"the address has more than {LONGEST:,} characters.")
    try:
        url = httpx2.URL(text)
        port = url.port
    except (httpx2.InvalidURL, ValueError, UnicodeError) as error:
        raise WebError(f"{text[:200]!r} is no address: {error}") from error
    if url.scheme not in ("http", "https"):
        raise WebError(f"{text[:200]!r} does not start with http:// or https://, and fetch reads nothing else.")
    if not url.host or (port is not None and not 0 < port < 65_536):
        raise WebError(f"{text[:200]!r} has no valid host.")
    if url.userinfo:
        raise WebError("the address contains a name or a password. Remove what stands before the @.")
    return url.copy_with(fragment=None)


def check_url(url: httpx2.URL, hosts: Sequence[str]) -> None:
    """Check that the user allows a host. Raises WebError."""
    host = _host(url)
    for pattern in hosts:
        if pattern == "*" or fnmatchcase(host, pattern.lower().rstrip(".")):
            return
    raise WebError(f"the user's configuration does not allow the host {host}. Allowed: {', '.join(hosts) or 'none'}.")


def same_site(one: httpx2.URL, other: httpx2.URL) -> bool:
    """Whether two addresses have the same host, with or without `www.`."""
    return _host(one).removeprefix("www.") == _host(other).removeprefix("www.")


def _host(url: httpx2.URL) -> str:
    return url.raw_host.decode("ascii").lower().rstrip(".")
