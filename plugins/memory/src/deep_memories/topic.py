"""A topic: the name of a file, and what can be read of it, however a person edited it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

__all__ = ["Topic", "as_note", "one_line", "topic_key"]

NAME_CHARS = 60
_BULLET = re.compile(r"[-*+]\s+(?=\S)")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)$")


def topic_key(name: str) -> str:
    """Return the one spelling of a topic's name: lower-case words joined by `-`; empty if it has no letter or digit."""
    words = re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", name).casefold())
    key = "-".join(words).encode()[: 3 * NAME_CHARS].decode(errors="ignore")[:NAME_CHARS].rstrip("-")
    return f"topic-{key}" if _DEVICE.match(key) else key


def one_line(text: str) -> str:
    """Put text on one line, with single blanks and only printable characters."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def as_note(text: str) -> str:
    """Format a note as a Markdown list item: further lines are indented, and blank ones go."""
    lines = ["".join(char if char.isprintable() else " " for char in line).rstrip() for line in text.splitlines()]
    return "- " + "\n  ".join(line for line in lines if line.strip()).lstrip() + "\n"


@dataclass(frozen=True)
class Topic:
    """A topic as its file has it.

    Attributes:
        name: of the file, without `.md`.
        text: of the file; a damaged byte is a lone surrogate, as `surrogateescape` reads it.
        changed: when the file changed last, in nanoseconds.
        is_cut: whether the file goes on after `text`.
    """

    name: str
    text: str
    changed: int = 0
    is_cut: bool = False

    @cached_property
    def blocks(self) -> list[str]:
        """The text in pieces: each list item with its indented lines, every other line alone."""
        blocks: list[str] = []
        in_item = False
        for line in self.text.splitlines(keepends=True):
            if in_item and line[:1] in (" ", "\t") and line.strip():
                blocks[-1] += line
                continue
            in_item = _BULLET.match(line) is not None
            blocks.append(line)
        return blocks

    @cached_property
    def notes(self) -> list[str]:
        """The notes: list items without their sign, and every other line that says something but a heading."""
        return list(self._notes())

    def _notes(self) -> Iterator[str]:
        for block in self.blocks:
            item = _BULLET.match(block)
            line = one_line(block[item.end() :] if item else block)
            if line and (item or not (line.startswith("#") or line in ("---", "***"))):
                yield line

    @property
    def summary(self) -> str:
        """What the index says of it: the first note, or the heading, or nothing."""
        return self.notes[0] if self.notes else one_line(self.text).lstrip("# ")
