"""Optional protocols beside Pydantic AI's `Supports*`: read a part, write a stream, write only if unchanged.

Structural and checked at run time with `isinstance`; a backend has whichever it can keep the promises of.
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
    """Refuse a negative `start` or `length` with a `ValueError`, as `SupportsRangeRead` asks."""
    if start < 0 or length < 0:
        raise ValueError(f"start and length count bytes and cannot be negative, got {start} and {length}")


def check_expected(expected: str | None) -> None:
    """Refuse what is no SHA-256 in hexadecimal with a `ValueError`, as `SupportsGuardedWrite` asks."""
    if expected is not None and (len(expected) != 64 or not set(expected) <= set(string.hexdigits)):
        raise ValueError(f"expected must be a SHA-256 in hexadecimal (64 digits) or None, got {expected!r}")


@runtime_checkable
class SupportsRangeRead(Protocol):
    """Reading a part of a file at a cost that does not grow with the file."""

    async def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return at most `length` bytes beginning `start` bytes into the file.

        Shorter where the file ends first, and `b""` at or beyond its end. Adjoining ranges of an unchanged
        file concatenate to its content.

        Raises:
            ValueError: `start` or `length` is negative.
        """
        ...


@runtime_checkable
class SupportsStreamWrite(Protocol):
    """Writing a file whose content never is in memory as a whole."""

    async def write_stream(self, path: str, chunks: AsyncIterable[bytes]) -> int:
        """Replace the file with the concatenated `chunks`, creating parents; return the number of bytes written.

        Atomic: another reader sees the old content or the whole new one, and an exception from `chunks`,
        a failed write or a cancellation leaves the old content and no temporary file.
        """
        ...


@runtime_checkable
class SupportsGuardedWrite(Protocol):
    """Writing a file only where nobody changed it meanwhile."""

    async def write_if(self, path: str, data: bytes, *, expected: str | None) -> bool:
        """Write `data` if the file's content is still the one expected; return whether it was written.

        `expected` is the SHA-256 of that content in hexadecimal, or `None` where nothing may exist at `path`.
        On a mismatch nothing is written and the answer is `False`.

        Raises:
            ValueError: `expected` is neither `None` nor 64 hexadecimal digits.
        """
        ...


@runtime_checkable
class SupportsProtect(Protocol):
    """Refusing writes to files of the host, such as configuration that was read."""

    def protect(self, *paths: str | os.PathLike[str]) -> None:
        """Refuse writes to these files, or below these directories, from now on."""
        ...
