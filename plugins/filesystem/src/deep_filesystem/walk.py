"""The files below a directory of the workspace, found with `list_dir`, never twice and never in a circle."""

from __future__ import annotations

import posixpath
from collections.abc import AsyncIterator
from dataclasses import dataclass

from pydantic_ai.workspaces import Workspace

__all__ = ["SKIPPED", "Found", "TooMany", "walk"]

SKIPPED = frozenset({
    ".git", ".hg", ".svn", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", ".venv", "__pycache__",
    "node_modules",
})  # fmt: skip
"""Directories that are not entered where they are found, but as the root; all other hidden ones are."""
MAX_ENTRIES = 500_000
"""Entries that are looked at before a walk is given up, so that a walk of `/` ends."""


class TooMany(RuntimeError):
    """The tree has more entries than are looked at."""


@dataclass(frozen=True)
class Found:
    """A file, or a link to one.

    Attributes:
        path: relative to the root of the walk.
        absolute: where it is; equal to its real path unless it is itself a link.
        size: in bytes, where the backend says.
    """

    path: str
    absolute: str
    size: int | None


async def walk(workspace: Workspace, root: str, *, depth: int | None = None) -> AsyncIterator[Found]:
    """The files below `root`, directory by directory, in no promised order.

    Links to directories are not entered: so no file is found twice, no circle is walked, and nothing outside is
    reached. Names that are not valid Unicode, and directories that may not be read, are left out, as by ripgrep.

    Args:
        workspace: where.
        root: an absolute real path.
        depth: directories below `root` to enter at most; None for all.

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
        for entry in entries:
            if not _printable(entry.name):
                continue
            absolute = posixpath.join(directory, entry.name)
            path = relative + entry.name
            if not entry.is_dir:
                yield Found(path, absolute, entry.size)
            elif entry.name not in SKIPPED and (depth is None or level < depth):
                if await _is_link(workspace, absolute):
                    continue
                todo.append((absolute, path + "/", level + 1))


async def _is_link(workspace: Workspace, absolute: str) -> bool:
    try:
        return await workspace.realpath(absolute) != absolute
    except (OSError, ValueError):
        return True  # a confined backend refuses to say where it leads: outside


def _printable(name: str) -> bool:
    # Undecodable names arrive as surrogates from Python and as U+FFFD from a command's output.
    return "\ufffd" not in name and not any("\ud800" <= char <= "\udfff" for char in name)
