"""The workspace: files are objects below the session's prefix, directories are objects whose names end with `/`."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from hashlib import sha256
from posixpath import basename, dirname, normpath

from pydantic_ai.workspaces import FileEntry, SupportsFilesystem, WorkspaceBackend, WorkspaceRef

from .store import ObjectStore

__all__ = ["ObjectWorkspace"]

HOME = "/workspace"


class ObjectWorkspace(WorkspaceBackend, SupportsFilesystem):
    """The files of one session."""

    def __init__(self, store: ObjectStore, session_id: str) -> None:
        # A session's id may be any text; a prefix should be a plain name.
        self._prefix = sha256(session_id.encode()).hexdigest()[:32]
        self._store, self._ref = store, WorkspaceRef(provider="objects", id=self._prefix)

    @property
    def ref(self) -> WorkspaceRef:
        """The name of this environment in a stored history."""
        return self._ref

    async def working_dir(self) -> str:
        """The directory of relative paths."""
        return HOME

    async def read_bytes(self, path: str) -> bytes:
        """The content of a file."""
        place = normpath(path)
        data = await self._store.get(self._key(place))
        if data is None:
            raise _error(errno.EISDIR if await self._is_dir(place) else errno.ENOENT, path)
        return data

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file, and create the directories above it."""
        place = normpath(path)
        if await self._is_dir(place):
            raise _error(errno.EISDIR, path)
        await self._make(dirname(place), path)
        await self._store.put(self._key(place), data)

    async def stat(self, path: str) -> FileEntry:
        """Describe a file or directory."""
        place = normpath(path)
        if await self._is_dir(place):
            return FileEntry(name=basename(place), path=place, is_dir=True, size=None)
        size = (await self._store.names(self._key(place))).get(self._key(place))
        if size is None:
            raise _error(errno.ENOENT, path)
        return FileEntry(name=basename(place), path=place, is_dir=False, size=size)

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        """List a directory, sorted by name."""
        place = normpath(path)
        if not await self._is_dir(place):
            raise _error(errno.ENOTDIR if await self.exists(place) else errno.ENOENT, path)
        top = self._key(place).rstrip("/") + "/"
        found: dict[str, int | None] = {}
        for key, size in (await self._store.names(top)).items():
            name, slash, _ = key.removeprefix(top).partition("/")
            if name:
                found[name] = None if slash else size
        below = place.rstrip("/")
        return [
            FileEntry(name=name, path=f"{below}/{name}", is_dir=size is None, size=size)
            for name, size in sorted(found.items())
        ]

    async def make_dir(self, path: str) -> None:
        """Create a directory and those above it."""
        place = normpath(path)
        if await self._store.get(self._key(place)) is not None:
            raise _error(errno.EEXIST, path)
        await self._make(place, path)

    async def remove(self, path: str) -> None:
        """Remove a file, or a directory with its content."""
        place = normpath(path)
        if not await self.exists(place):
            raise _error(errno.ENOENT, path)
        if place == HOME or HOME.startswith(place.rstrip("/") + "/"):
            raise ValueError(f"{path} is the working directory, or above it")
        await self._make(dirname(place), path)  # a directory stays when its last object goes
        for key in (self._key(place), *(await self._store.names(f"{self._key(place)}/"))):
            await self._store.delete(key)

    async def exists(self, path: str) -> bool:
        """Whether a path exists."""
        place = normpath(path)
        return await self._is_dir(place) or await self._store.get(self._key(place)) is not None

    def _key(self, place: str) -> str:
        return f"{self._prefix}{place}"

    async def _is_dir(self, place: str) -> bool:
        if place == HOME or HOME.startswith(place.rstrip("/") + "/"):
            return True
        return bool(await self._store.names(f"{self._key(place)}/"))

    async def _make(self, directory: str, path: str) -> None:
        place = directory
        while place not in ("/", HOME):
            if await self._store.get(self._key(place)) is not None:
                raise _error(errno.ENOTDIR, path)
            place = dirname(place)
        if directory not in ("/", HOME):
            await self._store.put(f"{self._key(directory)}/", b"")


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)  # Python makes it a FileNotFoundError, say
