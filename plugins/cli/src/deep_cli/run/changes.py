"""Find the files that a task changed: compare names, sizes and times of the folder before and after; read no file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = ["FileChange", "Snapshot", "compare", "snapshot"]

SKIPPED = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        ".venv",
        "node_modules",
        "__pycache__",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".tox",
    }
)
"""Folders to skip: data of other tools, often larger than the project."""
IN_GIT = frozenset({"config", "config.worktree", "hooks"})
"""What is not skipped in `.git`: git runs it, or what it names."""
MOST = 50_000
"""Maximum number of files to compare. Listing so many takes about 0.3 s (ext4, warm)."""


@dataclass(frozen=True)
class FileChange:
    """One file that changed.

    Attributes:
        path: relative to the folder, with `/`.
        change: `added`, `changed` or `removed`; `written` if only the tool calls show it.
    """

    path: str
    change: Literal["added", "changed", "removed", "written"]


Snapshot = Mapping[str, tuple[int, int, int]]
"""Relative path -> size, modification time in nanoseconds, inode."""


def snapshot(folder: Path, most: int = MOST) -> Snapshot | None:
    """List every file below `folder`, without following links; None above `most` files.

    Skips folders that cannot be read: tools cannot change files there either.
    """
    files: dict[str, tuple[int, int, int]] = {}
    waiting = [(str(folder), "")]
    while waiting:
        path, prefix = waiting.pop()
        try:
            entries = list(os.scandir(path))
        except OSError:
            continue
        for entry in entries:
            if prefix.endswith(".git/") and entry.name not in IN_GIT:
                continue
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in SKIPPED or entry.name == ".git":
                    waiting.append((entry.path, f"{prefix}{entry.name}/"))
                continue
            try:
                stat = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # removed after it was listed
                continue
            files[prefix + entry.name] = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
            if len(files) > most:
                return None
    return files


def compare(before: Snapshot, after: Snapshot) -> tuple[FileChange, ...]:
    """List the differences, by path."""
    changes: list[FileChange] = []
    for path in sorted(before.keys() | after.keys()):
        if path not in before:
            changes.append(FileChange(path, "added"))
        elif path not in after:
            changes.append(FileChange(path, "removed"))
        elif before[path] != after[path]:
            changes.append(FileChange(path, "changed"))
    return tuple(changes)
