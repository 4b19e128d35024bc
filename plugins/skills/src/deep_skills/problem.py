"""A problem of a skill: one line with the file, its line, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BadSkill", "Problem", "one_line"]

MESSAGE_CHARS = 300
"""Maximum characters of a message, so that a file cannot flood the report about it."""


def one_line(text: str, most: int = 0) -> str:
    """Put text on one line, with single blanks and only printable characters.

    Args:
        text: text of a file or a folder name.
        most: maximum characters, with the ellipsis; 0 for no limit.
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " for c in text)
    text = " ".join(text.split())
    return f"{text[: most - 1].rstrip()}…" if most and len(text) > most else text


@dataclass(frozen=True)
class Problem:
    """A problem.

    Attributes:
        path: the file or folder.
        line: counted from 1; 0 for the file as a whole.
        message: what is wrong and what to do.
        fatal: whether the skill was skipped because of it.
    """

    path: str
    line: int
    message: str
    fatal: bool = False

    def __str__(self) -> str:
        where = f"{one_line(self.path)}:{self.line}" if self.line else one_line(self.path)
        return f"{where}: {one_line(self.message, MESSAGE_CHARS)}"


class BadSkill(ValueError):
    """A SKILL.md that cannot be used.

    Attributes:
        line: counted from 1.
        reason: what is wrong.
    """

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason
