"""Walk the files below a directory of the workspace, each once and without cycles: the one walk of glob and grep.

On a directory of this machine, `host` reads the folders in a thread. Elsewhere `list_dir` does. What is found in a
folder is decided here for both.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

from anyio import to_thread
from pydantic_ai.workspaces import Workspace

from .gitignore import Scope, enter, scope_above, split_ignored
from .globs import Glob

__all__ = [
    "SKIPPED",
    "Entries",
    "Found",
    "LeftOut",
    "Sieve",
    "TooMany",
    "begin_ignoring",
    "go_on",
    "is_printable",
    "split_printable",
    "walk",
]

SKIPPED = frozenset({
    ".git", ".hg", ".svn", ".deep", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", ".venv", "__pycache__",
    "node_modules",
})  # fmt: skip
"""Directories that are skipped unless they are the root, or the search begins below them; other hidden ones are not.

`.deep` has the agent's own large results and earlier messages: they would flood its searches of the project."""
MAX_ENTRIES = 500_000
"""Maximum entries of a walk, so that a walk of `/` ends."""
ALIKE = 1_000
"""Maximum entries of other case to look for."""
INLINE_STEPS = 250_000
"""Maximum product of the patterns' and the names' lengths for the event loop: about a millisecond at worst."""


class TooMany(RuntimeError):
    """The tree has too many entries."""


class Found(NamedTuple):
    """A file, or a link to one.

    Attributes:
        path: relative to the root of the walk.
        absolute: its absolute path; equal to its real path unless it is a link itself.
        size: in bytes, if the backend reports it.
    """

    path: str
    absolute: str
    size: int | None


class Entries(NamedTuple):
    """The names of a folder's entries, by kind.

    Attributes:
        files: what is no folder and no link.
        folders: real ones, or of unknown kind.
        links: links to files, broken links, links that lead outside.
        linked: links to folders, which are not entered.
    """

    files: Sequence[str]
    folders: Sequence[str]
    links: Sequence[str] = ()
    linked: Sequence[str] = ()


@dataclass
class LeftOut:
    """What a walk leaves out, or a search does not read. Paths are absolute.

    Attributes:
        above: what git ignores is left out, by the rules above the root of the walk; None to leave out nothing.
        folders: folders that git ignores; nothing below one is counted.
        files: wanted files that git ignores.
        unreadable: folders and files that could not be read.
        unnamed: entries of which the name is not UTF-8.
        linked: links to folders.
        links: links to wanted files, which grep does not read.
        binary: how many files are binary.
        more_binary: whether there may be more.
        large: how many files are too large.
        wanted: how many entries a walk took: these are not left out.
        alike: if it took none, entries that are wanted but for the case of their letters; not all of them.
    """

    above: Scope | None = None
    folders: list[str] = field(default_factory=list[str])
    files: list[str] = field(default_factory=list[str])
    unreadable: list[str] = field(default_factory=list[str])
    unnamed: list[str] = field(default_factory=list[str])
    linked: list[str] = field(default_factory=list[str])
    links: list[str] = field(default_factory=list[str])
    binary: int = 0
    more_binary: bool = False
    large: int = 0
    wanted: int = 0
    alike: list[str] = field(default_factory=list[str])

    def clear(self) -> None:
        """Forget what was left out, before another walk."""
        for paths in (self.folders, self.files, self.unreadable, self.unnamed, self.linked, self.links, self.alike):
            paths.clear()
        self.binary = self.large = self.wanted = 0
        self.more_binary = False


async def begin_ignoring(workspace: Workspace, root: str) -> Scope | None:
    """Find the rules above a walk of `root`; None if it is inside a folder that is skipped, or that git ignores."""
    top = await workspace.realpath(await workspace.working_dir())
    if not SKIPPED.isdisjoint(root.removeprefix(top).split("/")):
        return None
    return await scope_above(workspace, root, top)


