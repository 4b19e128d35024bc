"""List the files below a directory of the workspace with `list_dir`, each once and without cycles."""

from __future__ import annotations

import posixpath
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from pydantic_ai.workspaces import Workspace

from .gitignore import Scope, enter, scope_above, split_ignored
from .globs import Glob, select

__all__ = ["SKIPPED", "Found", "Ignoring", "TooMany", "begin_ignoring", "is_printable", "walk"]

SKIPPED = frozenset({
    ".git", ".hg", ".svn", ".deep", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", ".venv", "__pycache__",
    "node_modules",
})  # fmt: skip
"""Directories that are skipped unless they are the root, or the search begins below them; other hidden ones are not.

`.deep` has the agent's own large results and earlier messages: they would flood its searches of the project."""
MAX_ENTRIES = 500_000
"""Maximum entries of a walk, so that a walk of `/` ends."""


_ANY = Glob("**")


class TooMany(RuntimeError):
    """The tree has too many entries."""


@dataclass(frozen=True)
class Found:
    """A file, or a link to one.

    Attributes:
        path: relative to the root of the walk.
        absolute: its absolute path; equal to its real path unless it is a link itself.
        size: in bytes, if the backend reports it.
    """

    path: str
    absolute: str
    size: int | None


@dataclass
class Ignoring:
    """What a walk leaves out because git ignores it.

    Attributes:
        above: the rules that hold above the root of the walk.
        folders: what was left out, by absolute path; nothing below a folder is counted.
        files: the wanted files among them.
    """

    above: Scope
    folders: list[str] = field(default_factory=list[str])
    files: list[str] = field(default_factory=list[str])

    def clear(self) -> None:
        """Forget what was left out, before another walk."""
        self.folders.clear()
        self.files.clear()


async def begin_ignoring(workspace: Workspace, root: str) -> Ignoring | None:
    """Find the rules for a walk of `root`; None if it is inside a folder that is skipped, or that git ignores."""
    top = await workspace.realpath(await workspace.working_dir())
    if not SKIPPED.isdisjoint(root.removeprefix(top).split("/")):
        return None
    above = await scope_above(workspace, root, top)
    return None if above is None else Ignoring(above)


async def walk(
    workspace: Workspace,
    root: str,
    *,
    depth: int | None = None,
    wanted: Glob | None = None,
    prefix: str = "",
    folders: bool = False,
    ignoring: Ignoring | None = None,
) -> AsyncIterator[Found]:
    """Yield the files below `root`, directory by directory, in no fixed order.

    Links to directories are not followed: so no file appears twice, there are no cycles, and nothing outside is
    reached. Names that are not valid Unicode and unreadable directories are skipped, as by ripgrep.

    Args:
        workspace: the workspace to walk.
        root: an absolute real path.
        depth: maximum directories below `root` to enter; None for all.
        wanted: yield only files that match it.
        prefix: what `wanted` expects before the path relative to `root`, "" or ending in "/".
        folders: yield directories instead of files.
        ignoring: leave out what git ignores, and record it here.

    Raises:
        TooMany: after `MAX_ENTRIES`.
        OSError: `root` itself cannot be listed.
    """
    todo = [(root, "", 0, ignoring.above if ignoring else Scope())]
    seen = 0
    while todo:
        directory, relative, level, scope = todo.pop()
        try:
            entries = await workspace.list_dir(directory)
        except (OSError, ValueError):
            if directory == root:
                raise
            continue
        seen += len(entries)
        if seen > MAX_ENTRIES:
            raise TooMany(f"more than {MAX_ENTRIES:,} files and directories below {root}")
        sizes = {entry.name: entry.size for entry in entries if is_printable(entry.name) and not entry.is_dir}
        below = [entry.name for entry in entries if is_printable(entry.name) and entry.is_dir]
        names = await select(wanted or _ANY, below if folders else [*sizes], (prefix + relative).__add__)
        if ignoring is not None:
            present = {entry.name for entry in entries}
            scope = await enter(workspace, directory.rstrip("/"), present, scope, posixpath.basename(directory))
            below, left_out = await split_ignored(scope, [name for name in below if name not in SKIPPED], is_dir=True)
            if folders or depth is None or level < depth:
                ignoring.folders += [posixpath.join(directory, name) for name in left_out]
            names, left_out = await _split(scope, names, below, folders=folders)
            ignoring.files += [posixpath.join(directory, name) for name in left_out]
        for name in names:
            yield Found(relative + name, posixpath.join(directory, name), sizes.get(name))
        for name in below:
            if name not in SKIPPED and (depth is None or level < depth):
                absolute = posixpath.join(directory, name)
                if not await _is_link(workspace, absolute):
                    todo.append((absolute, f"{relative}{name}/", level + 1, scope))


async def _split(scope: Scope, names: list[str], below: list[str], *, folders: bool) -> tuple[list[str], list[str]]:
    if folders:  # those that are ignored are counted already
        return [name for name in names if name in {*below, *SKIPPED}], []
    return await split_ignored(scope, names, is_dir=False)


async def _is_link(workspace: Workspace, absolute: str) -> bool:
    try:
        return await workspace.realpath(absolute) != absolute
    except (OSError, ValueError):
        return True  # a confined backend denies a link that leads outside


def is_printable(name: str) -> bool:
    """Whether a name of a file is valid Unicode."""
    # Undecodable names are surrogates in Python and U+FFFD in a command's output.
    return "\ufffd" not in name and not any("\ud800" <= char <= "\udfff" for char in name)
