"""What is wrong with a skill: one line with the file, the line in it and what to do."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BadSkill", "Problem", "one_line"]

MESSAGE_CHARS = 300
"""Characters of one message: a file must not flood the report about itself."""


def one_line(text: str, most: int = 0) -> str:
    """The text with every run of white space as one blank and nothing that does not print.

    Args:
        text: what a file or a folder name says.
        most: characters that are kept, an ellipsis included; 0 for all.
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " for c in text)
    text = " ".join(text.split())
    return f"{text[: most - 1].rstrip()}…" if most and len(text) > most else text


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        path: the file or folder.
        line: counted from 1; 0 where it is about the file as a whole.
        message: what is wrong and what to do.
        fatal: whether the skill was left out because of it.
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
