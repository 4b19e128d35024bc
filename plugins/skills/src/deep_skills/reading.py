"""Reading from disk: the frontmatter and not a block more; files of a skill and never one outside it."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from .split import head_in

__all__ = ["HEAD_LIMIT", "TooLong", "read_head", "read_inside"]

BLOCK = 4_096
"""Bytes of one read: a frontmatter of the usual size is one block, whatever follows it."""
HEAD_LIMIT = 65_536
"""Bytes of a frontmatter; a longer one is refused."""

_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
# A name may have become a link since it was looked at, or a pipe that would be waited for without end.
_SAFE = _FLAGS | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class TooLong(ValueError):
    """More bytes than the limit; the message says how many."""


def read_head(path: str, *, strict: bool) -> bytes:
    """The beginning of a SKILL.md, read in blocks of 4 KB until its frontmatter ends.

    Raises:
        OSError: it cannot be read, or is not a regular file.
        TooLong: no end of the frontmatter in the first 64 KB.
    """
    descriptor = os.open(path, _SAFE)
    try:
        _must_be_regular(descriptor, path)
        data = b""
        while True:
            block = os.read(descriptor, BLOCK)
            data += block
            outcome, end = head_in(data, strict=strict, eof=not block)
            if outcome == "whole":
                return data[:end]
            if outcome == "none":
                return data
            if len(data) >= HEAD_LIMIT:
                raise TooLong(f"no end of the frontmatter in the first {HEAD_LIMIT:,} bytes")
    finally:
        os.close(descriptor)


def read_inside(folder: str, parts: tuple[str, ...], limit: int) -> bytes:
    """A file below a folder.

    Args:
        folder: resolved, without symbolic links.
        parts: the way down, from the folder; resolved too.
        limit: bytes; a larger file is refused.

    Raises:
        OSError: it cannot be read, is not a regular file, or a part of the way has become a link.
        TooLong: see `limit`.
    """
    if os.open not in os.supports_dir_fd:  # Windows: the way was resolved just before; a swap is not seen
        descriptor = os.open(Path(folder, *parts), _SAFE)
        return _all(descriptor, parts[-1], limit)
    directory = os.open(folder, _FLAGS | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            inner = os.open(part, _SAFE | os.O_DIRECTORY, dir_fd=directory)
            os.close(directory)
            directory = inner
        descriptor = os.open(parts[-1], _SAFE, dir_fd=directory)
    finally:
        os.close(directory)
    return _all(descriptor, parts[-1], limit)


def _all(descriptor: int, name: str, limit: int) -> bytes:
    with open(descriptor, "rb") as file:
        size = _must_be_regular(descriptor, name)
        if size > limit:
            raise TooLong(f"{size:,} bytes, the limit is {limit:,}")
        return file.read(limit)


def _must_be_regular(descriptor: int, path: str) -> int:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    return status.st_size
