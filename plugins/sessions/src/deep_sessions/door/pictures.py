"""Whether the bytes of a picture are one: its structure, without decoding it."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["PICTURES", "Broken"]

_PNG_START = 8
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_STEP = 1 << 16
MOST_PIXELS = 100_000_000


class Broken(Exception):
    """A provider would refuse the picture. The message continues `it`."""


def png(data: bytes) -> bytes:
    """Check a PNG. Leaves out ancillary chunks that are damaged, as viewers do: its pixels do not need them.

    Raises:
        Broken: it is cut, or what its pixels need is damaged.
    """
    kept, pixels, head, ended = [data[:_PNG_START]], zlib.decompressobj(), b"", False
    size = 0
    for kind, body, raw, whole in _png_chunks(data):
        if not head and kind != b"IHDR":
            raise Broken("does not begin with its size")
        if not whole:
            if not kind[0] & 0x20:
                raise Broken("is damaged")
            continue
        if kind == b"IHDR":
            head = _png_head(body)
        elif kind == b"IDAT":
            size += _inflated(pixels, body)
        kept.append(raw)
        if kind == b"IEND":
            ended = True
            break
    if not ended or not pixels.eof or size < _png_bytes(head):
        raise Broken("is cut off")
    made = b"".join(kept)
    return data if data.startswith(made) else made


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, bytes, bytes, bool]]:
    """Yield kind, body, all bytes, and whether the checksum is right, of each chunk."""
    at = _PNG_START
    while at + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        end = at + 12 + length
        if end > len(data):
            raise Broken("is cut off")
        kind, body = data[at + 4 : at + 8], data[at + 8 : end - 4]
        yield kind, body, data[at:end], zlib.crc32(data[at + 4 : end - 4]) == struct.unpack_from(">I", data, end - 4)[0]
        at = end


def _png_head(body: bytes) -> bytes:
    if len(body) != 13 or body[9] not in _CHANNELS or body[8] not in (1, 2, 4, 8, 16):
        raise Broken("has no size that can be read")
    _check_size(*struct.unpack(">II", body[:8]))
    return body


def _png_bytes(head: bytes) -> int:
    """Return how many bytes the pixels have at least; 0 for an interlaced picture, whose passes differ."""
    if not head or head[12]:
        return 0
    width, height = struct.unpack(">II", head[:8])
    return height * (1 + (width * _CHANNELS[head[9]] * head[8] + 7) // 8)


def _inflated(pixels: Any, body: bytes) -> int:
    size = 0
    try:
        while body and not pixels.eof:
            size += len(pixels.decompress(body, _STEP))  # in steps: a bomb of some bytes is never in memory
            body = pixels.unconsumed_tail
    except zlib.error:
        raise Broken("is damaged") from None
    return size


def jpeg(data: bytes) -> bytes:
    """Check a JPEG: its segments up to the pixels, and that these end."""
    at, sized = 2, False
    while True:
        while data[at : at + 2] == b"\xff\xff":  # fill bytes
            at += 1
        if at + 4 > len(data):
            raise Broken("is cut off")
        if data[at] != 0xFF:
            raise Broken("is damaged")
        kind = data[at + 1]
        (length,) = struct.unpack_from(">H", data, at + 2)
        if length < 2 or at + 2 + length > len(data):
            raise Broken("is cut off")
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            if length < 8:
                raise Broken("has no size that can be read")
            height, width = struct.unpack_from(">HH", data, at + 5)
            _check_size(width, height or 1)  # 0: the height comes after the pixels
            sized = True
        if kind == 0xDA:
            break
        at += 2 + length
    if not sized:
        raise Broken("has no size that can be read")
    if data.find(b"\xff\xd9", at + 2 + length) < 0:
        raise Broken("is cut off")
    return data


def gif(data: bytes) -> bytes:
    """Check a GIF: its blocks up to the end of the first picture."""
    try:
        width, height, flags = struct.unpack_from("<HHB", data, 6)
        _check_size(width, height)
        at = 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
        while data[at] != 0x2C:
            if data[at] != 0x21:
                raise Broken("has no picture in it")
            at = _gif_blocks(data, at + 2)
        flags = data[at + 9]
        at += 11 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
        _gif_blocks(data, at)
    except (IndexError, struct.error):
        raise Broken("is cut off") from None
    return data


def _gif_blocks(data: bytes, at: int) -> int:
    while data[at]:
        at += 1 + data[at]
    return at + 1


def webp(data: bytes) -> bytes:
    """Check a WebP: its parts, and that they are all there."""
    if len(data) < 30 or struct.unpack_from("<I", data, 4)[0] + 8 > len(data) + 1:  # + 1: a padding byte may be missing
        raise Broken("is cut off")
    kinds: set[bytes] = set()
    at = 12
    while at + 8 <= len(data):
        (length,) = struct.unpack_from("<I", data, at + 4)
        if at + 8 + length > len(data):
            break  # behind the picture: its size was checked
        kinds.add(data[at : at + 4])
        at += 8 + length + (length & 1)
    if not kinds & {b"VP8 ", b"VP8L", b"ANMF"}:
        raise Broken("has no picture in it")
    return data


def _check_size(width: int, height: int) -> None:
    if not width or not height or width * height > MOST_PIXELS:
        raise Broken(f"says that it has {width:,} x {height:,} pixels")


PICTURES: Mapping[str, Callable[[bytes], bytes]] = {
    "image/png": png,
    "image/jpeg": jpeg,
    "image/gif": gif,
    "image/webp": webp,
}
"""The kinds of pictures that every provider with pictures takes, and the check of each."""
