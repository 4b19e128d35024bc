"""What of a configuration of git names a program, or leads it elsewhere: all that git does not write by itself."""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["lines_that_run"]

_SECTION = re.compile(r"\[([A-Za-z0-9.-]+)(?:[ \t]+\"((?:[^\"\\\n]|\\[\"\\])*)\")?\]")
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=[ \t]*(.*))?")
HARMLESS = {
    "core": (
        "repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode",
        "symlinks", "autocrlf", "eol", "sparsecheckout", "sparsecheckoutcone", "quotepath",
    ),
    "extensions": (
        "objectformat", "refstorage", "compatobjectformat", "worktreeconfig", "partialclone", "preciousobjects",
    ),
    "remote": ("fetch", "tagopt", "prune", "promisor", "partialclonefilter", "mirror", "skipdefaultupdate"),
    "branch": ("remote", "merge", "rebase", "description", "pushremote", "autosetuprebase"),
    "submodule": ("active", "branch", "ignore", "recurse", "fetchrecursesubmodules", "alternatelocation"),
    "user": ("name", "email"),
    "init": ("defaultbranch",),
    "pull": ("rebase", "ff"),
    "push": ("default", "autosetupremote"),
    "fetch": ("prune", "recursesubmodules"),
    "merge": ("ff", "conflictstyle"),
    "rebase": ("autostash", "autosquash", "updaterefs"),
    "gc": ("auto", "autodetach", "prune", "pruneexpire"),
    "maintenance": ("auto", "strategy"),
    "index": ("version", "threads"),
    "pack": ("threads", "window"),
    "rerere": ("enabled", "autoupdate"),
    "advice": ("detachedhead",),
    "lfs": ("repositoryformatversion",),
}  # fmt: skip
"""Section -> the keys that only say something: whatever is not here may name a program."""
_URL = re.compile(r"(?!ext::)(?![\w+.-]*::)(?:[\w+.-]+://)?[^-\s][^\s]*")


def lines_that_run(text: str, is_inside: Callable[[str], bool]) -> list[str]:
    """Return what a configuration says beside what git writes by itself, as `section.key = value`.

    Args:
        text: of the file. What is not in git's own plain form counts, as does every key that is not known.
        is_inside: whether a relative path leads to a place in the workspace.
    """
    found: list[str] = []
    section = ""
    for given in text.split("\n"):
        line = given.strip()
        if not line or line.startswith(("#", ";")):
            continue
        if match := _SECTION.fullmatch(line):
            section = match[1].casefold()
            continue
        match = _KEY.fullmatch(line)
        if match is None or line.endswith("\\") or "\0" in line or "\r" in line:
            found.append(f"{section}: {line}")
            continue
        key, value = match[1].casefold(), (match[2] or "").strip()
        if not _is_harmless(section, key, value, is_inside):
            found.append(f"{section}.{key} = {value}")
    return found


def _is_harmless(section: str, key: str, value: str, is_inside: Callable[[str], bool]) -> bool:
    if key in HARMLESS.get(section, ()):
        return True
    if section in ("remote", "submodule") and key in ("url", "pushurl"):
        return _URL.fullmatch(value) is not None
    if (section, key) == ("submodule", "update"):
        return value in ("checkout", "rebase", "merge", "none")
    # A submodule's: `../../../name`.
    return (section, key) == ("core", "worktree") and not value.startswith("~") and is_inside(value)
