"""Download a document from the address that the user named."""

from __future__ import annotations

import anyio
import httpx2

from .document import MOST_BYTES, check_digest
from .problems import DocumentError

__all__ = ["download"]

SECONDS = 30.0


async def download(address: str, digest: str | None) -> bytes:
    """Return a document's bytes. A redirect is not followed: the user named one address.

    Raises:
        DocumentError: it cannot be had, or is not the pinned one.
    """
    try:
        with anyio.fail_after(SECONDS):
            async with (
                httpx2.AsyncClient(trust_env=False, follow_redirects=False, timeout=None) as client,
                client.stream("GET", address) as response,
            ):
                if response.status_code != 200:
                    raise DocumentError(f"{address} answered {response.status_code}")
                body = bytearray()
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) > MOST_BYTES:
                        raise DocumentError(f"{address} has more than {MOST_BYTES:,} bytes")
    except TimeoutError as error:
        raise DocumentError(f"{address} did not answer within {SECONDS:g} seconds") from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise DocumentError(f"{address} did not answer: {type(error).__name__} {error}") from error
    if digest is not None:
        check_digest(bytes(body), digest)
    return bytes(body)
