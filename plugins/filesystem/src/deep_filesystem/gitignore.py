"""What git ignores: `.gitignore` files and `.git/info/exclude`, read through the workspace.

Our own translation and not a library's: the files may be hostile, and `*a*a*a*a*a*a*b` keeps the usual translation into
a regular expression busy for hours, with the interpreter's lock held. This one takes linear time, as `globs` says.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import partial

from anyio import to_thread
from pydantic_ai.workspaces import Workspace, WorkspaceError

from .access import read_whole
from .globs import INLINE_STEPS, name_regex, path_regex

__all__ = ["Rules", "Scope", "enter", "exists", "scope_above", "split_ignored"]

MAX_BYTES = 64 * 1024
"""Maximum bytes of a file of rules; a larger one is not read."""
MAX_PATTERN = 1_000
"""Maximum characters of a rule; a longer one is left out."""
_POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f", "digit": "0-9",
    "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\s", "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}  # fmt: skip


class _Unmatchable(Exception):
    """The pattern matches nothing, as git reads it."""


@dataclass(frozen=True)
class _Group:
    """Neighboring rules of one kind, so that one regular expression holds them."""

    regex: re.Pattern[str]
    ignored: bool
    folders_only: bool
    by_name: bool


class Rules:
    """The rules of one file; the last that matches decides.

    Attributes:
        size: characters of all patterns: a decision takes at most `size` times the path's length in steps.
    """

    def __init__(self, text: str) -> None:
        kinds: list[tuple[tuple[bool, bool, bool], list[str]]] = []
        self.size = 0
        for line in text.split("\n"):
            rule = _read_rule(line.removesuffix("\r"))
            if rule is None:
                continue
            kind, regex = rule
            self.size += len(line)
            if kinds and kinds[-1][0] == kind:
                kinds[-1][1].append(regex)
            else:
                kinds.append((kind, [regex]))
        self._groups = [_Group(re.compile("|".join(regexes), re.S), *kind) for kind, regexes in reversed(kinds)]

    def decide(self, path: str, name: str, *, is_dir: bool) -> bool | None:
        """Whether the rules ignore a path relative to their folder; None if they say nothing about it."""
        for group in self._groups:
            if (is_dir or not group.folders_only) and group.regex.fullmatch(name if group.by_name else path):
                return group.ignored
        return None


@dataclass(frozen=True)
class Scope:
    """The rules that hold in a folder.

    Attributes:
        rules: the folder's own.
        parent: the scope of the folder above it, in the same repository.
        name: the folder's name there.
    """

    rules: Rules | None = None
    parent: Scope | None = None
    name: str = ""

    @property
    def size(self) -> int:
        """Characters of all rules that hold here."""
        return (self.rules.size if self.rules else 0) + (self.parent.size if self.parent else 0)

    def ignores(self, name: str, *, is_dir: bool) -> bool:
        """Whether git ignores an entry of this folder."""
        scope, path = self, name
        while True:
            decided = scope.rules.decide(path, name, is_dir=is_dir) if scope.rules else None
            if decided is not None or scope.parent is None:
                return bool(decided)
            path, scope = f"{scope.name}/{path}", scope.parent


async def enter(workspace: Workspace, folder: str, entries: Container[str], parent: Scope | None, name: str) -> Scope:
    """Return the scope of a folder, of which `entries` are the names; a repository begins a new one."""
    texts: list[str] = []
    if ".git" in entries:
        parent = None
        texts.append(await _text(workspace, f"{folder}/.git/info/exclude"))
    if ".gitignore" in entries:
        texts.append(await _text(workspace, f"{folder}/.gitignore"))
    rules = Rules("\n".join(texts)) if any(texts) else None
    if rules is None and parent is not None and parent.rules is None and parent.parent is None:
        return parent  # no rules anywhere above: nothing to look up again
    return Scope(rules, parent, name)


async def scope_above(workspace: Workspace, folder: str, top: str) -> Scope | None:
    """Return the scope of the folder above `folder`, from its repository or from `top` on.

    Returns:
        None if git ignores `folder` itself, or a folder above it: then no rule is of use inside.
    """
    prefix = top.rstrip("/") + "/"
    names = folder.removeprefix(prefix).split("/") if folder.startswith(prefix) else []
    scope, at = Scope(), top.rstrip("/")
    for name in names:
        present = {each for each in (".git", ".gitignore") if await exists(workspace, f"{at}/{each}")}
        scope = await enter(workspace, at, present, scope, at.rpartition("/")[2])
        if scope.ignores(name, is_dir=True):
            return None
        at = f"{at}/{name}"
    return scope


async def split_ignored(scope: Scope, names: Sequence[str], *, is_dir: bool) -> tuple[list[str], list[str]]:
    """Split the names of entries of a folder into those that git keeps, and those that it ignores."""
    if not scope.size:
        return [*names], []
    ignored: set[str] = set()
    step = max(1, INLINE_STEPS // (scope.size * 40))
    for start in range(0, len(names), step):
        find = partial(_ignored, scope, names[start : start + step], is_dir)
        ignored |= find() if len(names) <= step else await to_thread.run_sync(find)
    return [name for name in names if name not in ignored], [name for name in names if name in ignored]


def _ignored(scope: Scope, names: Sequence[str], is_dir: bool) -> set[str]:
    return {name for name in names if scope.ignores(name, is_dir=is_dir)}


async def exists(workspace: Workspace, path: str) -> bool:
    """Whether the path exists; False if the workspace cannot tell."""
    try:
        return await workspace.exists(path)
    except (OSError, ValueError, WorkspaceError):
        return False


async def _text(workspace: Workspace, path: str) -> str:
    try:
        if await workspace.realpath(path) != path:
            return ""  # git follows no link here either
        # Each file may begin with a byte order mark, which git skips.
        return (await read_whole(workspace, path, MAX_BYTES)).decode("utf-8-sig", "replace")
    except (OSError, ValueError, WorkspaceError):
        return ""  # a folder of that name, unreadable, outside, or too large


def _read_rule(line: str) -> tuple[tuple[bool, bool, bool], str] | None:
    """Return a rule's kind (ignored, folders only, by name) and its regular expression; None if it matches nothing."""
    pattern = _trim(line)
    if pattern.startswith("#") or len(pattern) > MAX_PATTERN:
        return None
    ignored = not pattern.startswith("!")
    pattern = pattern if ignored else pattern[1:]
    folders_only = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    if not pattern:
        return None
    by_name = "/" not in pattern
    try:
        regex = _name(pattern) if by_name else path_regex([*map(_path_name, _split(pattern.removeprefix("/")))])
    except _Unmatchable:
        return None
    return (ignored, folders_only, by_name), regex


