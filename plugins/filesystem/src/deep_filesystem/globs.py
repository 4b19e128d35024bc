"""Glob patterns for paths with slashes, the same on every backend."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from itertools import takewhile

from .quoting import quoted

__all__ = [
    "BadGlob",
    "Glob",
    "basename_or_path",
    "matching_names",
    "name_regex",
    "names_regex",
    "path_first",
    "path_regex",
]

MAX_ALTERNATIVES = 256
"""Maximum number of patterns that the braces expand to, and of braces to expand."""
MAX_PATTERN, MAX_EXPANDED = 1_000, 4_000
"""Maximum characters of a pattern, and of all that its braces expand to."""
_SPECIAL = re.compile(r"[*?\[{]")
_BRACKET = re.compile(r"(?<!\\)[\[\]]")
_MAY_MEAN = re.compile(r"[*?\[\]{},\\]")
_ESCAPED = re.compile(r"\\([*?\[\]{},\\])")
_NOTHING = re.compile(r"/(?:\.?/)+")
_ONE = re.compile(r"\[([*?\[\]{},\\])\]")


class BadGlob(ValueError):
    """The pattern is malformed; the message says why."""

    def __init__(self, pattern: str, why: str) -> None:
        super().__init__(f"'{quoted(pattern)}': {why}")


class Glob:
    """A compiled pattern: `*` and `?` within a name, `**` over any number of directories, `[a-z]`, `[!a]`, `{a,b}`.

    Of several patterns, one has to match. Wildcards match a leading dot too. A backslash before a special character
    takes its meaning, as a class of that character alone does (`[[]`). The two forms of accents are alike.

    Matching takes at most `size` times the path's length in steps, because no part of the regular expression is tried
    again once it matched. The text between two stars has a fixed length, and so has the path between two `**` in
    names: if it matches somewhere, its first place leaves the most for the rest. Only the last such part
    must be at the end.

    Args:
        patterns: the patterns.

    Attributes:
        patterns: the patterns.
        prefix: the first directories of all patterns, as far as they are plain names; "" or ending in "/".
        depth: maximum directories below `prefix` in a match; None with `**`.
        size: characters of the pattern with its braces expanded.
        names: if the folder decides by `prefix` and `depth` alone, the patterns of the name: `{src/**/*.py}` has
            `*.py`; None otherwise.

    Raises:
        BadGlob: unbalanced braces or brackets, too many alternatives, too long.
    """

    def __init__(self, *patterns: str) -> None:
        self.patterns = patterns
        self._accents = not all(map(str.isascii, patterns))
        if max(map(len, patterns)) > MAX_PATTERN:
            raise BadGlob(patterns[0], f"a glob has at most {MAX_PATTERN:,} characters")
        plain = [_ESCAPED.sub(r"[\1]", _NOTHING.sub("/", _composed(pattern))) for pattern in patterns]
        self.prefix = posixpath.commonprefix(
            ["".join(f"{name}/" for name in takewhile(bool, map(_literal, each.split("/")[:-1]))) for each in plain]
        )
        self.prefix = self.prefix[: self.prefix.rfind("/") + 1]
        alternatives = [alternative for each in plain for alternative in _expand(each)]
        self.size = sum(map(len, alternatives))
        if self.size > MAX_EXPANDED:
            raise BadGlob(patterns[0], f"the braces expand to more than {MAX_EXPANDED:,} characters")
        self.depth = None
        if not any("**" in alternative for alternative in alternatives):
            self.depth = max(alternative.count("/") for alternative in alternatives) - self.prefix.count("/")
        self._regex = re.compile("|".join(f"(?:{_translate(alternative)})" for alternative in alternatives), re.S)
        self.names = _last_names(alternatives, self.prefix)
        self._names = self._ends = None
        if self.names is None or "*" in self.names:
            return
        if all(name[:1] == "*" and not _MAY_MEAN.search(name[1:]) for name in self.names):
            self._ends = tuple(name[1:] for name in self.names)
        else:
            self._names = names_regex([_name(name, patterns[0]) for name in self.names])

    def lowered(self) -> Glob | None:
        """Return the pattern in lower case, for paths in lower case; None if it is malformed then, as `[Z-a]` is."""
        try:
            return Glob(*map(str.lower, self.patterns))
        except BadGlob:
            return None

    def matches(self, path: str) -> bool:
        """Whether a relative path matches."""
        return self._regex.fullmatch(_composed(path) if self._accents else path) is not None

    def select(self, folder: str, names: Sequence[str]) -> list[str]:
        """List the entries of a folder that match, in their order.

        Args:
            folder: its path, "" or ending in "/".
            names: of its entries.
        """
        if not self._accents:
            return self._select(folder, names)
        plain = [*map(_composed, names)]
        found = {*self._select(_composed(folder), plain)}
        return [name for name, written in zip(names, plain, strict=True) if written in found]

    def _select(self, folder: str, names: Sequence[str]) -> list[str]:
        if self.names is None:
            return [name for name in names if self.matches(folder + name)]
        if not folder.startswith(self.prefix) or (self.depth is not None and folder != self.prefix):
            return []
        if self._ends is not None:  # `*.py` and its like, three times as fast
            return [name for name in names if name.endswith(self._ends)]
        return matching_names(self._names, names) if self._names is not None else [*names]


def basename_or_path(*patterns: str) -> Glob:
    """A filter like ripgrep's `-g`: without a slash it matches the name at any depth, with one the path.

    With a slash at its end it matches all files below such a directory.

    Raises:
        BadGlob: as `Glob`; also for a leading `!`, which excludes files in ripgrep.
    """
    if patterns[0].startswith("!"):
        raise BadGlob(patterns[0], "a glob cannot exclude files: name those to search, such as *.py")
    return Glob(*map(_file_filter, patterns))


def _file_filter(pattern: str) -> str:
    inside = "**" if pattern.endswith("/") else ""
    return f"{pattern.lstrip('/') if '/' in pattern[:-1] else f'**/{pattern}'}{inside}"


async def path_first(pattern: str, exists: Callable[[str], Awaitable[bool]]) -> list[str]:
    """Return the patterns that a pattern means in which brackets may be those of a name.

    The first names are escaped as far as they exist as written: `app/[id]/*.tsx` is about that directory. In others, as
    in `**/[id]/*.tsx`, brackets stand for themselves too.

    Frameworks name files so, and a model that writes such a path means the file (google-gemini/gemini-cli#8596).

    Args:
        pattern: a pattern of `Glob`.
        exists: whether a path, relative like the pattern, exists.
    """
    names = pattern.split("/")
    begin = 0
    for end in range(len(names), 0, -1):
        if _SPECIAL.search(names[end - 1]) and names[end - 1].strip("*") and await exists("/".join(names[:end])):
            names[:end] = (re.sub(r"[*?\[\]{},\\]", r"\\\g<0>", name) for name in names[:end])
            begin = end
            break
    rest = "/".join(names[begin:])
    as_written = _BRACKET.sub(r"\\\g<0>", rest)
    return (
        ["/".join([*names[:begin], each]) for each in dict.fromkeys([rest, as_written])] if rest else ["/".join(names)]
    )


def _composed(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def names_regex(regexes: Sequence[str]) -> re.Pattern[str]:
    """Compile the regular expressions of names for `matching_names`."""
    return re.compile(f"/({'|'.join(regexes)})(?=/)", re.S)


def matching_names(regex: re.Pattern[str], names: Sequence[str]) -> list[str]:
    """List the names that match, in their order: in one call, because one for each name takes five times as long.

    Args:
        regex: of `names_regex`.
        names: names without a slash.
    """
    return regex.findall(f"/{'/'.join(names)}/") if names else []


def _literal(name: str) -> str | None:
    """Return what a name without wildcards stands for; None for one with wildcards."""
    return None if _SPECIAL.search(_ONE.sub("", name)) else _ONE.sub(r"\1", name)


def _last_names(alternatives: Sequence[str], prefix: str) -> list[str] | None:
    """Return the name of each alternative, if they are alike but for it: as `Glob.names`."""
    names: list[str] = []
    between: set[tuple[str, ...]] = set()
    for alternative in alternatives:
        *folders, name = _split(alternative)
        if name == "**":
            folders, name = [*folders, "**"], "*"
        between.add(tuple(folders[prefix.count("/") :]))
        names.append(name)
    return names if between <= {()} or between <= {("**",)} else None


def _expand(pattern: str) -> list[str]:
    done: list[str] = []
    todo = [pattern]
    expanded = 0
    while todo:
        if len(todo) + len(done) > MAX_ALTERNATIVES or expanded > MAX_ALTERNATIVES:
            raise BadGlob(pattern, f"the braces have more than {MAX_ALTERNATIVES} alternatives")
        current = todo.pop()
        span = _braces(current, pattern)
        if span is None:
            done.append(current)
            continue
        expanded += 1
        start, end, parts = span
        todo += [current[:start] + part + current[end:] for part in parts]
    return done


def _braces(text: str, pattern: str) -> tuple[int, int, list[str]] | None:
    """Find the first outermost `{a,b}`: its start, the position after it, its alternatives."""
    depth, start, mark, at = 0, -1, -1, 0
    parts: list[str] = []
    while at < len(text):
        char = text[at]
        if char == "[":
            at = _class_end(text, at, pattern)
        elif char == "{":
            if not depth:
                start, mark = at, at + 1
            depth += 1
        elif char == "," and depth == 1:
            parts.append(text[mark:at])
            mark = at + 1
        elif char == "}" and depth:
            depth -= 1
            if not depth:
                return start, at + 1, [*parts, text[mark:at]]
        at += 1
    if depth:
        raise BadGlob(pattern, "a { without }")
    return None


def _class_end(text: str, start: int, pattern: str) -> int:
    at = start + 1
    if at < len(text) and text[at] in "!^":
        at += 1
    end = text.find("]", at + 1)
    if end < 0:
        raise BadGlob(pattern, "a [ without ]")
    return end


def _translate(pattern: str) -> str:
    names = pattern.split("/") if "[" not in pattern else _split(pattern)
    return path_regex([None if name == "**" else _name(name, pattern) for name in names])


def path_regex(names: Sequence[str | None]) -> str:
    """Join the regular expressions of a path's names; None stands for `**`, any number of directories."""
    groups: list[list[str]] = [[]]
    for name in names:
        if name is None:
            groups.append([])
        else:
            groups[-1].append(name)
    if len(groups) == 1:
        return "/".join(groups[0])
    first, *middle, last = groups
    out = [f"{name}/" for name in first]
    out += [f"(?>(?:[^/]++/)*?{''.join(f'{name}/' for name in group)})" for group in middle if group]
    out.append(f"(?:[^/]++/)*{'/'.join(last)}" if last else ".*")
    return "".join(out)


def _split(pattern: str) -> list[str]:
    """Split at slashes outside of classes."""
    names: list[str] = []
    start = at = 0
    while at < len(pattern):
        if pattern[at] == "[":
            at = _class_end(pattern, at, pattern)
        elif pattern[at] == "/":
            names.append(pattern[start:at])
            start = at + 1
        at += 1
    return [*names, pattern[start:]]


def _name(name: str, pattern: str) -> str:
    """Translate the pattern of one name: parts of a fixed length, with stars between them."""
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
            end = _class_end(name, at, pattern)
            parts[-1].append(_class(name[at + 1 : end], pattern))
            at = end
        else:
            parts[-1].append(re.escape(char))
        at += 1
    return name_regex(parts)


def name_regex(parts: Sequence[Sequence[str]]) -> str:
    """Join the regular expressions of one name: each list is a part of a fixed length, with a star between two."""
    first, *rest = ("".join(part) for part in parts)
    if not rest:
        return first
    *middle, last = rest
    end = f"[^/]*{last}(?=/|\\Z)" if last else "[^/]*+"
    return f"(?>{first}{''.join(f'(?>[^/]*?{part})' for part in middle)}{end})"


def _class(body: str, pattern: str) -> str:
    negated = body[0] in "!^"
    rest = body[1:] if negated else body
    items: list[str] = []
    at = 0
    while at < len(rest):
        low = rest[at]
        if rest[at + 1 : at + 2] == "-" and at + 2 < len(rest):
            high = rest[at + 2]
            if high < low:
                raise BadGlob(pattern, f"the range {low}-{high} is reversed")
            items.append(f"{re.escape(low)}-{re.escape(high)}")
            at += 3
        else:
            items.append(re.escape(low))
            at += 1
    return f"(?!/)[{'^' if negated else ''}{''.join(items)}]"
