"""Copy a folder, and tell its content by a digest."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Collection, Iterator
from hashlib import sha256
from pathlib import Path

__all__ = ["BadFolder", "copy_folder", "digest_of", "files_of"]

MOST_FILES = 10_000
MOST_BYTES = 100_000_000
SKIPPED = frozenset((".git", "__pycache__", "node_modules", ".venv", ".DS_Store"))


class BadFolder(ValueError):
    """A folder that cannot be used; the message says why."""


def files_of(root: Path, skipped: Collection[str] = SKIPPED) -> Iterator[tuple[str, Path]]:
    """Yield (path below the folder, file) in a stable order. A link inside the folder counts as what it leads to.

    Args:
        root: the folder.
        skipped: names of files and folders that are left out. A copy has none of them: there, nothing is.

    Raises:
        BadFolder: a link leads out of it, or it is too large.
    """
    top, count, size = root.resolve(), 0, 0
    for relative, path in _walk(top, top, "", (), skipped):
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise BadFolder(f"{relative} is not a file; remove it")
        count, size = count + 1, size + found.st_size
        if count > MOST_FILES or size > MOST_BYTES:
            raise BadFolder(f"{root} has more than {MOST_FILES:,} files or {MOST_BYTES:,} bytes")
        yield relative, path


def _walk(
    top: Path, folder: Path, relative: str, above: tuple[Path, ...], skipped: Collection[str]
) -> Iterator[tuple[str, Path]]:
    """Yield (path below the folder, resolved path) of everything that is no folder."""
    for name in sorted(os.listdir(folder)):
        if name in skipped:
            continue
        below = f"{relative}{name}"
        try:
            path = (folder / name).resolve(strict=True)
        except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links, before Python 3.13
            raise BadFolder(f"{below} cannot be read: {error}") from error
        if not path.is_relative_to(top):
            raise BadFolder(f"{below} is a link out of the folder; remove it")
        if not path.is_dir():
            yield below, path
        elif path in (*above, folder, top):
            raise BadFolder(f"{below} is a link to a folder that it is in; remove it")
        else:
            yield from _walk(top, path, f"{below}/", (*above, folder), skipped)


def digest_of(root: Path, skipped: Collection[str] = SKIPPED) -> str:
    """Return a digest of every file that `files_of` finds: its path, its content, and whether it can be executed."""
    whole = sha256()
    for relative, path in files_of(root, skipped):
        runs = "x" if path.stat().st_mode & 0o100 else "-"
        whole.update(
            f"{relative}\0{runs}\0{sha256(path.read_bytes()).hexdigest()}\n".encode("utf-8", "surrogateescape")
        )
    return whole.hexdigest()


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder's files; links become what they lead to."""
    target.mkdir(parents=True)
    for relative, path in files_of(source):
        place = target / relative
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
