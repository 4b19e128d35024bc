"""The composite backend: one tree of paths over several backends, each mounted at a prefix."""

from __future__ import annotations

import errno
import hashlib
import os
import posixpath
from collections.abc import AsyncIterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self, cast

from pydantic_ai.workspaces import (
    CommandResult,
    FileEntry,
    SupportsCommands,
    SupportsFilesystem,
    SupportsRealpath,
    Workspace,
    WorkspaceBackend,
    WorkspaceCommand,
    WorkspaceRef,
)

from deep_core import SupportsGuardedWrite, SupportsProtect, SupportsRangeRead, SupportsStreamWrite

from .arguments import check_range
from .describe import describe
from .errors import ConfinementError, UnsupportedOperationError, quote_path

__all__ = ["CommandCompositeBackend", "CompositeBackend"]

_OF_A_DIRECTORY = ("local", "deep-local", "deep-sandbox")
"""Providers whose refs are named after the working directory."""
SMALL_FILE_BYTES = 1024 * 1024
"""Up to this size, a range is cut from the whole file if the routed backend cannot read ranges."""


def _filesystem(backend: WorkspaceBackend) -> SupportsFilesystem:
    # Pydantic AI's facade derives file operations from commands, for backends such as docker's.
    return backend if isinstance(backend, SupportsFilesystem) else Workspace(backend)


def _within(path: str, directory: str) -> bool:
    return path == directory or directory == "/" or path.startswith(f"{directory}/")


@dataclass(frozen=True)
class _Place:
    """The backend of a path, the path inside that backend, its mount (None: default), the path in the composite."""

    backend: WorkspaceBackend
    files: SupportsFilesystem
    path: str
    mount: str | None
    at: str


