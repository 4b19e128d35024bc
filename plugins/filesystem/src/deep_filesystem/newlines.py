"""Line endings: the model uses LF; the file keeps its own, line by line."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import Literal

__all__ = ["Folded", "Newline", "dominant", "fold", "restyle", "styles"]

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
    pairs: tuple[int, ...]

    def to_raw(self, position: int) -> int:
        """Map a position in `text` to `raw`."""
        return position + bisect_left(self.pairs, position)

    def style_at(self, position: int) -> Newline:
        """The ending of the line at `position` of `text`: its own, else the one before, else LF."""
        at = self.text.find("\n", position)
        if at < 0:
            at = self.text.rfind("\n", 0, position)
        if at < 0:
            return "\n"
        found = bisect_left(self.pairs, at)
        return "\r\n" if found < len(self.pairs) and self.pairs[found] == at else "\n"


def fold(raw: str) -> Folded:
    """Fold a file's text to LF."""
    if "\r\n" not in raw:
        return Folded(raw, raw, ())
    pairs = tuple(match.start() - index for index, match in enumerate(re.finditer("\r\n", raw)))
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
