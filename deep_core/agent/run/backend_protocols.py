"""What a backend may do besides Pydantic AI's `Supports*`: read a range, write a stream, write only if unchanged.

The protocols are structural and checked with `isinstance`: a backend has the methods whose promises it can keep. Paths
are absolute POSIX paths, and errors are those of `pydantic_ai.workspaces.SupportsFilesystem`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterable
from typing import Protocol, runtime_checkable

from pydantic_ai.workspaces import SupportsCommands, SupportsFilesystem, WorkspaceBackend


@runtime_checkable
class BackendProtocol(WorkspaceBackend, SupportsFilesystem, Protocol):
    """A Pydantic AI workspace backend with files."""


@runtime_checkable
class SandboxProtocol(BackendProtocol, SupportsCommands, Protocol):
    """A backend with files and commands."""


@runtime_checkable
class SupportsRangeRead(Protocol):
    """Reads part of a file at a cost independent of the file's size."""

    async def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return at most `length` bytes from byte `start` on.

        Fewer only if the file ends first, and `b""` at or after its end. Adjoining ranges of an unchanged file
        concatenate to its content.

        Raises:
            ValueError: `start` or `length` is negative.
        """
        ...


@runtime_checkable
class SupportsStreamWrite(Protocol):
    """Writes a file without holding its content in memory."""

    async def write_stream(self, path: str, chunks: AsyncIterable[bytes]) -> int:
        """Replace the file with the concatenated `chunks`, creating parents; return the number of bytes written.

        Atomic: another reader sees the old content or the whole new one. An exception from `chunks`, a failed write or
        a cancellation leaves the old content and no temporary file.
        """
        ...


@runtime_checkable
class SupportsGuardedWrite(Protocol):
    """Writes a file only if it is unchanged."""

    async def write_if(self, path: str, data: bytes, *, expected: str | None) -> bool:
        """Write `data` if the file has the expected content; else write nothing and return False.

        `expected` is the SHA-256 of that content in hexadecimal, or None if `path` must not exist.

        Raises:
            ValueError: `expected` is neither None nor 64 hexadecimal digits.
        """
        ...


@runtime_checkable
class SupportsProtect(Protocol):
    """Protects files of the host, such as the configuration in use."""

    def protect(self, *paths: str | os.PathLike[str]) -> None:
        """Deny writes to these files, or below these directories, from now on. Repeating a path changes nothing."""
        ...


@runtime_checkable
class SupportsRoute(Protocol):
    """A backend that combines several. Its abilities depend on the path, and its commands see only part of it."""

    async def route(self, path: str) -> tuple[WorkspaceBackend, str]:
        """Return the backend for a path, and the path inside that backend."""
        ...
