"""Optional protocols in addition to Pydantic AI's `Supports*`: read a range, write a stream, write only if unchanged.

Structural, checked at run time with `isinstance`; a backend has those whose promises it can keep.
Paths are absolute POSIX paths, and errors are those of `pydantic_ai.workspaces.SupportsFilesystem`.
"""

from __future__ import annotations

import os
import string
from collections.abc import AsyncIterable
from typing import Protocol, runtime_checkable

__all__ = [
    "SupportsGuardedWrite",
    "SupportsProtect",
    "SupportsRangeRead",
    "SupportsStreamWrite",
    "check_expected",
    "check_range",
]


def check_range(start: int, length: int) -> None:
    """Reject a negative `start` or `length` with a `ValueError`, as `SupportsRangeRead` requires."""
    if start < 0 or length < 0:
        raise ValueError(f"start and length are bytes and cannot be negative, got {start} and {length}")


def check_expected(expected: str | None) -> None:
    """Reject anything but a SHA-256 in hexadecimal with a `ValueError`, as `SupportsGuardedWrite` requires."""
    if expected is not None and (len(expected) != 64 or not set(expected) <= set(string.hexdigits)):
        raise ValueError(f"expected must be a SHA-256 in hexadecimal (64 digits) or None, got {expected!r}")


@runtime_checkable
class SupportsRangeRead(Protocol):
    """Reads part of a file at a cost independent of the file's size."""

    async def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return at most `length` bytes beginning `start` bytes into the file.

        Shorter if the file ends first, and `b""` at or after its end. Adjoining ranges of an unchanged
        file concatenate to its content.

        Raises:
            ValueError: `start` or `length` is negative.
        """
        ...


@runtime_checkable
class SupportsStreamWrite(Protocol):
    """Writes a file without holding its content in memory."""

    async def write_stream(self, path: str, chunks: AsyncIterable[bytes]) -> int:
        """Replace the file with the concatenated `chunks`, creating parents; return the number of bytes written.

        Atomic: another reader sees the old content or the whole new one, and an exception from `chunks`,
        a failed write or a cancellation leaves the old content and no temporary file.
        """
        ...


@runtime_checkable
class SupportsGuardedWrite(Protocol):
    """Writes a file only if it is unchanged."""

    async def write_if(self, path: str, data: bytes, *, expected: str | None) -> bool:
        """Write `data` if the file has the expected content; return whether it was written.

        `expected` is the SHA-256 of that content in hexadecimal, or `None` if `path` must not exist.
        On a mismatch nothing is written and the result is `False`.

        Raises:
            ValueError: `expected` is neither `None` nor 64 hexadecimal digits.
        """
        ...


@runtime_checkable
class SupportsProtect(Protocol):
    """Protects files of the host, such as configuration in use."""

    def protect(self, *paths: str | os.PathLike[str]) -> None:
        """Deny writes to these files, or below these directories, from now on."""
        ...
