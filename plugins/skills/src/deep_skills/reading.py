"""Read from disk: the frontmatter without the body; files of a skill but none outside."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from .split import head_in

__all__ = ["HEAD_LIMIT", "TooLong", "read_head", "read_inside"]

BLOCK = 4_096
"""Bytes per read: one block for a frontmatter of the usual size."""
HEAD_LIMIT = 65_536
"""Maximum bytes of a frontmatter."""

_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
# A name may have become a link meanwhile, or a pipe that would block.
_SAFE = _FLAGS | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class TooLong(ValueError):
    """More bytes than the limit; the message has the number."""


def read_head(path: str, *, strict: bool) -> bytes:
    """Read the beginning of a SKILL.md in blocks of 4 KB until its frontmatter ends.

    Raises:
        OSError: it cannot be read, or is not a regular file.
        TooLong: the frontmatter does not end in the first 64 KB.
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
    """Read a file below a folder.

    Args:
        folder: resolved, without symbolic links.
        parts: the path from the folder; resolved too.
        limit: maximum bytes.

    Raises:
        OSError: it cannot be read, is not a regular file, or a part of the path became a link.
        TooLong: see `limit`.
    """
    if os.open not in os.supports_dir_fd:  # Windows: resolved just before; a swap is not detected
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
