"""The difference of two texts of a file, as `git diff` has it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from .terminal.screen import label

__all__ = ["lines_of", "unified_diff"]


def unified_diff(path: str, before: str, after: str, old: str, new: str) -> Iterator[str]:
    """Yield the lines, without their ends; none if the texts are equal.

    Args:
        path: the file's path.
        before: its text; "" for a file that does not exist.
        after: likewise.
        old: what to call the first text, such as `before`.
        new: what to call the second.
    """
    name = label(path)  # a line break in it would make up lines of the diff
    for line in difflib.unified_diff(lines_of(before), lines_of(after), f"{name} ({old})", f"{name} ({new})", n=3):
        yield line.removesuffix("\n")
        if not line.endswith("\n"):
            yield "\\ no newline at the end"


def lines_of(text: str) -> list[str]:
    """Split into lines, keeping their ends. `splitlines` would split at a form feed too."""
    return re.findall(r".*\n|.+", text)
