"""Which files a task changed: the folder before and after is compared by names, sizes and times; no file is read."""

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
"""Folders that are not looked into: what tools keep for themselves, often larger than the project."""
MOST = 50_000
"""Files: a folder with more is not compared. This many take about 0.3 s to look at (ext4, warm)."""


@dataclass(frozen=True)
class FileChange:
    """One file that is not as it was.

    Attributes:
        path: relative to the folder, with `/`.
        change: `added`, `changed` or `removed`; `written` where only the tool calls tell.
    """

    path: str
    change: Literal["added", "changed", "removed", "written"]


Snapshot = Mapping[str, tuple[int, int, int]]
"""Relative path -> size, time of the last change in nanoseconds, inode."""


def snapshot(folder: Path, most: int = MOST) -> Snapshot | None:
    """Every file below `folder`, links not followed; None where there are more than `most`.

    A folder that cannot be read is left out: the tools cannot have changed files in it either.
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
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in SKIPPED:
                    waiting.append((entry.path, f"{prefix}{entry.name}/"))
                continue
            try:
                stat = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # gone since it was listed
                continue
            files[prefix + entry.name] = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
            if len(files) > most:
                return None
    return files


def compare(before: Snapshot, after: Snapshot) -> tuple[FileChange, ...]:
    """What is different, by path."""
    changes: list[FileChange] = []
    for path in sorted(before.keys() | after.keys()):
        if path not in before:
            changes.append(FileChange(path, "added"))
        elif path not in after:
            changes.append(FileChange(path, "removed"))
        elif before[path] != after[path]:
            changes.append(FileChange(path, "changed"))
    return tuple(changes)
