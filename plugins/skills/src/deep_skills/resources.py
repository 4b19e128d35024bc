"""The files beside a SKILL.md: list them, and read one without leaving the skill's folder."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator

from .discovery import FILE_NAMES, SKIPPED
from .reading import TooLong, read_inside

__all__ = ["MOST_BYTES", "EscapesSkill", "clean_path", "list_resources", "read_resource"]

MOST_BYTES = 16 * 1024 * 1024
"""Maximum bytes of a resource; a larger one is for a command, not for a conversation."""
MOST_LISTED = 500
MOST_DEPTH = 8


class EscapesSkill(ValueError):
    """The path leads out of the skill's folder."""


def clean_path(path: str) -> str:
    """Normalize a resource's path, relative to the skill, with `/`.

    Raises:
        EscapesSkill: it is absolute, leads out with `..`, or is not a path.
    """
    posix = path.strip().replace("\\", "/")
    clean = posixpath.normpath(posix) if posix else "."
    drive = len(clean) > 1 and clean[1] == ":"
    if "\0" in clean or clean == "." or clean.startswith("/") or clean.split("/")[0] == ".." or drive:
        raise EscapesSkill(f"{path!r} is not a path inside the skill; give one like references/guide.md")
    return clean


def list_resources(folder: str) -> list[str]:
    """List files of the skill, without SKILL.md, sorted; at most 500. Links to folders are not followed."""
    return sorted(_files(folder, "", 0, [0]))


def _files(folder: str, prefix: str, depth: int, count: list[int]) -> Iterator[str]:
    try:
        with os.scandir(os.path.join(folder, prefix)) as iterator:
            entries = sorted(iterator, key=lambda entry: entry.name)
    except OSError:
        return  # gone or unreadable: nothing to list
    for entry in entries:
        path = f"{prefix}{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            if depth < MOST_DEPTH and entry.name not in SKIPPED and not entry.name.startswith("."):
                yield from _files(folder, f"{path}/", depth + 1, count)
        elif path not in FILE_NAMES and not entry.name.startswith(".") and count[0] < MOST_LISTED:
            if entry.is_symlink() and not _is_inside(folder, path):
                continue
            count[0] += 1
            yield path


def _is_inside(folder: str, path: str) -> bool:
    real, root = os.path.realpath(os.path.join(folder, path)), os.path.realpath(folder)
    return real.startswith(root.rstrip(os.sep) + os.sep) and os.path.isfile(real)


def read_resource(folder: str, path: str, limit: int = MOST_BYTES) -> bytes:
    """Read one file of the skill.

    Args:
        folder: the skill's folder.
        path: relative to it.
        limit: maximum bytes.

    Raises:
        EscapesSkill: it leads out of the folder, by `..`, absolutely or through a link.
        FileNotFoundError: no such file.
        OSError: it cannot be read, or is not a regular file.
        TooLong: see `limit`.
    """
    root = os.path.realpath(folder)
    real = os.path.realpath(os.path.join(root, *clean_path(path).split("/")))
    if not real.startswith(root.rstrip(os.sep) + os.sep):
        raise EscapesSkill(f"{path!r} leads out of the skill's folder")
    if os.path.isdir(real):
        raise IsADirectoryError(f"{path} is a folder")
    try:
        return read_inside(root, tuple(os.path.relpath(real, root).split(os.sep)), limit)
    except TooLong as error:
        raise TooLong(f"{path}: {error}") from None
