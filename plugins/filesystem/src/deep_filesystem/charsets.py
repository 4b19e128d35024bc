"""Guess the encoding of text that is neither UTF-8 nor UTF-16 with a mark: by the letters that it would have.

charset-normalizer, tried on single lines (3.5.2), took GBK for cp949, Big5 for Johab and KOI8-R for Shift-JIS.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from .letters import BIGRAMS, HANGUL, KANJI, SIMPLIFIED, TRADITIONAL

__all__ = ["guess", "is_likely_text"]

MOST = 16 * 1024
"""Maximum bytes to compare, from the lines that are not ASCII."""
LINE = 4_000
"""Maximum bytes of one line."""
LIKELY = 0.6
"""Part of the letters that has to be common."""
FEWEST = 2
"""Fewest letters that tell a language."""
_HIGH = re.compile(rb"[\x80-\xff]")
_CONTROLS = frozenset("\t\n\r\f\x1b")


class _Candidate(NamedTuple):
    """An encoding, narrow and wide: the narrow one refuses to write what programs of its time cannot read."""

    names: tuple[str, ...]
    rate: Callable[[str], tuple[int, int]]


def _rate_common(common: frozenset[str], also: Callable[[str], bool]) -> Callable[[str], tuple[int, int]]:
    def rate(text: str) -> tuple[int, int]:
        letters = [char for char in text if char > "\x7f" and char.isalnum()]
        return sum(char in common or also(char) for char in letters), len(letters)

    return rate


def _is_kana(char: str) -> bool:
    return "\u3041" <= char <= "\u30ff"


def _rate_cyrillic(text: str) -> tuple[int, int]:
    """Count pairs of letters. A capital inside a word, as a swap of the cases makes them, is no common letter."""
    good = pairs = 0
    before = " "
    for char in text:
        if char > "\x7f" and before > "\x7f" and (char.isalpha() or before.isalpha()):
            pairs += 1
            swapped = before.islower() and char.isupper()
            good += not swapped and (before + char).casefold() in BIGRAMS
        before = char
    return good, pairs


_ONE_BYTE = ("cp1251", "koi8-r", "cp866", "iso8859-5", "mac-cyrillic")
_CANDIDATES = (
    _Candidate(("gbk", "gb18030"), _rate_common(SIMPLIFIED, lambda char: False)),
    _Candidate(("big5", "cp950", "big5hkscs"), _rate_common(TRADITIONAL, lambda char: False)),
    _Candidate(("shift_jis", "cp932"), _rate_common(KANJI, _is_kana)),
    _Candidate(("euc_jp",), _rate_common(KANJI, _is_kana)),
    _Candidate(("euc_kr", "cp949"), _rate_common(HANGUL, lambda char: False)),
    *(_Candidate((name,), _rate_cyrillic) for name in _ONE_BYTE),
)
_ANY = SIMPLIFIED | TRADITIONAL | KANJI | HANGUL


def guess(data: bytes, *, complete: bool = True) -> str | None:
    """Return Python's name of the encoding of text with bytes above 0x7F; None if no language is recognized.

    Args:
        data: the file's bytes, or the first ones.
        complete: False if more bytes follow, so that a character cut at the end is ignored.
    """
    lines = [*_telling_lines(data)]
    best, found = LIKELY, None
    for candidate in _CANDIDATES:
        texts = [_decode(candidate.names[-1], line) for line in lines]
        good = count = 0
        for text in texts:
            if text is None:
                break
            more, letters = candidate.rate(text)
            good, count = good + more, count + letters
        else:
            if count >= FEWEST and good / count > best and (name := _narrowest(candidate, data, complete)):
                best, found = good / count, name
    return found


def _telling_lines(data: bytes) -> Iterator[bytes]:
    """Yield the lines that are not ASCII."""
    at = size = 0
    while size < MOST and (high := _HIGH.search(data, at)):
        start = max(at, data.rfind(b"\n", at, high.start()) + 1, high.start() - LINE)
        end = data.find(b"\n", high.start(), high.start() + LINE)
        end = min(len(data), high.start() + LINE) if end < 0 else end
        yield data[start:end]
        size += end - start
        at = data.find(b"\n", end)
        if at < 0:
            return


def _decode(name: str, line: bytes) -> str | None:
    try:
        return codecs.getincrementaldecoder(name)("strict").decode(line, len(line) < LINE)
    except UnicodeDecodeError:
        return None


def _narrowest(candidate: _Candidate, data: bytes, complete: bool) -> str | None:
    for name in candidate.names:
        try:
            codecs.getincrementaldecoder(name)("strict").decode(data, complete)
        except UnicodeDecodeError:
            continue
        return name
    return None


def is_likely_text(text: str) -> bool:
    """Whether what was decoded as UTF-16 reads like text: printable, of letters that are common."""
    others = [char for char in text if char > "\x7f"]
    if len(text) < 4 or not all(char.isprintable() or char in _CONTROLS for char in text):
        return False
    return sum(char < "\u0700" or char in _ANY or not char.isalpha() or _is_kana(char) for char in others) >= (
        LIKELY * len(others)
    )
