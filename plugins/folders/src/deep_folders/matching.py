"""Tell which events a hook is for: its matcher, and its `if`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

__all__ = ["fits", "may_be"]

_ONLY = re.compile(r"([A-Za-z]+)(?:\((.*)\))?", re.S)
_NAMED = {"Bash": "command", "Edit": "file_path", "MultiEdit": "file_path", "Read": "file_path", "Write": "file_path"}
"""The tools that a hook's `if` can narrow, and the argument that it is about."""
_NAMES = re.compile(r"[\w|]+")
_DOUBTFUL = re.compile(r"[<>`$(\\]|(?:^|[;&|\n\r])\s*[^\s;&|]*[\"']")
"""Of a command whose parts may begin with other words than it shows."""
_BETWEEN = re.compile(r"[;&|\n\r]")
_BEFORE = re.compile(r"\A(?:(?:then|do|else|elif|if|while|until|time|!|\{|\w+=\S*)\s+)+")
"""What may stand before the program: a word of the shell, or a variable."""


def fits(matcher: str, name: str) -> bool:
    """Whether a hook's matcher names a tool, or a kind of event: names with `|`, or an expression for a part of one."""
    if matcher in ("", "*"):
        return True
    if _NAMES.fullmatch(matcher):
        return name in matcher.split("|")
    try:
        return re.search(matcher, name) is not None
    except re.error:
        return True  # a guard that says this badly guards everything


def may_be(only: str, name: str, args: Mapping[str, Any]) -> bool:
    """Whether a call is one that a hook's `if` names, as `Bash(git push *)`. In doubt it is: it may be a guard."""
    rule = _ONLY.fullmatch(only)
    if rule is None:
        return True
    if rule[1] != name:
        return rule[1] not in _NAMED
    pattern, value = rule[2] or "*", args.get(_NAMED.get(name, ""), None)
    if not isinstance(value, str) or (name == "Bash" and _DOUBTFUL.search(value)):
        return True
    if name == "Bash":
        pattern = re.sub(r":\*$", "*", pattern)
        # Between quotes it divides too often, which only adds parts.
        parts = [_BEFORE.sub("", part.strip()) for part in _BETWEEN.split(value)]
        return any(fnmatchcase(part, pattern) or fnmatchcase(f"{part} ", pattern) for part in parts)
    return fnmatchcase(value, pattern) or fnmatchcase(value, f"*/{pattern}")
