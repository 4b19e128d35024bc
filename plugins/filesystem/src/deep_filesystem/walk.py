"""List the files below a directory of the workspace with `list_dir`, each once and without cycles."""

from __future__ import annotations

import posixpath
from collections.abc import AsyncIterator
from dataclasses import dataclass

from pydantic_ai.workspaces import Workspace

from .globs import Glob, select

__all__ = ["SKIPPED", "Found", "TooMany", "walk"]

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


async def walk(
    workspace: Workspace, root: str, *, depth: int | None = None, wanted: Glob | None = None, prefix: str = ""
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

    Raises:
        TooMany: after `MAX_ENTRIES`.
        OSError: `root` itself cannot be listed.
    """
    todo = [(root, "", 0)]
    seen = 0
    while todo:
        directory, relative, level = todo.pop()
        try:
            entries = await workspace.list_dir(directory)
        except (OSError, ValueError):
            if directory == root:
                raise
            continue
        seen += len(entries)
        if seen > MAX_ENTRIES:
            raise TooMany(f"more than {MAX_ENTRIES:,} files and directories below {root}")
        entries = [entry for entry in entries if _printable(entry.name)]
        files = {entry.name: entry for entry in entries if not entry.is_dir}
        names = await select(wanted or _ANY, [*files], (prefix + relative).__add__)
        for name in names:
            yield Found(relative + name, posixpath.join(directory, name), files[name].size)
        for entry in entries:
            if entry.is_dir and entry.name not in SKIPPED and (depth is None or level < depth):
                absolute = posixpath.join(directory, entry.name)
                if not await _is_link(workspace, absolute):
                    todo.append((absolute, f"{relative}{entry.name}/", level + 1))


async def _is_link(workspace: Workspace, absolute: str) -> bool:
    try:
        return await workspace.realpath(absolute) != absolute
    except (OSError, ValueError):
        return True  # a confined backend denies a link that leads outside


def _printable(name: str) -> bool:
    # Undecodable names are surrogates in Python and U+FFFD in a command's output.
    return "\ufffd" not in name and not any("\ud800" <= char <= "\udfff" for char in name)
