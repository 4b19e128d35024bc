"""The one bug that the tour can find and fix: money read through a float, and truncated instead of rounded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["PATTERN", "WHAT", "Repair", "find_repair"]

PATTERN = r"int\(float\(\w+\) \* 100\)"
"""A pattern for `grep`, and for file contents."""
WHAT = "Amounts such as 19.99 lost a cent: cents were truncated and are now rounded."
_FOUND = re.compile(r"int\(float\((\w+)\) \* 100\)")


@dataclass(frozen=True)
class Repair:
    """An edit of one line.

    Attributes:
        line: its number, from 1.
        old: the present line; unique in the file.
        new: the fixed line.
    """

    line: int
    old: str
    new: str


def find_repair(lines: Sequence[str]) -> Repair | None:
    """Find the edit for a file; None if the bug is not in it, or occurs more than once."""
    lines_with_bug = [(number, line) for number, line in enumerate(lines, 1) if _FOUND.search(line)]
    if len(lines_with_bug) != 1:
        return None
    number, line = lines_with_bug[0]
    # Use the project's exact rounding if it has one; else the nearest cent.
    exact = any(text.startswith("def round_cents(amount: Decimal)") for text in lines)
    new = _FOUND.sub(r"round_cents(Decimal(\1) * 100)" if exact else r"round(float(\1) * 100)", line)
    return Repair(number, line, new)
