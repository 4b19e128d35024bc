"""The folders of a trial: written before the agent starts, and copied once it has stopped."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from .tasks import Task

__all__ = ["MAX_BYTES", "MAX_FILES", "TooMuch", "copy_workspace", "write_tree"]

MAX_FILES = 20_000
MAX_BYTES = 500_000_000
STEERS_TESTS = (
    "conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "pyproject.toml", "tox.ini", "setup.cfg",
    "sitecustomize.py", "usercustomize.py", ".coveragerc",
)  # fmt: skip
"""Names of files that test tools and interpreters load by themselves, wherever they are."""
STEERS_SUFFIXES = (".pth", ".pyc")
"""Byte code can say that its source, which the judge may write beside it, is not to be looked at."""


class TooMuch(Exception):
    """A workspace is too large to be judged."""


def write_tree(files: Mapping[str, bytes], folder: Path) -> None:
    """Write files below a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        if data.startswith(b"#!"):
            path.chmod(0o755)


def copy_workspace(task: Task, source: Path, target: Path) -> None:
    """Copy what the agent left, without what would steer the judge.

    Files that test tools load by themselves are as the task has them, and new ones are left out, unless the task keeps
    them. Links that lead out of the workspace, devices, sockets and pipes are left out.

    Raises:
        TooMuch: there are more files or bytes than anybody reads.
    """
    target.mkdir(parents=True)
    root = os.path.realpath(source)
    files = size = 0
    for place, folders, names in os.walk(root, followlinks=False):
        relative = os.path.relpath(place, root)
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        folders[:] = [name for name in folders if name not in links]
        for name in (*folders, *links, *names):
            path, inside = os.path.join(place, name), Path(os.path.normpath(os.path.join(relative, name)))
            found = os.lstat(path)
            files += 1
            size += found.st_size if stat.S_ISREG(found.st_mode) else 0
            if files > MAX_FILES or size > MAX_BYTES:
                raise TooMuch(f"the workspace has more than {MAX_FILES:,} files or {MAX_BYTES // 1_000_000} MB")
            if stat.S_ISDIR(found.st_mode):
                (target / inside).mkdir(parents=True, exist_ok=True)
            elif stat.S_ISLNK(found.st_mode):
                if _inside(root, os.path.realpath(path)):
                    os.symlink(os.readlink(path), target / inside)
            elif stat.S_ISREG(found.st_mode) and not _steers(task, inside):
                shutil.copyfile(path, target / inside)
                shutil.copymode(path, target / inside)
    for name, data in task.files.items():
        if _steers(task, Path(name)):
            write_tree({name: data}, target)


def _inside(root: str, path: str) -> bool:
    return path == root or path.startswith(f"{root}{os.sep}")


def _steers(task: Task, path: Path) -> bool:
    return (path.name in STEERS_TESTS or path.suffix in STEERS_SUFFIXES) and path.as_posix() not in task.file.deep.keep
