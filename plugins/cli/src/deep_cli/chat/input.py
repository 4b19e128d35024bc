"""Read the messages of a chat from a pipe: each line is one."""

from __future__ import annotations

import sys
from collections.abc import Iterator

__all__ = ["read_lines"]


def read_lines() -> Iterator[str]:
    """Yield the lines of stdin that are not blank."""
    for line in sys.stdin:
        if line.strip():
            yield line.rstrip("\n")
