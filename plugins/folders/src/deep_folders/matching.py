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
_DOUBTFUL = re.compile(r"[<>`$(\\]|\{\S*[,.]")
"""Of a command whose words are not those that it shows."""
_BETWEEN = re.compile(r"[;&|)\n\r]")
_QUOTES = str.maketrans("", "", "\"'")
_GLOB = re.compile(r"[*?]|[^\[]\[")
_SHELLS = frozenset(("bash", "dash", "ksh", "sh", "zsh"))
_RUNS_OTHERS = _SHELLS | {
    "!", "{", "busybox", "builtin", "chroot", "command", "coproc", "do", "doas", "elif", "else", "env", "eval", "exec",
    "find", "flock", "function", "if", "ionice", "nice", "nohup", "runuser", "script", "setsid", "ssh", "stdbuf",
    "strace", "su", "sudo", "systemd-run", "taskset", "then", "time", "timeout", "trap", "unshare", "until", "watch",
    "while",
}  # fmt: skip
"""Words after which the program of a command may come."""
_COMPLETES = frozenset(("parallel", "xargs"))
"""What runs commands with words that it reads."""


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
    if not isinstance(value, str):
        return True
    if name == "Bash":
        return _runs(re.sub(r":\*$", "*", pattern), value)
    return fnmatchcase(value, pattern) or fnmatchcase(value, f"*/{pattern}")


def _runs(pattern: str, command: str) -> bool:
    """Whether a shell's command may run one of a pattern. Between quotes it divides too often: that only adds parts."""
    if _DOUBTFUL.search(command) or fnmatchcase(command, pattern):
        return True
    pattern = " ".join(pattern.translate(_QUOTES).split())
    for part in _BETWEEN.split(command):
        words = part.translate(_QUOTES).split()
        if not words:
            continue
        program = words[0].rpartition("/")[2]
        starts = len(words) if program in _RUNS_OTHERS or "=" in words[0] else 1
        if any(map(_GLOB.search, words[:starts])) or program in _COMPLETES or (program in _SHELLS and len(words) == 1):
            return True
        for way in (words[first:] for first in range(starts)):
            named = " ".join([way[0].rpartition("/")[2], *way[1:]])
            # `git push *` is about `git push` too.
            if any(fnmatchcase(text, pattern) for text in (named, f"{named} ", " ".join(way))):
                return True
    return False
