"""Split Markdown that arrives in pieces into blocks that are finished, and the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["Prose"]

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_INSIDE = re.compile(r"[ \t]")


class Prose:
    """A text of Markdown while it is written.

    A block is finished at an empty line outside a fence, once the next line shows that it does not continue a list
    item. So nothing that was shown changes afterwards, and each block is rendered once.
    """

    def __init__(self) -> None:
        self.rest = ""
        """What is not finished."""

    def feed(self, piece: str) -> list[str]:
        """Add a piece of the text; return the blocks that are finished now."""
        begins_line = self.rest.endswith("\n")
        self.rest += piece
        if "\n" not in piece and not begins_line:
            return []
        blocks, start = list[str](), 0
        for end in _ends(self.rest):
            blocks.append(self.rest[start:end])
            start = end
        self.rest = self.rest[start:]
        return [block for block in blocks if block.strip()]

    def end(self) -> list[str]:
        """End the text; return the last block, if there is one."""
        last, self.rest = self.rest, ""
        return [last] if last.strip() else []


def _ends(text: str) -> Iterator[int]:
    """Yield where finished blocks end."""
    fence, place, blank = "", 0, False
    for line in re.findall(r".*\n|.+", text):  # `splitlines` would split at a form feed too
        found = _FENCE.match(line)
        if fence:
            if found and found[1].startswith(fence) and not line[found.end() :].strip():
                fence = ""
        elif not line.strip():
            blank = True
        else:
            # A line that is not whole may still begin with a space.
            if blank and not _INSIDE.match(line):
                yield place
            blank = False
            if found:
                fence = found[1]
        place += len(line)
