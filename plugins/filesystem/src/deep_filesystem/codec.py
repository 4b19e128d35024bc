"""Decode and encode files without changing a byte that was not edited."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from .charsets import guess, is_likely_text

__all__ = ["Codec", "NotText", "Unencodable", "UnknownEncoding", "decode_text", "detect", "named"]

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


_NO_TEXT = re.compile("[\0-\x06\x0e-\x1a\x1c-\x1f]")
_LONE = re.compile("[\ud800-\udfff]")


_ASCII = bytes(range(128))
_STATEFUL = ("iso2022", "hz", "utf-7", "punycode", "idna", "unicode", "raw", "undefined")
"""In these, bytes before a character change what it is, or they are ASCII alone."""
_HIGH, _CONTROLS = bytes(range(0x80, 0x100)), bytes(range(0x80, 0xA0))


class NotText(ValueError):
    """The bytes are not text in any known encoding."""


class UnknownEncoding(ValueError):
    """There is no such encoding, or none that a part of a file can be read in."""

    def __init__(self, name: str) -> None:
        super().__init__(f"unknown encoding '{name[:40]}': use a name such as gbk, shift_jis, cp1251 or utf-16")


class Unencodable(ValueError):
    """The file's encoding lacks a character."""


@dataclass(frozen=True)
class Codec:
    """A file's encoding, of which every character is decoded alone.

    `encode(decode(data)) == data` for the bytes it was detected from, but for encodings of Japanese that have two codes
    for some characters; an edit copies the bytes that it does not change.

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
        if self.unit == 1 and self.name != "utf-8" and _is_one_byte(self.name):
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


def named(name: str, data: bytes) -> Codec:
    """Return the encoding of this name, with the byte order mark that the file begins with.

    Raises:
        UnknownEncoding: there is none, or it is none of text that is decoded character by character.
    """
    try:
        found = codecs.lookup(name.strip()).name
    except (LookupError, ValueError, UnicodeError) as error:
        raise UnknownEncoding(name) from error
    found = {"utf-8-sig": "utf-8", "iso8859-1": "latin-1"}.get(found, found)
    for mark, marked in _MARKS:
        if marked.startswith(found) and data.startswith(mark):
            return Codec(marked, mark)
    if found in ("utf-16", "utf-32"):
        return Codec(f"{found}-le")
    if found.startswith(("utf-16-", "utf-32-")):
        return Codec(found)
    try:
        ascii_stays = _ASCII.decode("ascii").encode(found) == _ASCII and _ASCII.decode(found) == _ASCII.decode("ascii")
    except (LookupError, UnicodeError, AssertionError):
        ascii_stays = False
    if not ascii_stays or found.startswith(_STATEFUL):
        raise UnknownEncoding(name)
    return Codec(found)


def decode_text(data: bytes) -> str:
    """Decode a text of unknown encoding, however damaged, without its byte order mark."""
    try:
        codec = detect(data)
    except NotText:
        codec = Codec("utf-8")
    return codec.show(data[len(codec.mark) :])


@cache
def _is_one_byte(name: str) -> bool:
    """Whether each byte of the encoding is a character."""
    return len(bytes(range(256)).decode(name, "replace")) == 256


def detect(data: bytes, *, complete: bool = True) -> Codec:
    """Detect a file's encoding: by byte order mark, else UTF-8, UTF-16 by its zero bytes, one of a language, as
    `charsets` guesses, cp1252 or latin-1.

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
        return _eight_bits(data, complete)
    return Codec("utf-8")


def _zero_bytes(sample: bytes) -> Codec:
    """Detect UTF-16 without a mark: of mostly Latin text, where every other byte is zero, else by its letters."""
    pairs = len(sample) // 2
    high, low = sample[1 : 2 * pairs : 2].count(0), sample[0 : 2 * pairs : 2].count(0)
    for name, zeros, others in (("utf-16-le", high, low), ("utf-16-be", low, high)):
        # A few pairs are of Latin letters alone, or tell nothing.
        if pairs >= 2 and zeros >= (0.4 * pairs if pairs >= 8 else pairs) and others == 0:
            try:
                text = sample[: 2 * pairs].decode(name)
            except UnicodeDecodeError:
                # Only a pair cut by the end of the sample is allowed.
                text = sample[: 2 * pairs - 2].decode(name, "ignore")
            if not _NO_TEXT.search(text):
                return Codec(name)
    for name, zeros, others in (("utf-16-le", high, low), ("utf-16-be", low, high)):
        if zeros and not others and (len(sample) % 2 == 0):
            text = sample.decode(name, "ignore")
            if len(text.encode(name, "surrogatepass")) >= len(sample) - 2 and is_likely_text(text):
                return Codec(name)
    raise NotText("a binary file (it has NUL bytes)")


def _eight_bits(data: bytes, complete: bool) -> Codec:
    # Counted by what a translation or a decoder leaves out: a loop over the characters of a large file takes seconds.
    valid = len(data.decode("utf-8", "ignore"))
    stray = len(data.decode("utf-8", "surrogateescape")) - valid
    others = valid - len(data.translate(None, _HIGH))
    if others > stray:
        return Codec("utf-8", errors="surrogateescape")
    if (language := guess(data, complete=complete)) is not None:
        return Codec(language)
    if len(data.translate(None, _CONTROLS)) < len(data):
        try:
            data.decode("cp1252")
        except UnicodeDecodeError:
            return Codec("latin-1")
        return Codec("cp1252")
    return Codec("latin-1")
