"""The one mistake that the tour knows how to find and mend: money read through a float, and cut instead of rounded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["PATTERN", "WHAT", "Repair", "find_repair"]

PATTERN = r"int\(float\(\w+\) \* 100\)"
"""For `grep`, and for a file that was read."""
WHAT = "Amounts such as 19.99 were read as a cent less: cents were cut off, and are rounded now."
_FOUND = re.compile(r"int\(float\((\w+)\) \* 100\)")


@dataclass(frozen=True)
class Repair:
    """An edit of one line.

    Attributes:
        line: its number, from 1.
        old: the line as it is; unique in the file.
        new: the line as it should be.
    """

    line: int
    old: str
    new: str


def find_repair(lines: Sequence[str]) -> Repair | None:
    """The edit for a file, or None where the mistake is not in it or stands there more than once."""
    found = [(number, line) for number, line in enumerate(lines, 1) if _FOUND.search(line)]
    if len(found) != 1:
        return None
    number, line = found[0]
    # With the project's own exact rounding where it has one; else the nearest cent.
    exact = any(text.startswith("def round_cents(amount: Decimal)") for text in lines)
    new = _FOUND.sub(r"round_cents(Decimal(\1) * 100)" if exact else r"round(float(\1) * 100)", line)
    return Repair(number, line, new)
