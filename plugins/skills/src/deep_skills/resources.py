"""The files beside a SKILL.md: which there are, and reading one without ever leaving the skill's folder."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator

from .discovery import FILE_NAMES, SKIPPED
from .reading import TooLong, read_inside

__all__ = ["MOST_BYTES", "EscapesSkill", "clean_path", "list_resources", "read_resource"]

MOST_BYTES = 16 * 1024 * 1024
"""Bytes of a resource that is read; a larger one is for a command, not for a conversation."""
MOST_LISTED = 500
MOST_DEPTH = 8


class EscapesSkill(ValueError):
    """The path leads out of the skill's folder."""


def clean_path(path: str) -> str:
    """A resource's path, relative to the skill, `/` between its parts.

    Raises:
        EscapesSkill: absolute, with `..` that leads out, or not a path at all.
    """
    wanted = path.strip().replace("\\", "/")
    clean = posixpath.normpath(wanted) if wanted else "."
    drive = len(clean) > 1 and clean[1] == ":"
    if "\0" in clean or clean == "." or clean.startswith("/") or clean.split("/")[0] == ".." or drive:
        raise EscapesSkill(f"{path!r} is not a path inside the skill; give one like references/guide.md")
    return clean


def list_resources(folder: str) -> list[str]:
    """Files of the skill, SKILL.md left out, sorted; at most 500. Links are not followed into folders."""
    return sorted(_files(folder, "", 0, [0]))


def _files(folder: str, prefix: str, depth: int, count: list[int]) -> Iterator[str]:
    try:
        with os.scandir(os.path.join(folder, prefix)) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
    except OSError:
        return  # gone, or not ours to read: there is nothing to offer
    for entry in entries:
        path = f"{prefix}{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            if depth < MOST_DEPTH and entry.name not in SKIPPED and not entry.name.startswith("."):
                yield from _files(folder, f"{path}/", depth + 1, count)
        elif path not in FILE_NAMES and not entry.name.startswith(".") and count[0] < MOST_LISTED:
            if entry.is_symlink() and not _contained(folder, path):
                continue
            count[0] += 1
            yield path


def _contained(folder: str, path: str) -> bool:
    real, root = os.path.realpath(os.path.join(folder, path)), os.path.realpath(folder)
    return real.startswith(root.rstrip(os.sep) + os.sep) and os.path.isfile(real)


def read_resource(folder: str, path: str, limit: int = MOST_BYTES) -> bytes:
    """One file of the skill.

    Args:
        folder: the skill's.
        path: relative to it.
        limit: bytes.

    Raises:
        EscapesSkill: it leads out of the folder, by `..`, absolutely or through a link.
        FileNotFoundError: there is no such file.
        OSError: it cannot be read, or is no regular file.
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
