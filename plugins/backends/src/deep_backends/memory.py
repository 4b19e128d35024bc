"""The memory backend: files in a dictionary, for tests, demos and agents that need no disk."""

from __future__ import annotations

import errno
import hashlib
import os
import posixpath
import threading
import uuid
from collections.abc import AsyncIterable, Mapping, Sequence

from pydantic_ai.workspaces import FileEntry, SupportsFilesystem, SupportsRealpath, WorkspaceBackend, WorkspaceRef

from deep_core import SupportsGuardedWrite, SupportsRangeRead, SupportsStreamWrite

from .arguments import check_expected, check_range
from .errors import quote_path

__all__ = ["MemoryBackend"]

WORKING_DIR = "/workspace"


class MemoryBackend(
    WorkspaceBackend,
    SupportsFilesystem,
    SupportsRealpath,
    SupportsRangeRead,
    SupportsStreamWrite,
    SupportsGuardedWrite,
):
    """Files in memory, byte for byte as written; no commands and no symlinks.

    Any absolute path is allowed; `/workspace` is the working directory. Threads and event loops may
    share one. Its ref is `WorkspaceRef("deep-memory", <random id>)` and names this object, which no other process
    can reach; `snapshot()` and `files=` carry the content over.

    Args:
        files: Initial content, by absolute path or by path relative to `/workspace`.
    """

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        self._ref = WorkspaceRef(provider="deep-memory", id=uuid.uuid4().hex)
        self._lock = threading.Lock()
        self._files: dict[str, bytes] = {}
        self._children: dict[str, set[str]] = {"/": set()}
        """The names in each directory, so that a listing costs only the directory's size."""
        self._make(WORKING_DIR)
        for path, data in (files or {}).items():
            self._put(self._normal(posixpath.join(WORKING_DIR, path)), bytes(data))

    @property
    def ref(self) -> WorkspaceRef:
        """The identity of this object, from construction on."""
        return self._ref

    def snapshot(self) -> dict[str, bytes]:
        """Copy all files by absolute path, for `MemoryBackend(files=…)`."""
        with self._lock:
            return dict(self._files)

    async def working_dir(self) -> str:
        """`/workspace`."""
        return WORKING_DIR

    @staticmethod
    def _normal(path: str) -> str:
        if "\0" in path:
            raise ValueError(f"a path cannot hold a NUL byte: {quote_path(path)}")
        if not path.startswith("/"):
            raise ValueError(f"the path must be absolute, got {quote_path(path)}")
        return posixpath.normpath("/" + path.lstrip("/"))

    def _error(self, code: int, path: str) -> OSError:
        return OSError(code, os.strerror(code), path)  # OSError picks its subclass by the number

    def _missing(self, place: str, path: str) -> OSError:
        """Build the error for a missing path; it depends on whether the path leads through a file."""
        while place not in self._files and place not in self._children:
            place = posixpath.dirname(place)
        return self._error(errno.ENOTDIR if place in self._files else errno.ENOENT, path)

    def _get(self, path: str) -> bytes:
        place = self._normal(path)
        data = self._files.get(place)
        if data is None:
            raise self._error(errno.EISDIR, path) if place in self._children else self._missing(place, path)
        return data

    def _make(self, directory: str) -> None:
        """Create `directory` and its parents.

        Raises:
            NotADirectoryError: A parent is a file.
            FileExistsError: `directory` is a file.
        """
        missing: list[str] = []
        place = directory
        while place not in self._children:
            if place in self._files:
                raise self._error(errno.EEXIST if place == directory else errno.ENOTDIR, directory)
            missing.append(place)
            place = posixpath.dirname(place)
        for place in reversed(missing):
            parent, name = posixpath.split(place)
            self._children[parent].add(name)
            self._children[place] = set()

    def _put(self, place: str, data: bytes) -> None:
        if place in self._children:
            raise self._error(errno.EISDIR, place)
        parent, name = posixpath.split(place)
        try:
            self._make(parent)
        except FileExistsError as error:
            raise self._error(errno.ENOTDIR, place) from error
        self._children[parent].add(name)
        self._files[place] = data

    async def read_bytes(self, path: str) -> bytes:
        """Read a file: the object itself, at no cost."""
        return self._get(path)

    async def read_range(self, path: str, start: int, length: int) -> bytes:
        """See `SupportsRangeRead.read_range`."""
        check_range(start, length)
        return self._get(path)[start : start + length]

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Replace a file's content, creating missing parents."""
        place = self._normal(path)
        with self._lock:
            self._put(place, bytes(data))

    async def write_stream(self, path: str, chunks: AsyncIterable[bytes]) -> int:
        """See `SupportsStreamWrite.write_stream`; the content is in memory anyway."""
        place = self._normal(path)
        buffer = bytearray()
        async for chunk in chunks:
            buffer += chunk
        with self._lock:
            self._put(place, bytes(buffer))
        return len(buffer)

    async def write_if(self, path: str, data: bytes, *, expected: str | None) -> bool:
        """See `SupportsGuardedWrite.write_if`; check and write are one step.

        Raises:
            IsADirectoryError: `expected` is a hash and the path is a directory.
        """
        check_expected(expected)
        place = self._normal(path)
        with self._lock:
            current = self._files.get(place)
            if expected is None:
                if current is not None or place in self._children:
                    return False
            elif current is None:
                if place in self._children:
                    raise self._error(errno.EISDIR, path)
                return False
            elif hashlib.sha256(current).hexdigest() != expected.lower():
                return False
            self._put(place, bytes(data))
        return True

    def _entry(self, place: str, path: str) -> FileEntry:
        name = posixpath.basename(place)
        data = self._files.get(place)
        if data is not None:
            return FileEntry(name=name, path=path, is_dir=False, size=len(data))
        if place in self._children:
            return FileEntry(name=name, path=path, is_dir=True, size=None)
        raise self._missing(place, path)

    async def stat(self, path: str) -> FileEntry:
        """Describe `path`."""
        return self._entry(self._normal(path), path)

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        """List a directory, sorted by name."""
        place = self._normal(path)
        with self._lock:
            names = self._children.get(place)
            if names is None:
                raise self._missing(place, path)
            return [self._entry(posixpath.join(place, name), posixpath.join(path, name)) for name in sorted(names)]

    async def make_dir(self, path: str) -> None:
        """Create a directory and its missing parents; an existing one is fine."""
        place = self._normal(path)
        with self._lock:
            self._make(place)

    async def remove(self, path: str) -> None:
        """Remove a file, or a directory with everything in it.

        Raises:
            ValueError: The path is the working directory or above it.
        """
        place = self._normal(path)
        if place in ("/", WORKING_DIR) or WORKING_DIR.startswith(place + "/"):
            raise ValueError(f"cannot remove the working directory {WORKING_DIR!r} or a directory above it")
        with self._lock:
            if place not in self._files and place not in self._children:
                raise self._missing(place, path)
            parent, name = posixpath.split(place)
            self._children[parent].discard(name)
            pending = [place]
            while pending:
                gone = pending.pop()
                self._files.pop(gone, None)
                pending.extend(posixpath.join(gone, child) for child in self._children.pop(gone, ()))

    async def exists(self, path: str) -> bool:
        """Whether a file or directory exists at `path`."""
        place = self._normal(path)
        return place in self._files or place in self._children

    async def realpath(self, path: str) -> str:
        """Normalize `path`: there are no symlinks here."""
        return self._normal(path)
