"""Record what a session's agent last saw of each file, so that no edit is lost."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .edit import Span

__all__ = ["Seen", "digest"]

MAX_PAGES = 64
"""Maximum pages of a large file to remember; older ones are no longer compared."""
MAX_RANGES = 1_000
"""Maximum separate ranges of a file to remember. The others count as not seen, which at worst makes the agent read."""


@dataclass(frozen=True)  # so that a session that has seen many files is stored quickly
class Seen:
    """One file as the agent last saw it.

    Attributes:
        sha256: of the whole content; empty for a large file that was read by page.
        size: bytes of the content.
        ranges: the bytes shown, merged, ends exclusive.
        pages: for a large file, each page shown: its first byte, the byte after it, its sha256.
        encoding: the one that it was shown in; "" for UTF-8.
    """

    sha256: str = ""
    size: int = 0
    ranges: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    pages: list[tuple[int, int, str]] = field(default_factory=list[tuple[int, int, str]])
    encoding: str = ""

    @classmethod
    def whole(cls, data: bytes, encoding: str = "") -> Seen:
        """Record that the agent saw or wrote all of the content."""
        return cls(digest(data), len(data), [(0, len(data))] if data else [], encoding=encoding)

    @property
    def gap(self) -> int | None:
        """The first byte not shown; None if all were."""
        if not self.size:
            return None
        if not self.ranges or self.ranges[0][0] > 0:
            return 0
        end = self.ranges[0][1]
        return None if end >= self.size else end

    def show(self, sha256: str, size: int, ranges: Iterable[tuple[int, int]], encoding: str) -> Seen:
        """Record a page of a file that was read whole, if the content is still the same."""
        known = self.ranges if sha256 == self.sha256 else []
        return Seen(sha256, size, _merge([*known, *ranges]), encoding=encoding)

    def show_page(self, start: int, data: bytes, size: int, encoding: str) -> Seen:
        """Record a page of a file that is only read by page."""
        page = (start, start + len(data), digest(data))
        others = [other for other in self.pages if other[:2] != page[:2]]
        return Seen("", size, [], [*others, page][-MAX_PAGES:], encoding)

    def edited(self, data: bytes, spans: Iterable[Span]) -> Seen:
        """Record the agent's edit: seen ranges move with the text, and the new text counts as seen."""
        return Seen(digest(data), len(data), _after(self.ranges, spans), encoding=self.encoding)

    def differs(self, data: bytes) -> bool:
        """Whether the content changed since the agent saw it. Times of files are ignored.

        For a file read by page, only its pages count: other parts may change, and an edit keeps them.
        """
        if self.sha256:
            return digest(data) != self.sha256
        return any(digest(data[start:end]) != sha256 for start, end, sha256 in self.pages)


def digest(data: bytes) -> str:
    """Compute the sha256 of a content, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def _merge(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        _append(merged, start, end)
    return merged[:MAX_RANGES]


def _append(merged: list[tuple[int, int]], start: int, end: int) -> None:
    if start >= end:
        return
    if merged and start <= merged[-1][1]:
        merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
    else:
        merged.append((start, end))


def _after(ranges: Iterable[tuple[int, int]], spans: Iterable[Span]) -> list[tuple[int, int]]:
    """Move ranges, ascending, with the text around the replaced ones, ascending; add the new texts. One pass."""
    merged: list[tuple[int, int]] = []
    old = iter(ranges)
    start, end = next(old, (-1, -1))
    delta = 0
    for span in spans:
        while 0 <= start < span.start:  # seen text before this span
            _append(merged, start + delta, min(end, span.start) + delta)
            if end <= span.start:
                start, end = next(old, (-1, -1))
            else:
                start = span.start
        while 0 <= start < span.end:  # seen text that was replaced
            start, end = (span.end, end) if end > span.end else next(old, (-1, -1))
        if len(merged) < MAX_RANGES or merged[-1][1] >= span.start + delta:
            _append(merged, span.start + delta, span.start + delta + span.length)
        delta += span.length - (span.end - span.start)
    while start >= 0:
        _append(merged, start + delta, end + delta)
        start, end = next(old, (-1, -1))
    return merged[:MAX_RANGES]
