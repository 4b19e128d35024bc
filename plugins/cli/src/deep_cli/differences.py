"""The difference of two texts of a file, as `git diff` has it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from .terminal.screen import label

__all__ = ["file_diff", "lines_of", "unified_diff"]

LOOKED = 8_000
"""Bytes in which a zero byte makes a file binary, as for git."""


def file_diff(path: str, before: bytes | None, after: bytes | None, old: str, new: str) -> Iterator[str]:
    """Yield the lines of a diff of a file, also where no line of text says it. Arguments as for `unified_diff`.

    Args:
        path: the file's path.
        before: its content; None for a file that does not exist.
        after: likewise.
        old: what to call the first content.
        new: what to call the second.
    """
    if before == after:
        return
    is_binary = any(b"\0" in (data or b"")[:LOOKED] for data in (before, after))
    if not is_binary and (before or after):
        was, now = ((data or b"").decode("utf-8", "backslashreplace") for data in (before, after))
        yield from unified_diff(path, was, now, old, new)
        return
    yield f"--- {label(path)} ({old})"
    yield f"+++ {label(path)} ({new})"
    sizes = ["no file" if data is None else f"{len(data):,} bytes" for data in (before, after)]
    yield f"{'binary' if is_binary else 'empty'} file: {' before, '.join(sizes)} now"


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
