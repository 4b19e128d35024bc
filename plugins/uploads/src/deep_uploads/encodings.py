"""Detect whether bytes are text, and in which encoding, from a bounded sample."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from charset_normalizer import CharsetMatch

__all__ = ["SAMPLE", "detect", "guess"]

SAMPLE = 64 * 1024
"""Bytes to examine."""
GUESS_BYTES = 16 * 1024
"""Bytes for charset-normalizer (3.5.2): it reads five chunks of 512 anyway, and often decodes all."""
SHORT = 24
"""Fewer bytes than this are Western European text or binary: any other guess would fit a row of random bytes."""
SPARSE = 0.4
"""Maximum bytes above ASCII in a Western European text; other scripts have more in every encoding."""
REGULAR = 0.6
"""Minimum share of zero bytes on one side of the pairs to assume ASCII-like text in UTF-16."""

# UTF-32 first: its little-endian mark begins with UTF-16's.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WIDE = ("utf_16", "utf_16_le", "utf_16_be", "utf_32", "utf_32_le", "utf_32_be", "utf_7")


def detect(head: bytes) -> str | None:
    """Detect the encoding by a byte order mark, or by zero bytes in every second place."""
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    even, odd = head[:SAMPLE:2], head[1:SAMPLE:2]
    if len(odd) >= 2 and head.count(0, 0, SAMPLE):
        if odd.count(0) >= REGULAR * len(odd) and not even.count(0):
            return "utf-16-le"
        if even.count(0) >= REGULAR * len(even) and not odd.count(0):
            return "utf-16-be"
    return None


def guess(sample: bytes) -> str | None:
    """Guess the encoding of bytes without zeros that are not UTF-8; None if they are not text.

    Never UTF-16 or UTF-32: without a mark and without zeros, half of all binary files would be valid.

    Takes up to 0.2 s the first time, when it imports charset-normalizer, and some milliseconds later: call it in a
    worker thread.
    """
    sample = sample[:GUESS_BYTES]
    if sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in sample):
        return None  # an 8-bit decoder accepts any byte; text has no such control characters
    western = _western(sample)
    if len(sample) < SHORT:
        return "cp1252" if western else None

    from charset_normalizer import from_bytes

    best = from_bytes(sample, cp_exclusion=[*_WIDE]).best()
    if best is None:
        return "cp1252" if western else None
    if western and (best.coherence == 0 or "cp1252" in best.could_be_from_charset):
        # No language recognized, or the text is the same in both: take the commonest 8-bit encoding.
        return "cp1252"
    return _name(best)


def _western(sample: bytes) -> bool:
    try:
        text = sample.decode("cp1252")
    except UnicodeDecodeError:
        return False
    high = [char for char in text if char > "\x7f"]
    return len(high) <= SPARSE * len(text) and all(char.isprintable() or char == "\xa0" for char in high)


def _name(match: CharsetMatch) -> str:
    return codecs.lookup(match.encoding).name