def _trim(line: str) -> str:
    """Remove the spaces at the end, up to one that a backslash keeps."""
    short = line.rstrip(" ")
    if len(short) < len(line) and (len(short) - len(short.rstrip("\\"))) % 2:
        return short + " "
    return short


def _split(pattern: str) -> list[str]:
    """Split at slashes outside of classes."""
    names: list[str] = []
    start = at = 0
    while at < len(pattern):
        if pattern[at] == "\\":
            at += 1
        elif pattern[at] == "[":
            _, at = _class(pattern, at)
        elif pattern[at] == "/":
            names.append(pattern[start:at])
            start = at + 1
        at += 1
    return [*names, pattern[start:]]


def _path_name(name: str) -> str | None:
    return None if len(name) > 1 and not name.strip("*") else _name(name)


def _name(name: str) -> str:
    parts: list[list[str]] = [[]]
    at = 0
    while at < len(name):
        char = name[at]
        if char == "*":
            if len(parts) == 1 or parts[-1]:
                parts.append([])
        elif char == "?":
            parts[-1].append("[^/]")
        elif char == "[":
            regex, at = _class(name, at)
            parts[-1].append(regex)
        elif char == "\\":
            at += 1
            if at == len(name):
                raise _Unmatchable
            parts[-1].append(re.escape(name[at]))
        else:
            parts[-1].append(re.escape(char))
        at += 1
    return name_regex(parts)


def _class(text: str, at: int) -> tuple[str, int]:
    """Translate the class that begins at `at`; return it and the position of its end."""
    at += 1
    negated = text[at : at + 1] in ("!", "^") and at < len(text)
    at += negated
    start, items = at, list[str]()
    while at == start or text[at : at + 1] != "]":
        if text.startswith("[:", at) and (end := text.find(":]", at)) > 0:
            if text[at + 2 : end] not in _POSIX:
                raise _Unmatchable
            items.append(_POSIX[text[at + 2 : end]])
            at = end + 2
            continue
        low, at = _class_char(text, at)
        if text[at : at + 1] == "-" and text[at + 1 : at + 2] not in ("", "]"):
            high, at = _class_char(text, at + 1)
            if low <= high:
                items.append(f"{re.escape(low)}-{re.escape(high)}")
        items.append(re.escape(low))  # of a reversed range too
    chars = "".join(items)
    if not chars:
        return ("[^/]" if negated else "(?!)"), at
    return f"(?!/)[{'^' if negated else ''}{chars}]", at


def _class_char(text: str, at: int) -> tuple[str, int]:
    at += text[at : at + 1] == "\\"
    if at >= len(text):
        raise _Unmatchable  # the class has no end
    return text[at], at + 1
