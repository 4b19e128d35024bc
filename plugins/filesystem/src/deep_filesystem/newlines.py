"""Line endings: the model uses LF; the file keeps its own, line by line."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from dataclasses import dataclass
from typing import Literal

__all__ = ["Endings", "Folded", "Newline", "dominant", "fold", "restyle", "styles"]

Newline = Literal["\n", "\r\n"]
# A carriage return without a line feed is an ordinary character, as in ripgrep and git.
_ENDING = re.compile(r"\r?\n")


@dataclass(frozen=True)
class Folded:
    """A text with CRLF folded to LF, and the way back.

    Attributes:
        text: as the model sees it.
        raw: as in the file.
        pairs: ascending positions in `text` of line feeds that are CRLF in `raw`.
    """

    text: str
    raw: str
    pairs: array[int]

    def to_raw(self, position: int) -> int:
        """Map a position in `text` to `raw`."""
        return position + bisect_left(self.pairs, position)

    def style(self, feed: int) -> Newline:
        """The ending whose line feed is at `feed` of `text`; LF for -1."""
        found = bisect_left(self.pairs, feed)
        return "\r\n" if found < len(self.pairs) and self.pairs[found] == feed else "\n"


class Endings:
    """The endings of a text's lines, for ascending positions."""

    def __init__(self, folded: Folded) -> None:
        self._folded = folded
        self._feed = -1
        self._style: Newline = "\n"

    def at(self, position: int) -> Newline:
        """The ending of the line at `position` of `text`: its own, else the one before, else LF."""
        text = self._folded.text
        if position > self._feed:
            at = text.find("\n", position)
            # Without one, the last line feed decides for all later positions: do not look for it again.
            self._feed = at if at >= 0 else len(text)
            self._style = self._folded.style(at if at >= 0 else text.rfind("\n"))
        return self._style


def fold(raw: str) -> Folded:
    """Fold a file's text to LF."""
    if "\r\n" not in raw:
        return Folded(raw, raw, array("Q"))
    pairs = array("Q", (match.start() - index for index, match in enumerate(re.finditer("\r\n", raw))))
    return Folded(raw.replace("\r\n", "\n"), raw, pairs)


def styles(text: str) -> list[Newline]:
    """List the ending of every line that has one."""
    return ["\r\n" if len(match.group()) == 2 else "\n" for match in _ENDING.finditer(text)]


def dominant(text: str) -> Newline:
    """The more frequent ending; LF if equal or none."""
    pairs = text.count("\r\n")
    return "\r\n" if pairs > text.count("\n") - pairs else "\n"


def restyle(text: str, endings: list[Newline], last: Newline) -> str:
    """Give `text` the listed line endings first, then `last`."""
    lines = text.replace("\r\n", "\n").split("\n")
    if not endings:
        return last.join(lines)
    out: list[str] = []
    for index, line in enumerate(lines[:-1]):
        out += [line, endings[index] if index < len(endings) else last]
    return "".join([*out, lines[-1]])
