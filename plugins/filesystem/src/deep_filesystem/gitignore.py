"""What git ignores: `.gitignore` files and `.git/info/exclude`, read through the workspace.

Our own translation and not a library's: the files may be hostile, and `*a*a*a*a*a*a*b` keeps the usual translation into
a regular expression busy for hours, with the interpreter's lock held. This one takes linear time, as `globs` says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from pydantic_ai.workspaces import Workspace, WorkspaceError

from .access import read_whole
from .globs import matching_names, name_regex, names_regex, path_regex

__all__ = [
    "MAX_BYTES",
    "Rules",
    "Scope",
    "enter",
    "exists",
    "rules_files",
    "rules_text",
    "scope_above",
    "split_ignored",
]

MAX_BYTES = 64 * 1024
"""Maximum bytes of a file of rules; a larger one is not read."""
MAX_PATTERN = 1_000
"""Maximum characters of a rule; a longer one is left out."""
MAX_STEPS = 10_000_000
"""Maximum steps of a regular expression before the next look at the time: some 40 milliseconds at worst."""
TOGETHER = 4_000
"""Maximum characters of the rules of a scope that become one regular expression: each scope compiles its own."""
_SPECIAL = re.compile(r"[*?\[\\]")
_POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f", "digit": "0-9",
    "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\s", "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}  # fmt: skip


class _Unmatchable(Exception):
    """The pattern matches nothing, as git reads it."""


class _Rule(NamedTuple):
    """A rule.

    Attributes:
        regex: matches a name, or a path relative to the folder of the rules.
        ignored: False for one that begins with `!`.
        folders_only: whether it ends with a slash.
        by_name: whether it has no other slash.
        depth: the slashes of a path that can match; None if any number can.
        plain: the pattern, if it is a name as it is, or a `*` and the end of one; else None.
    """

    regex: str
    ignored: bool
    folders_only: bool
    by_name: bool
    depth: int | None
    plain: str | None = None


class _Part(NamedTuple):
    """The rules of one file that say the same, without their order.

    Attributes:
        names: names of entries, as they are.
        ends: ends of names.
        regexes: regular expressions of names.
        paths: for each depth a regular expression of paths.
    """

    names: frozenset[str]
    ends: tuple[str, ...]
    regexes: list[str]
    paths: list[tuple[int | None, re.Pattern[str]]]

    @classmethod
    def of(cls, rules: Sequence[_Rule]) -> _Part:
        named = [rule for rule in rules if rule.by_name]
        plain = [rule.plain for rule in named if rule.plain is not None]
        paths = [rule for rule in rules if not rule.by_name]
        return cls(
            frozenset(name for name in plain if name[0] != "*"),
            tuple({name[1:] for name in plain if name[0] == "*"}),
            [rule.regex for rule in named if rule.plain is None],
            [
                (depth, re.compile("|".join(f"(?:{rule.regex})" for rule in paths if rule.depth == depth), re.S))
                for depth in {rule.depth for rule in paths}
            ],
        )


class Rules:
    """The rules of one file; the last that matches decides.

    Attributes:
        rules: in their order.
        size: characters of all patterns: a decision takes at most `size` times the path's length in steps.
    """

    def __init__(self, text: str) -> None:
        lines = [line.removesuffix("\r") for line in text.split("\n")]
        found = [(len(line), rule) for line in lines if (rule := _read_rule(line)) is not None]
        self.size = sum(size for size, _ in found)
        self.rules = [rule for _, rule in found]

    @cached_property
    def parts(self) -> dict[tuple[bool, bool], _Part]:
        """By whether they ignore, and whether they are asked about folders: the rules."""
        return {
            (ignored, is_dir): _Part.of(
                [rule for rule in self.rules if rule.ignored == ignored and (is_dir or not rule.folders_only)]
            )
            for ignored in (True, False)
            for is_dir in (True, False)
        }

    @cached_property
    def alone(self) -> _Hits:
        """These rules without others."""
        return _Hits([self])

    @cached_property
    def _backward(self) -> list[tuple[_Rule, re.Pattern[str]]]:
        return [(rule, re.compile(rule.regex, re.S)) for rule in reversed(self.rules)]

    def decide(self, path: str, name: str, *, is_dir: bool) -> bool | None:
        """Whether the rules ignore a path relative to their folder; None if they say nothing about it."""
        for rule, regex in self._backward:
            if (is_dir or not rule.folders_only) and regex.fullmatch(name if rule.by_name else path):
                return rule.ignored
        return None


class _Hits:
    """Rules of some files without their order: most names are passed over by one look for all names of a folder."""

    def __init__(self, files: Sequence[Rules]) -> None:
        self._parts = [rules.parts for rules in files]
        self._found: dict[tuple[bool, bool], _Together] = {}

    def find(
        self, folder: str, starts: Sequence[int], names: Sequence[str], *, ignored: bool, is_dir: bool
    ) -> list[str]:
        """List the names for which a rule says that git ignores them, or keeps them, whatever other rules say.

        Args:
            folder: the folder of the names, absolute with a slash at its end.
            starts: for each file of rules, the length of the path of its folder.
            names: entries of one kind.
            ignored: which rules to ask.
            is_dir: whether they are folders.
        """
        together = self._found.get((ignored, is_dir))
        if together is None:
            parts = [each[ignored, is_dir] for each in self._parts]
            together = self._found[ignored, is_dir] = _Together(parts)
        return together.find(folder, starts, names)


class _Together:
    """One look for all rules on names, and for each file one for those on paths of a depth."""

    def __init__(self, parts: Sequence[_Part]) -> None:
        self._exact = parts[0].names.union(*(part.names for part in parts[1:]))
        self._ends = tuple({end for part in parts for end in part.ends})
        regexes = [regex for part in parts for regex in part.regexes]
        self._names = names_regex(regexes) if regexes else None
        self._paths = [(number, depth, path) for number, part in enumerate(parts) for depth, path in part.paths]

    def find(self, folder: str, starts: Sequence[int], names: Sequence[str]) -> list[str]:
        found = [*self._exact.intersection(names)] if self._exact else []
        if self._ends:
            found += [name for name in names if name.endswith(self._ends)]
        if self._names is not None:
            found += matching_names(self._names, names)
        for number, depth, path in self._paths:
            prefix = folder[starts[number] :]
            if depth is None or depth == prefix.count("/"):
                found += [name for name in names if path.fullmatch(prefix + name)]
        return found


@dataclass(frozen=True)
class Scope:
    """The rules that hold in a folder.

    Attributes:
        rules: those of the folder, and of the folders above it in the same repository, the nearest first; each with the
            length of the path of their folder.
        size: characters of all of them.
    """

    rules: tuple[tuple[Rules, int], ...] = ()
    size: int = 0

    def names(self) -> frozenset[str]:
        """Names of folders that a rule ignores wherever they are, unless another keeps one of them."""
        return frozenset[str]().union(*(rules.parts[True, True].names for rules, _ in self.rules))

    def ignores(self, folder: str, name: str, *, is_dir: bool) -> bool:
        """Whether git ignores an entry of this folder, which is absolute and ends with a slash."""
        for rules, start in self.rules:
            decided = rules.decide(folder[start:] + name, name, is_dir=is_dir)
            if decided is not None:
                return decided
        return False

    def ignored(self, folder: str, names: Sequence[str], *, is_dir: bool) -> set[str]:
        """Return those entries of this folder that git ignores."""
        maybe = self._find(folder, names, ignored=True, is_dir=is_dir)
        if not maybe:
            return maybe
        kept = self._find(folder, [*maybe], ignored=False, is_dir=is_dir)
        return maybe - {name for name in kept if not self.ignores(folder, name, is_dir=is_dir)}

    @cached_property
    def _hits(self) -> Sequence[tuple[_Hits, Sequence[int]]]:
        if self.size > TOGETHER:
            return [(rules.alone, [start]) for rules, start in self.rules]
        return [(_Hits([rules for rules, _ in self.rules]), [start for _, start in self.rules])]

    def _find(self, folder: str, names: Sequence[str], *, ignored: bool, is_dir: bool) -> set[str]:
        found: set[str] = set()
        for hits, starts in self._hits:
            found.update(hits.find(folder, starts, names, ignored=ignored, is_dir=is_dir))
        return found

    def below(self, folder: str, texts: Sequence[str], *, is_repository: bool) -> Scope:
        """Return the scope of a folder in this one, if it has rules or is a repository.

        Args:
            folder: absolute, with a slash at its end.
            texts: the contents of its files of rules, the strongest last.
            is_repository: whether it has a `.git`: then it begins a new scope.
        """
        above = NO_RULES if is_repository else self
        if not any(texts):
            return above
        text = "\n".join(texts)
        rules = _short_rules(text) if len(text) <= TOGETHER else Rules(text)
        return Scope(((rules, len(folder)), *above.rules), rules.size + above.size)


@lru_cache(maxsize=64)
def _short_rules(text: str) -> Rules:
    """Read rules once that many folders have."""
    return Rules(text)


NO_RULES = Scope()
"""Nothing is ignored."""


async def enter(workspace: Workspace, folder: str, entries: Container[str], above: Scope) -> Scope:
    """Return the scope of a folder, absolute with a slash at its end, of which `entries` are the names."""
    files = rules_files(entries)
    texts = [await _text(workspace, folder + name) for name in files]
    return above.below(folder, texts, is_repository=".git" in entries) if files else above


def rules_files(entries: Container[str]) -> list[str]:
    """Name the files of rules of a folder with these entries, the strongest last."""
    excluded = [".git/info/exclude"] if ".git" in entries else []
    return [*excluded, ".gitignore"] if ".gitignore" in entries else excluded


async def scope_above(workspace: Workspace, folder: str, top: str) -> Scope | None:
    """Return the scope of the folder above `folder`, from its repository or from `top` on.

    Returns:
        None if git ignores `folder` itself, or a folder above it: then no rule is of use inside.
    """
    at = top.rstrip("/") + "/"
    names = folder.removeprefix(at).split("/") if folder.startswith(at) else []
    scope = NO_RULES
    for name in names:
        present = {each for each in (".git", ".gitignore") if await exists(workspace, at + each)}
        scope = await enter(workspace, at, present, scope)
        if scope.ignores(at, name, is_dir=True):
            return None
        at = f"{at}{name}/"
    return scope


def split_ignored(
    scope: Scope, folder: str, names: Sequence[str], check: Callable[[], None], *, is_dir: bool
) -> tuple[Sequence[str], Sequence[str]]:
    """Split the names of entries of a folder into those that git keeps, and those that it ignores.

    `check` is called all the time; what it raises stops it.
    """
    if not scope.size or not names:
        return names, ()
    step = max(1, MAX_STEPS // (scope.size * 40))
    if len(names) <= step:
        ignored = scope.ignored(folder, names, is_dir=is_dir)
    else:
        ignored = set[str]()
        for start in range(0, len(names), step):
            check()
            ignored |= scope.ignored(folder, names[start : start + step], is_dir=is_dir)
    if not ignored:
        return names, ()
    return [name for name in names if name not in ignored], [name for name in names if name in ignored]


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
        return rules_text(await read_whole(workspace, path, MAX_BYTES))
    except (OSError, ValueError, WorkspaceError):
        return ""  # a folder of that name, unreadable, outside, or too large


def rules_text(data: bytes) -> str:
    """Decode a file of rules. Each may begin with a byte order mark, which git skips."""
    return data.decode("utf-8-sig", "replace")


def _read_rule(line: str) -> _Rule | None:
    """Read a line; None if it matches nothing."""
    pattern = _trim(line.partition("\0")[0])  # where C's strings end
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
        if by_name:
            plain = None if _SPECIAL.search(pattern, 1) or pattern[0] in "?[\\" else pattern
            return _Rule(_name(pattern), ignored, folders_only, True, None, plain)
        names = [*map(_path_name, _split(pattern.removeprefix("/")))]
    except _Unmatchable:
        return None
    depth = None if None in names else len(names) - 1
    return _Rule(path_regex(names), ignored, folders_only, False, depth)


def _trim(line: str) -> str:
    """Remove the spaces at the end, up to one that a backslash keeps."""
    short = line.rstrip(" ")
    if len(short) < len(line) and (len(short) - len(short.rstrip("\\"))) % 2:
        return short + " "
    return short


def _split(pattern: str) -> list[str]:
    """Split at slashes outside of classes, escaped ones too; behind `**`, an escaped one needs a folder."""
    names: list[str] = []
    start = at = 0
    while at < len(pattern):
        if pattern.startswith("\\/", at):
            name = pattern[start:at]
            names += [name, "*"] if _is_any_path(name) else [name]
            at += 1
            start = at + 1
        elif pattern[at] == "\\":
            at += 1
        elif pattern[at] == "[":
            _, at = _class(pattern, at)
        elif pattern[at] == "/":
            names.append(pattern[start:at])
            start = at + 1
        at += 1
    return [*names, pattern[start:]]


def _path_name(name: str) -> str | None:
    return None if _is_any_path(name) else _name(name)


def _is_any_path(name: str) -> bool:
    return len(name) > 1 and not name.strip("*")


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