class _Named:
    """Put the composite's path into an error that has a mounted backend's path, which callers do not know."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError) and error.errno is not None:
            error.filename = self._path


class CompositeBackend(
    WorkspaceBackend,
    SupportsFilesystem,
    SupportsRealpath,
    SupportsRangeRead,
    SupportsStreamWrite,
    SupportsGuardedWrite,
):
    """A default backend with other backends mounted at path prefixes.

    The longest prefix wins, by whole names. The rest of the path is relative to the mounted backend's
    working directory: with `{"/project/": backend}`, `/project/a.txt` is `a.txt` there. Paths are normalized first, so
    `..` never crosses from one backend into another unnoticed; each backend enforces its own confinement. Listing
    a directory shows the mounts in it; mounts, and directories above one, cannot be removed.

    Commands go to the default backend, which does not see the mounts; if it cannot run commands, nor can the composite.
    The optional protocols work if the backend at the path supports them; else the operation raises
    `UnsupportedOperationError`, except that a range of a file up to 1 MiB is cut from the whole.

    Args:
        default: Answers for every other path; its working directory is the composite's. Without commands, another
            backend may be mounted there.
        routes: Backends by prefix: an absolute path, or one relative to the default's working directory.

    Raises:
        ValueError: A prefix is empty, `/`, leaves the working directory, or is given twice; or it hides the directory
            where commands run (at the first operation, if the directory is unknown before).
    """

    def __new__(cls, default: WorkspaceBackend, routes: Mapping[str, WorkspaceBackend]) -> Self:
        """Choose the class with `run` for a default that runs commands: `isinstance` with a protocol checks methods."""
        if cls is CompositeBackend and isinstance(default, SupportsCommands):
            return super().__new__(CommandCompositeBackend)  # pyright: ignore[reportArgumentType]
        return super().__new__(cls)

    def __init__(self, default: WorkspaceBackend, routes: Mapping[str, WorkspaceBackend]) -> None:
        self._default = default
        self._default_files = _filesystem(default)
        self._given = {self._prefix(prefix): backend for prefix, backend in routes.items()}
        if len(self._given) != len(routes):
            raise ValueError(f"routes: two prefixes are the same path: {', '.join(map(repr, routes))}")
        # Where the working directory is known already, a wrong prefix fails here and not at the model's first call.
        ref = default.ref
        if ref is not None and ref.provider in _OF_A_DIRECTORY:
            for prefix in self._given:
                self._check_hiding(ref.id, posixpath.join(ref.id, prefix))
        self._mounts: dict[str, _Place] | None = None
        self._above: dict[str, set[str]] = {}
        self._working_dir = ""
        self._ref: WorkspaceRef | None = None

    @staticmethod
    def _prefix(prefix: str) -> str:
        normal = posixpath.normpath(f"/{prefix.lstrip('/')}") if prefix.startswith("/") else posixpath.normpath(prefix)
        if not prefix or normal in ("/", ".") or normal.split("/")[0] == ".." or "\0" in prefix:
            raise ValueError(f"routes: {prefix!r} is not a prefix: give a path such as '/project/' or 'notes/'")
        return normal

    def _check_hiding(self, working_dir: str, mount: str) -> None:
        # Commands start in the default's directory: they would see other files than the file operations.
        if _within(working_dir, mount) and isinstance(self._default, SupportsCommands):
            raise ValueError(
                f"routes: the prefix {mount!r} would hide the working directory {working_dir!r}, where commands run: "
                "make that backend the default, or mount it elsewhere"
            )

    def describe(self) -> str:
        """Say which folders are mounted. No I/O."""
        mounts = ", ".join(f"{prefix}/" for prefix in sorted(self._given))
        commands = " Commands do not see them." if isinstance(self._default, SupportsCommands) else ""
        own = [describe(backend) for backend in (self._default, *self._given.values())]
        return " ".join([f"Mounted folders: {mounts}.{commands}", *filter(None, own)])

    @property
    def ref(self) -> WorkspaceRef | None:
        """`WorkspaceRef("deep-composite", …)` with the default's ref and the prefixes; `None` while that is.

        The mounted backends are configuration: the application mounts them again, so their refs are not included.
        """
        if self._ref is None and (ref := self._default.ref) is not None:
            prefixes = hashlib.sha256("\0".join(sorted(self._given)).encode("utf-8", "surrogateescape")).hexdigest()
            self._ref = WorkspaceRef(provider="deep-composite", id=f"{ref.provider}:{ref.id}:{prefixes[:12]}")
        return self._ref

    def protect(self, *paths: str | os.PathLike[str]) -> None:
        """Pass `paths`, of the host, to every backend that can protect them."""
        for given in (self._default, *self._given.values()):
            backend = given.backend if isinstance(given, Workspace) else given
            if isinstance(backend, SupportsProtect):
                backend.protect(*paths)

    async def working_dir(self) -> str:
        """The default backend's working directory."""
        return await self._default.working_dir()

    async def _mounted(self) -> dict[str, _Place]:
        """Resolve the mounts by absolute prefix, longest first, at the first operation."""
        if self._mounts is None:
            working_dir = await self._default.working_dir()
            mounts: dict[str, WorkspaceBackend] = {
                posixpath.join(working_dir, prefix): backend for prefix, backend in self._given.items()
            }
            if len(mounts) != len(self._given):
                raise ValueError(
                    f"routes: two prefixes are the same path below {working_dir!r}: {', '.join(self._given)}"
                )
            above: dict[str, set[str]] = {}
            for mount in mounts:
                self._check_hiding(working_dir, mount)
                below: str = mount
                while below != "/":
                    parent: str = posixpath.dirname(below)
                    above.setdefault(parent, set()).add(posixpath.basename(below))
                    below = parent
            self._above = above
            self._working_dir = working_dir
            self._mounts = {
                mount: _Place(
                    mounts[mount], _filesystem(mounts[mount]), await mounts[mount].working_dir(), mount, mount
                )
                for mount in sorted(mounts, key=len, reverse=True)
            }
        return self._mounts

    async def _place(self, path: str) -> _Place:
        mounts = await self._mounted()
        if "\0" in path:
            raise ValueError(f"a path cannot hold a NUL byte: {quote_path(path)}")
        if not path.startswith("/"):
            raise ValueError(f"the path must be absolute, got {quote_path(path)}")
        normal = posixpath.normpath(f"/{path.lstrip('/')}")
        for mount, place in mounts.items():
            if _within(normal, mount):
                rest = normal[len(mount) :].lstrip("/")
                return replace(place, path=posixpath.join(place.path, rest) if rest else place.path, at=normal)
        return _Place(self._default, self._default_files, normal, None, normal)

    async def route(self, path: str) -> tuple[WorkspaceBackend, str]:
        """Return the backend for `path`, and the path inside that backend."""
        place = await self._place(path)
        return place.backend, place.path

    def _names_above(self, place: _Place) -> set[str] | None:
        """List the names that mounts add to the directory at `place`; `None` if no mount is below it."""
        return self._above.get(place.at)

    def _unsupported(self, path: str, place: _Place, protocol: str) -> UnsupportedOperationError:
        where = f"the backend mounted at {place.mount!r}" if place.mount else "the default backend"
        return UnsupportedOperationError(
            f"{quote_path(path)}: {where} ({type(place.backend).__name__}) lacks {protocol}; "
            "use read_bytes or write_bytes there, or mount a backend that has it"
        )

    async def read_bytes(self, path: str) -> bytes:
        """Read a file through the backend at `path`."""
        place = await self._place(path)
        if self._names_above(place) is not None:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        with _Named(path):
            return await place.files.read_bytes(place.path)

    async def read_range(self, path: str, start: int, length: int) -> bytes:
        """See `SupportsRangeRead.read_range`.

        Raises:
            UnsupportedOperationError: The backend at `path` has no range reads and the file is larger than 1 MiB.
        """
        check_range(start, length)
        place = await self._place(path)
        if isinstance(place.backend, SupportsRangeRead):
            with _Named(path):
                return await place.backend.read_range(place.path, start, length)
        with _Named(path):
            size = (await place.files.stat(place.path)).size
            if size is not None and size > SMALL_FILE_BYTES:
                raise self._unsupported(path, place, "SupportsRangeRead")
            return (await place.files.read_bytes(place.path))[start : start + length]

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Write through the backend at `path`."""
        place = await self._writable(path)
        with _Named(path):
            await place.files.write_bytes(place.path, data)

    async def _writable(self, path: str) -> _Place:
        place = await self._place(path)
        if self._names_above(place) is not None:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return place

    async def write_stream(self, path: str, chunks: AsyncIterable[bytes]) -> int:
        """See `SupportsStreamWrite.write_stream`.

        Raises:
            UnsupportedOperationError: The backend at `path` cannot promise that.
        """
        place = await self._writable(path)
        if not isinstance(place.backend, SupportsStreamWrite):
            raise self._unsupported(path, place, "SupportsStreamWrite")
        with _Named(path):
            return await place.backend.write_stream(place.path, chunks)

    async def write_if(self, path: str, data: bytes, *, expected: str | None) -> bool:
        """See `SupportsGuardedWrite.write_if`.

        Raises:
            UnsupportedOperationError: The backend at `path` cannot promise that.
        """
        place = await self._writable(path)
        if not isinstance(place.backend, SupportsGuardedWrite):
            raise self._unsupported(path, place, "SupportsGuardedWrite")
        with _Named(path):
            return await place.backend.write_if(place.path, data, expected=expected)

    async def stat(self, path: str) -> FileEntry:
        """Describe `path`; a mount, and a directory above one, is a directory."""
        place = await self._place(path)
        name = posixpath.basename(posixpath.normpath(path))
        if self._names_above(place) is not None:
            return FileEntry(name=name, path=path, is_dir=True, size=None)
        with _Named(path):
            return replace(await place.files.stat(place.path), name=name, path=path)

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        """List the backend at `path`, with the mounts in that directory, sorted by name."""
        place = await self._place(path)
        names = self._names_above(place)
        try:
            with _Named(path):
                found = await place.files.list_dir(place.path)
        except (FileNotFoundError, ConfinementError):
            if names is None:
                raise
            found = ()  # a directory that exists only for mounts below it, such as `/` over a confined default
        entries = {entry.name: replace(entry, path=posixpath.join(path, entry.name)) for entry in found}
        for name in names or ():
            entries[name] = FileEntry(name=name, path=posixpath.join(path, name), is_dir=True, size=None)
        return [entries[name] for name in sorted(entries)]

    async def make_dir(self, path: str) -> None:
        """Make a directory in the backend at `path`."""
        place = await self._place(path)
        if self._names_above(place) is None:
            with _Named(path):
                await place.files.make_dir(place.path)

    async def remove(self, path: str) -> None:
        """Remove through the backend at `path`.

        Raises:
            ValueError: The path is a mount, or has one below it, or the backend rejects it.
        """
        place = await self._place(path)
        if self._names_above(place) is not None:
            raise ValueError(f"cannot remove {quote_path(path)}: another backend is mounted below it")
        if place.mount is not None and posixpath.normpath(path) == place.mount:
            raise ValueError(f"cannot remove {quote_path(path)}: another backend is mounted there")
        with _Named(path):
            await place.files.remove(place.path)

    async def exists(self, path: str) -> bool:
        """Whether `path` exists."""
        place = await self._place(path)
        return self._names_above(place) is not None or await place.files.exists(place.path)

    async def realpath(self, path: str) -> str:
        """Resolve `path`, as a path of the composite.

        Raises:
            ConfinementError: A link in a mounted backend leads out of it, or a link leads to a path that a mount
                hides, where another file has that name.
        """
        place = await self._place(path)
        if self._names_above(place) is not None:
            return place.at
        mounts = await self._mounted()
        # Unchanged, if possible: `link/..` climbs from the link's target, which normalizing would ignore.
        if place.mount is None:
            asked = path
        elif path.startswith(f"{place.mount}/"):
            asked = mounts[place.mount].path + path[len(place.mount) :]
        else:
            asked = place.path
        if isinstance(place.backend, SupportsRealpath):
            real = await place.backend.realpath(asked)
        else:
            real = await Workspace(place.backend).realpath(asked)
        if place.mount is not None:
            root = mounts[place.mount].path
            if not _within(real, root):
                raise ConfinementError.outside(path, place.mount)
            rest = real[len(root) :].lstrip("/")
            real = posixpath.join(place.mount, rest) if rest else place.mount
        there = (await self._place(real)).mount
        if there is not None and there != place.mount:
            raise ConfinementError.hidden(path, there)
        return real


class CommandCompositeBackend(CompositeBackend, SupportsCommands):
    """A composite whose default backend runs commands; `CompositeBackend(…)` chooses this class."""

    @property
    def command_backend(self) -> WorkspaceBackend:
        """What runs commands; see `background_of`."""
        return self._default

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the protocol's parameter
    ) -> CommandResult:
        """Run a command in the default backend; it does not see the mounts."""
        return await cast("SupportsCommands", self._default).run(command, shell=shell, env=env, timeout=timeout)