@dataclass
class Sieve:
    """What a walk looks for.

    Attributes:
        left: leave out what git ignores, and record it here, with all else that is left out.
        wanted: take only files that match it.
        prefix: what `wanted` expects before the path relative to the root, "" or ending in "/".
        depth: maximum directories below the root to enter; None for all.
        folders: take directories instead of files.
        links: take links to files; else record them.
        most: raise `TooMany` after this many entries.
        entries: how many there were until now.
        skipped: which of `SKIPPED` there were.
        gone: names of folders that the rules at the root ignore.
        kept: which of them there are nevertheless.
    """

    left: LeftOut
    wanted: Glob | None = None
    prefix: str = ""
    depth: int | None = None
    folders: bool = False
    links: bool = True
    most: int = field(default_factory=lambda: MAX_ENTRIES)
    entries: int = 0
    skipped: set[str] = field(default_factory=set[str])
    gone: frozenset[str] = frozenset()
    kept: set[str] = field(default_factory=set[str])

    @property
    def above(self) -> Scope:
        """The rules above the root."""
        return self.left.above or Scope()

    @property
    def ignores(self) -> bool:
        """Whether git's rules hold."""
        return self.left.above is not None

    def count(self, entries: int, root: str) -> None:
        """Count the entries of a folder.

        Raises:
            TooMany: with these.
        """
        self.entries += entries
        if self.entries > self.most:
            raise TooMany(f"more than {self.most:,} files and directories below {root}")

    def sift(
        self, absolute: str, relative: str, entries: Entries, scope: Scope, check: Callable[[], None]
    ) -> tuple[Sequence[str], Sequence[str]]:
        """Return the wanted names of a folder, and its folders to enter. Record what is left out.

        Args:
            absolute: the folder, with a slash at its end.
            relative: the same below the root: "" or ending in "/".
            entries: its entries, with names that are Unicode.
            scope: the rules that hold in it.
            check: called all the time; what it raises stops it.
        """
        left = self.left
        deeper = self.depth is None or relative.count("/") < self.depth
        below = entries.folders
        if below and not SKIPPED.isdisjoint(below):
            self.skipped.update(SKIPPED.intersection(below))
            below = [name for name in below if name not in SKIPPED]
        candidates, links = (entries.folders, entries.linked) if self.folders else (entries.files, entries.links)
        candidates = [*candidates, *links] if links else candidates
        names = self._select(self.wanted, self.prefix + relative, candidates, check)
        if not names and not left.wanted and len(left.alike) < ALIKE:
            left.alike += [absolute + name for name in self._alike(absolute, relative, candidates, scope, check)]
        if scope.size and self.ignores:
            kept, ignored = split_ignored(scope, absolute, below, check, is_dir=True)
            if self.folders:
                gone = {*ignored}
                names = [name for name in names if name not in gone]
            else:
                names, files = split_ignored(scope, absolute, names, check, is_dir=False)
                left.files += [absolute + name for name in files]
            if self.folders or deeper:
                left.folders += [absolute + name for name in ignored]
            below = kept
        if not self.gone.isdisjoint(below):
            self.kept.update(self.gone.intersection(below))
        if deeper:
            left.linked += [absolute + name for name in entries.linked]
        if not self.links and entries.links:
            links = {*entries.links}
            left.links += [absolute + name for name in names if name in links]
            names = [name for name in names if name not in links]
        left.wanted += len(names)
        return names, below if deeper else []

    def _select(
        self, wanted: Glob | None, folder: str, names: Sequence[str], check: Callable[[], None]
    ) -> Sequence[str]:
        if wanted is None or not names:
            return names
        step = max(1, 40 * INLINE_STEPS // (wanted.size * (len(folder) + 40)))
        if len(names) <= step:
            return wanted.select(folder, names)
        found: list[str] = []
        for start in range(0, len(names), step):
            check()
            found += wanted.select(folder, names[start : start + step])
        return found

    def _alike(
        self, absolute: str, relative: str, names: Sequence[str], scope: Scope, check: Callable[[], None]
    ) -> Sequence[str]:
        """Return the names that are wanted but for the case of their letters."""
        if self._lowered is None or not names:
            return []
        found = {*self._select(self._lowered, (self.prefix + relative).lower(), [*map(str.lower, names)], check)}
        alike = [name for name in names if name.lower() in found] if found else []
        return split_ignored(scope, absolute, alike, check, is_dir=self.folders)[0] if self.ignores else alike

    @cached_property
    def _lowered(self) -> Glob | None:
        return self.wanted and self.wanted.lowered()

    def is_cheap(self, entries: Entries, scope: Scope, relative: str) -> bool:
        """Whether `sift` may run in the event loop."""
        size = scope.size + (self.wanted.size if self.wanted else 0)
        return size * (len(entries.files) + len(entries.folders)) * (len(relative) + 20) < INLINE_STEPS


async def walk(workspace: Workspace, root: str, sieve: Sieve) -> AsyncIterator[Found]:
    """Yield the wanted files below `root` by `list_dir`, directory by directory, in no fixed order.

    Links to directories are not followed: so no file appears twice, there are no cycles, and nothing outside is
    reached.

    Args:
        workspace: the workspace to walk.
        root: an absolute real path.
        sieve: what to look for.

    Raises:
        TooMany: after `MAX_ENTRIES`.
        OSError: `root` itself cannot be listed.
    """
    left = sieve.left
    todo = [(root, "", sieve.above)]
    while todo:
        directory, relative, scope = todo.pop()
        if relative and await _is_link(workspace, directory):
            left.linked.append(directory)
            continue
        try:
            listed = await workspace.list_dir(directory)
        except (OSError, ValueError):
            if directory == root:
                raise
            left.unreadable.append(directory)
            continue
        sieve.count(len(listed), root)
        absolute = directory.rstrip("/") + "/"
        names = split_printable([entry.name for entry in listed], absolute, left)
        sizes = {entry.name: entry.size for entry in listed if not entry.is_dir}
        entries = Entries([name for name in names if name in sizes], [name for name in names if name not in sizes])
        if sieve.ignores:
            scope = await enter(workspace, absolute, {*names}, scope)
        sift = partial(sieve.sift, absolute, relative, entries, scope, go_on)
        names, below = sift() if sieve.is_cheap(entries, scope, relative) else await to_thread.run_sync(sift)
        for name in names:
            yield Found(relative + name, absolute + name, sizes.get(name))
        todo += [(absolute + name, f"{relative}{name}/", scope) for name in below]


def go_on() -> None:
    """Never stop: a walk by `list_dir` ends between two folders."""


async def _is_link(workspace: Workspace, absolute: str) -> bool:
    try:
        return await workspace.realpath(absolute) != absolute
    except (OSError, ValueError):
        return True  # a confined backend denies a link that leads outside


def split_printable(names: Sequence[str], folder: str, left: LeftOut) -> Sequence[str]:
    """Return the names that are valid Unicode; record the others."""
    if "".join(names).isascii():
        return names
    left.unnamed += [folder + name for name in names if not is_printable(name)]
    return [name for name in names if is_printable(name)]


def is_printable(name: str) -> bool:
    """Whether a name of a file is valid Unicode."""
    # Undecodable names are surrogates in Python and U+FFFD in a command's output.
    return name.isascii() or ("\ufffd" not in name and not any("\ud800" <= char <= "\udfff" for char in name))
