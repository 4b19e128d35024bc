"""Bytes to text and back: which encoding a file is in, without ever changing a byte that was not edited."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import Literal

__all__ = ["Codec", "NotText", "Unencodable", "detect"]

SAMPLE = 64 * 1024
"""Bytes looked at to tell UTF-16 without a byte order mark, and what a NUL byte means."""

# UTF-32 first: its little-endian mark begins with UTF-16's.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


_LONE = re.compile("[\ud800-\udfff]")


class NotText(ValueError):
    """The bytes are not text in any encoding that is recognised."""


class Unencodable(ValueError):
    """A character that the file's encoding does not have."""


@dataclass(frozen=True)
class Codec:
    """How a file's bytes are text. `encode(decode(data)) == data` for the bytes it was detected from.

    Attributes:
        name: Python's name of the encoding.
        mark: the byte order mark the file begins with, or nothing.
        errors: `surrogateescape` for UTF-8 with a few stray bytes, which are kept as they are.
    """

    name: str
    mark: bytes = b""
    errors: Literal["strict", "surrogateescape"] = "strict"

    @property
    def unit(self) -> int:
        """Bytes in a code unit: 1, 2 or 4. Offsets into the text are multiples of it."""
        return {"utf-16": 2, "utf-32": 4}.get(self.name[:6], 1)

    @property
    def newline(self) -> bytes:
        """The bytes of a line feed."""
        return "\n".encode(self.name)

    @property
    def label(self) -> str:
        """The encoding as a person would say it."""
        return f"{self.name} with BOM" if self.mark else self.name

    def decode(self, data: bytes) -> str:
        """The text of a whole file, without its mark, line endings as they are.

        Raises:
            NotText: the bytes are not valid in this encoding.
        """
        try:
            return data[len(self.mark) :].decode(self.name, self.errors)
        except UnicodeDecodeError as error:
            raise NotText(f"not valid {self.label} at byte {error.start + len(self.mark)}") from error

    def encode(self, text: str) -> bytes:
        """The bytes of a whole file.

        Raises:
            Unencodable: the encoding lacks a character; says which and in which line.
        """
        try:
            return self.mark + text.encode(self.name, self.errors)
        except UnicodeEncodeError as error:
            char = text[error.start]
            line = text.count("\n", 0, error.start) + 1
            raise Unencodable(
                f"the file is {self.label}, which cannot hold {char!r} (U+{ord(char):04X}, line {line} of the result)"
            ) from error

    def show(self, data: bytes) -> str:
        """Part of a file, for reading: what does not decode becomes U+FFFD."""
        return data.decode(self.name, "replace")

    def take(self, data: bytes, chars: int) -> tuple[str, int]:
        """The first characters of part of a file, for reading, and the bytes they are.

        The part begins at a character. So that none is cut at its end it should have `4 * chars + 4` bytes, or reach
        the end of the file.
        """
        if self.unit == 1 and self.name != "utf-8":
            return data[:chars].decode(self.name, "replace"), min(chars, len(data))
        if self.unit == 4:
            return data[: 4 * chars].decode(self.name, "replace"), min(4 * chars, len(data))
        errors = "surrogateescape" if self.unit == 1 else "surrogatepass"
        even = data[: len(data) // self.unit * self.unit]
        text = even.decode(self.name, errors)[:chars]
        size = len(text.encode(self.name, errors))
        if size == len(even) < len(data):  # half a unit at the end of the file
            return _LONE.sub("\ufffd", text) + "\ufffd", len(data)
        return _LONE.sub("\ufffd", text), size


def detect(data: bytes, *, complete: bool = True) -> Codec:
    """The encoding of a file: its byte order mark, else UTF-8, UTF-16 by its zero bytes, cp1252 or latin-1.

    cp1252 only where a byte of 0x80-0x9F says so: the two are equal elsewhere, and an edit must not bring a
    character into a latin-1 file that only cp1252 has. Text that is UTF-8 but for a few stray bytes stays UTF-8.

    Args:
        data: the file's bytes, or its first ones.
        complete: False when more follow, so that a character cut at the end does not count.

    Raises:
        NotText: there are NUL bytes that are not UTF-16's.
    """
    for mark, name in _MARKS:
        if data.startswith(mark):
            return Codec(name, mark)
    if b"\0" in data[:SAMPLE]:
        return _zero_bytes(data[:SAMPLE])
    try:
        codecs.getincrementaldecoder("utf-8")("strict").decode(data, complete)
    except UnicodeDecodeError:
        return _eight_bits(data)
    return Codec("utf-8")


def _zero_bytes(sample: bytes) -> Codec:
    """UTF-16 of mostly Latin text has every other byte zero; anything else with zeros is binary."""
    pairs = len(sample) // 2
    high, low = sample[1 : 2 * pairs : 2].count(0), sample[0 : 2 * pairs : 2].count(0)
    for name, zeros, others in (("utf-16-le", high, low), ("utf-16-be", low, high)):
        if pairs >= 2 and zeros >= 0.4 * pairs and others == 0:
            try:
                text = sample[: 2 * pairs].decode(name)
            except UnicodeDecodeError:
                # A pair cut by the end of the sample is the one thing forgiven.
                text = sample[: 2 * pairs - 2].decode(name, "ignore")
            if "\0" not in text:
                return Codec(name)
    raise NotText("a binary file (it has NUL bytes)")


def _eight_bits(data: bytes) -> Codec:
    text = data.decode("utf-8", "surrogateescape")
    if not text.isascii():
        stray = sum(1 for char in text if "\udc80" <= char <= "\udcff")
        others = sum(1 for char in text if char > "\x7f") - stray
        if others > stray:
            return Codec("utf-8", errors="surrogateescape")
    if any(0x80 <= byte <= 0x9F for byte in data):
        try:
            data.decode("cp1252")
        except UnicodeDecodeError:
            return Codec("latin-1")
        return Codec("cp1252")
    return Codec("latin-1")
