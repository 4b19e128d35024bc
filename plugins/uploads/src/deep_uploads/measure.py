"""Measure a file while its bytes pass; only a sample is stored."""

from __future__ import annotations

import codecs
import hashlib
from dataclasses import dataclass

from .encodings import SAMPLE, detect, guess

__all__ = ["Measured", "Meter"]

BEFORE = 1024
"""Bytes of the guessing sample before the first one that is not ASCII."""


@dataclass(frozen=True)
class Measured:
    """A whole file.

    Attributes:
        size: in bytes.
        sha256: in hexadecimal.
        head: its first bytes, at most `SAMPLE`.
        encoding: of a text; None if it is not text.
        line_count: of a text: line feeds, plus one for a last line without; None if it is not text.
    """

    size: int
    sha256: str
    head: bytes
    encoding: str | None
    line_count: int | None


class Meter:
    """Take a file's bytes in order, then report its measures.

    `feed` takes 1 to 3 ms for 1 MiB (hash, lines, UTF-8). UTF-8 is verified to the last byte; an encoding with zero
    bytes is decoded completely; others are guessed from a sample around the first byte that is not ASCII.
    """

    def __init__(self) -> None:
        self.size = 0
        self._hash = hashlib.sha256()
        self._head = bytearray()
        self._feeds = 0
        self._last = b""
        self._zeros = False
        self._wide: str | None = None
        """An encoding in which a line feed has more than one byte."""
        self._decoder: codecs.IncrementalDecoder | None = codecs.getincrementaldecoder("utf-8")("strict")
        self._odd = b""
        """The sample for the guess: kept once the bytes are no longer UTF-8."""
        self._recent = b""

    def feed(self, piece: bytes) -> None:
        """Take the next bytes. The first piece should have `SAMPLE` bytes, if the file has: it decides on UTF-16."""
        if not piece:
            return
        if not self.size:
            wide_encoding = detect(piece)
            if wide_encoding is not None and wide_encoding != "utf-8-sig":
                self._wide = wide_encoding
                self._decoder = codecs.getincrementaldecoder(wide_encoding)("strict")
        self.size += len(piece)
        self._hash.update(piece)
        if len(self._head) < SAMPLE:
            self._head += piece[: SAMPLE - len(self._head)]
        if self._wide is not None:
            self._feed_wide(piece)
        else:
            self._feed_bytes(piece)

    def _feed_wide(self, piece: bytes) -> None:
        if self._decoder is None:
            return
        try:
            text = self._decoder.decode(piece)
        except UnicodeDecodeError:
            self._decoder = None
            return
        self._zeros = self._zeros or "\0" in text
        self._feeds += text.count("\n")
        self._last = text[-1:].encode("utf-8", "surrogatepass") or self._last

    def _feed_bytes(self, piece: bytes) -> None:
        self._feeds += piece.count(b"\n")
        self._last = piece[-1:]
        self._zeros = self._zeros or b"\0" in piece
        if self._decoder is not None:
            try:
                self._decoder.decode(piece)
            except UnicodeDecodeError as error:
                # error.start may include up to 3 pending bytes of the piece before, which the sample tolerates.
                start = max(len(self._recent) + error.start - BEFORE, 0)
                self._odd = (self._recent + piece)[start : start + SAMPLE]
                self._decoder = None
            self._recent = piece[-BEFORE:]
        elif len(self._odd) < SAMPLE:
            self._odd += piece[: SAMPLE - len(self._odd)]

    def finish(self) -> Measured:
        """Return the measures. May import charset-normalizer and guess: call it in a worker thread if `guesses`."""
        encoding = self._encoding()
        lines = self._feeds + (self._last not in (b"", b"\n")) if encoding is not None else None
        return Measured(self.size, self._hash.hexdigest(), bytes(self._head), encoding, lines)

    @property
    def guesses(self) -> bool:
        """Whether `finish` has to guess an encoding."""
        return not self._zeros and self._wide is None and not self._is_decoded()

    def _encoding(self) -> str | None:
        if self._zeros:
            return None
        if self._wide is not None:
            return self._wide if self._is_decoded() else None
        if self._is_decoded():
            return "utf-8-sig" if self._head.startswith(codecs.BOM_UTF8) else "utf-8"
        return guess(self._odd or self._recent)

    def _is_decoded(self) -> bool:
        """Whether everything was decoded: no error and no partial character."""
        return self._decoder is not None and not self._decoder.getstate()[0]
