"""Find the place of an upload: a directory of the session's workspace, and a free name in it."""

from __future__ import annotations

import posixpath
import threading
import unicodedata
from collections.abc import Container, Hashable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from pydantic_ai.workspaces import Workspace, WorkspaceBackend

from deep_core import SupportsGuardedWrite, SupportsRoute, SupportsStreamWrite

from .errors import UploadError
from .names import add_number

__all__ = ["FreeName", "Place", "workspace_of"]

_HOST = ("local", "deep-local")
"""Providers whose paths are this machine's: two backend objects over one directory are one place."""
_IN_MEMORY = ("deep-memory",)
"""Providers that store files in this process's memory: streaming does not save memory there."""


async def _answering(backend: WorkspaceBackend, path: str) -> WorkspaceBackend:
    """Find the backend that stores `path`."""
    while isinstance(backend, SupportsRoute):
        backend, path = await backend.route(path)
    return backend


def _within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory.rstrip('/')}/")


@dataclass(frozen=True)
class Place:
    """The directory of uploads.

    Attributes:
        files: the workspace.
        stream: the backend, if it can stream there.
        guarded: the backend, if it can avoid overwriting a file there.
        directory: absolute.
        root: the workspace's working directory, absolute.
        store: identifies this workspace in this process, for `FreeName`.
    """

    files: Workspace
    stream: SupportsStreamWrite | None
    guarded: SupportsGuardedWrite | None
    directory: str
    root: str
    store: Hashable

    @classmethod
    async def at(cls, backend: WorkspaceBackend, upload_dir: str) -> Place:
        """Find the directory.

        A leading slash means the workspace's working directory: `/uploads` is `uploads` below it, where
        file tools and commands find it, in every backend; a confined one has nothing outside. Two absolute paths are
        used unchanged: one below the working directory, and one with another backend mounted at it.

        Raises:
            UploadError: the path climbs, or has characters that do not print.
        """
        if "\\" in upload_dir or not upload_dir.isprintable() or ".." in upload_dir.split("/"):
            raise UploadError(
                f"upload_dir={upload_dir[:200]!r}: give a directory of the workspace such as '/uploads', "
                "without '..', backslashes and control characters"
            )
        root = await backend.working_dir()
        directory = posixpath.normpath(posixpath.join(root, upload_dir.strip("/")))
        absolute = posixpath.normpath(f"/{upload_dir.lstrip('/')}")
        if upload_dir.startswith("/") and absolute != "/":
            home, there = await _answering(backend, root), await _answering(backend, f"{absolute}/x")
            if _within(absolute, root) or there is not home:
                directory = absolute
        answering = await _answering(backend, f"{directory}/x")
        ref = answering.ref
        return cls(
            files=workspace_of(backend),
            stream=backend
            if isinstance(answering, SupportsStreamWrite)
            and isinstance(backend, SupportsStreamWrite)
            and (ref is None or ref.provider not in _IN_MEMORY)
            else None,
            guarded=backend
            if isinstance(answering, SupportsGuardedWrite) and isinstance(backend, SupportsGuardedWrite)
            else None,
            directory=directory,
            root=root,
            store=_store(backend),
        )

    def relative_path(self, path: str) -> str:
        """A path as tools show it: relative to the working directory if below it."""
        prefix = f"{self.root.rstrip('/')}/"
        return path[len(prefix) :] if path.startswith(prefix) else path


def workspace_of(backend: WorkspaceBackend) -> Workspace:
    """Wrap the backend so that relative paths can be resolved."""
    return backend if isinstance(backend, Workspace) else Workspace(backend)


def _store(backend: WorkspaceBackend) -> Hashable:
    ref = backend.ref
    if ref is None:
        return id(backend)
    return "host" if ref.provider in _HOST else (ref.provider, ref.id)


def fold(path: str) -> str:
    """Fold a path to compare names: some file systems ignore case and composition."""
    return unicodedata.normalize("NFC", path).casefold()


_claims: set[tuple[Hashable, str]] = set()
_mutex = threading.Lock()


def _claim(key: tuple[Hashable, str]) -> bool:
    with _mutex:
        if key in _claims:
            return False
        _claims.add(key)
        return True


def _release(key: tuple[Hashable, str]) -> None:
    with _mutex:
        _claims.discard(key)


class FreeName:
    """`async with FreeName(…) as name:` claims a name that no file and no other upload of this process has.

    Other sessions, threads and event loops may upload to the same directory at the same time.

    Attributes:
        path: the absolute path claimed now.
    """

    def __init__(self, place: Place, name: str, used_paths: Container[str]) -> None:
        """Claim nothing yet. `taken`: paths of the session's uploads, as shown and folded."""
        self._place = place
        self._name = name
        self._used_paths = used_paths
        self._number = 0
        self._listing: set[str] | None = None
        self._key: tuple[Hashable, str] | None = None
        self.path = ""

    async def next(self) -> None:
        """Release the current name, and claim the next free one."""
        self._drop()
        while True:
            self._number += 1
            candidate = add_number(self._name, self._number)
            path = posixpath.join(self._place.directory, candidate)
            key = (self._place.store, fold(path))
            if fold(candidate) in (self._listing or ()) or fold(self._place.relative_path(path)) in self._used_paths:
                continue
            if not _claim(key):
                continue
            self._key, self.path = key, path
            if self._listing is not None or not await self._place.files.exists(path):
                return
            # One listing for all further numbers: a directory may have a thousand files of one name.
            self._drop()
            self._listing = {fold(entry.name) for entry in await self._place.files.list_dir(self._place.directory)}

    async def retry(self) -> None:
        """Claim another name, because another writer used the current one."""
        self._listing = None
        await self.next()

    def _drop(self) -> None:
        if self._key is not None:
            _release(self._key)
            self._key = None

    async def __aenter__(self) -> Self:
        try:
            await self.next()
        except BaseException:
            self._drop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._drop()
