"""Read a body up to a limit, decompressed piece by piece, so that a small bomb stays small."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator

from .errors import WebError

__all__ = ["ACCEPTED", "read_body"]

ACCEPTED = "gzip"
"""The only compression that is asked for and read."""


async def read_body(pieces: AsyncIterator[bytes], encoding: str, limit: int) -> tuple[bytes, bool]:
    """Read and decompress a body, and stop at the limit.

    Args:
        pieces: the body as sent.
        encoding: the header `Content-Encoding`.
        limit: maximum bytes, both as sent and decompressed.

    Returns:
        The first `limit` bytes, and whether more followed.

    Raises:
        WebError: the compression is another, or broken.
    """
    codings = [coding for part in encoding.split(",") if (coding := part.strip().lower()) not in ("", "identity")]
    if codings not in ([], ["gzip"], ["x-gzip"]):
        raise WebError(f"the server compressed the page as {encoding[:40]!r}, which fetch does not read.")
    body, sent = bytearray(), 0
    gunzip = _Gunzip() if codings else None
    async for piece in pieces:
        sent += len(piece)
        # One byte more than the limit shows that there is more.
        room = limit + 1 - len(body)
        body += gunzip.feed(piece, room) if gunzip else piece[:room]
        # Blocks of gzip can be empty: without a limit of what is sent, such a body would never end.
        if len(body) > limit or sent > limit:
            return bytes(body[:limit]), True
    if gunzip:
        gunzip.finish(empty=not sent)
    return bytes(body), False


class _Gunzip:
    """Decompresses gzip with any number of members, to at most what is asked for."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(zlib.MAX_WBITS | 16)

    def feed(self, data: bytes, most: int) -> bytes:
        """Decompress up to `most` bytes; what exceeds them is lost."""
        out = bytearray()
        try:
            while data and len(out) < most:
                if self._member.eof:
                    data = data.lstrip(b"\0")  # padding between members
                    if not data:
                        break
                    self._member = zlib.decompressobj(zlib.MAX_WBITS | 16)
                out += self._member.decompress(data, most - len(out))
                data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
        except zlib.error as error:
            raise WebError("the page's gzip data is broken.") from error
        return bytes(out)

    def finish(self, *, empty: bool) -> None:
        if not (self._member.eof or empty):
            raise WebError("the page's gzip data ends too early.")
