"""Decode and encode files without changing a byte that was not edited."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import Literal

__all__ = ["Codec", "NotText", "Unencodable", "detect"]

SAMPLE = 64 * 1024
"""Bytes to examine for UTF-16 without a byte order mark, and for NUL bytes."""

# UTF-32 first: its little-endian mark begins with UTF-16's.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


_LONE = re.compile("[\ud800-\udfff]")


_HIGH, _CONTROLS = bytes(range(0x80, 0x100)), bytes(range(0x80, 0xA0))


class NotText(ValueError):
    """The bytes are not text in any known encoding."""


class Unencodable(ValueError):
    """The file's encoding lacks a character."""


@dataclass(frozen=True)
class Codec:
    """A file's encoding. `encode(decode(data)) == data` for the bytes it was detected from.

    Attributes:
        name: Python's name of the encoding.
        mark: the byte order mark the file begins with, or nothing.
        errors: `surrogateescape` for UTF-8 with a few invalid bytes, which are preserved.
    """

    name: str
    mark: bytes = b""
    errors: Literal["strict", "surrogateescape"] = "strict"

    @property
    def unit(self) -> int:
        """Bytes per code unit: 1, 2 or 4. Offsets into the text are multiples of it."""
        return {"utf-16": 2, "utf-32": 4}.get(self.name[:6], 1)

    @property
    def newline(self) -> bytes:
        """The bytes of a line feed."""
        return "\n".encode(self.name)

    @property
    def label(self) -> str:
        """The encoding's name for messages."""
        return f"{self.name} with BOM" if self.mark else self.name

    def decode(self, data: bytes) -> str:
        """Decode a whole file without its mark, with its line endings.

        Raises:
            NotText: the bytes are not valid in this encoding.
        """
        try:
            return data[len(self.mark) :].decode(self.name, self.errors)
        except UnicodeDecodeError as error:
            raise NotText(f"not valid {self.label} at byte {error.start + len(self.mark)}") from error

    def encode(self, text: str) -> bytes:
        """Encode a whole file.

        Raises:
            Unencodable: the encoding lacks a character; the message has the character and its line.
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
        """Decode part of a file for reading; invalid bytes become U+FFFD."""
        return data.decode(self.name, "replace")

    def take(self, data: bytes, chars: int) -> tuple[str, int]:
        """Decode the first characters of part of a file for reading; return them and their bytes.

        The part begins at a character. To avoid cutting one at its end, pass `4 * chars + 4` bytes, or up to
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
    """Detect a file's encoding: by byte order mark, else UTF-8, UTF-16 by its zero bytes, cp1252 or latin-1.

    cp1252 only if a byte of 0x80-0x9F requires it: elsewhere the two are equal, and an edit must not write a
    character into a latin-1 file that only cp1252 has. UTF-8 with a few invalid bytes stays UTF-8.

    Args:
        data: the file's bytes, or the first ones.
        complete: False if more bytes follow, so that a character cut at the end is ignored.

    Raises:
        NotText: it has NUL bytes that are not UTF-16's.
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
    """Detect UTF-16 of mostly Latin text, where every other byte is zero; other zeros mean a binary file."""
    pairs = len(sample) // 2
    high, low = sample[1 : 2 * pairs : 2].count(0), sample[0 : 2 * pairs : 2].count(0)
    for name, zeros, others in (("utf-16-le", high, low), ("utf-16-be", low, high)):
        if pairs >= 2 and zeros >= 0.4 * pairs and others == 0:
            try:
                text = sample[: 2 * pairs].decode(name)
            except UnicodeDecodeError:
                # Only a pair cut by the end of the sample is allowed.
                text = sample[: 2 * pairs - 2].decode(name, "ignore")
            if "\0" not in text:
                return Codec(name)
    raise NotText("a binary file (it has NUL bytes)")


def _eight_bits(data: bytes) -> Codec:
    # Counted by what a translation or a decoder leaves out: a loop over the characters of a large file takes seconds.
    valid = len(data.decode("utf-8", "ignore"))
    stray = len(data.decode("utf-8", "surrogateescape")) - valid
    others = valid - len(data.translate(None, _HIGH))
    if others > stray:
        return Codec("utf-8", errors="surrogateescape")
    if len(data.translate(None, _CONTROLS)) < len(data):
        try:
            data.decode("cp1252")
        except UnicodeDecodeError:
            return Codec("latin-1")
        return Codec("cp1252")
    return Codec("latin-1")
