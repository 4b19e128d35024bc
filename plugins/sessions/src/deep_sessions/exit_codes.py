"""The exit code of a command, from what the model reads of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["exit_code", "split_exit_code"]

_FIRST = re.compile(r"Exit code (-?\d+)(?:, no output\Z|\n|\Z)")


def exit_code(args: Mapping[str, Any], result: str) -> int | None:
    """Return the exit code of a command that failed; None for any other call.

    Args:
        args: the arguments of the call. Those of a command have a text `command`, whatever its tool is named.
        result: its result. It begins with the exit code, unless that is 0: deep-filesystem writes it so.
    """
    return split_exit_code(result)[0] or None if isinstance(args.get("command"), str) else None


def split_exit_code(result: str) -> tuple[int | None, str]:
    """Return the exit code that the result of a command begins with, None without one, and its output."""
    found = _FIRST.match(result)
    return (None, result) if found is None else (int(found[1]), result[found.end() :])
