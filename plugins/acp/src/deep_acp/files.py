"""The files of this machine as the editor has them: what is not saved yet is read, and what is written is shown.

The backend below decides what may be read and written. Every operation goes through it first, so that the editor, which
knows no such limits, is only asked about files that the session may touch.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import AsyncIterable, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from acp.exceptions import RequestError
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

from deep_core import SupportsGuardedWrite, SupportsProtect

if TYPE_CHECKING:
    from .client import Editor

__all__ = ["EditorBackend", "with_editor"]

logger = logging.getLogger("deep.acp")
HOST = ("deep-local", "deep-sandbox")
"""Providers of workspaces whose paths are those of this machine, which the editor knows too."""
MOST = 4 * 1024 * 1024
"""Most bytes of a file that the editor is asked about; larger ones are read and written as they are on the disk."""


def with_editor(backend: WorkspaceBackend, editor: Editor, session_id: str) -> WorkspaceBackend:
    """Return a session's backend with the editor's files, if the editor offers them and the backend is of this machine.

    Args:
        backend: what decides where files are, and which may be touched.
        editor: the editor.
        session_id: the session.
    """
    ref = backend.ref
    is_here = ref is not None and ref.provider in HOST and isinstance(backend, SupportsGuardedWrite)
    return EditorBackend(backend, editor, session_id) if is_here and editor.reads else backend


class EditorBackend(WorkspaceBackend, SupportsFilesystem, SupportsRealpath):
    """A backend of this machine whose texts are those of the editor.

    Text files are read from the editor, which may have changes that are not saved. A file is written to the disk by the
    backend, with its checks, and then through the editor, so that an open buffer has it. Searches and commands see the
    disk.

    Args:
        backend: the backend of this machine; its rules for paths hold.
        editor: the editor.
        session_id: the session.
    """

    def __new__(cls, backend: WorkspaceBackend, editor: Editor, session_id: str) -> Self:
        """Choose the class with `run` for a backend that runs commands: `isinstance` with a protocol checks methods."""
        if cls is EditorBackend and isinstance(backend, SupportsCommands):
            return super().__new__(_CommandBackend)  # pyright: ignore[reportArgumentType]
        return super().__new__(cls)

    def __init__(self, backend: WorkspaceBackend, editor: Editor, session_id: str) -> None:
        self._backend = backend
        self._files = Workspace(backend)
        self._editor = editor
        self._session = session_id

    @property
    def ref(self) -> WorkspaceRef | None:
        """The other backend's: the files are the same."""
        return self._backend.ref

    def protect(self, *paths: str | os.PathLike[str]) -> None:
        """Deny writes to these files, as the other backend does."""
        if isinstance(self._backend, SupportsProtect):
            self._backend.protect(*paths)

    async def working_dir(self) -> str:
        """Return the other backend's."""
        return await self._backend.working_dir()

    async def realpath(self, path: str) -> str:
        """Resolve a path as the other backend does."""
        return await self._files.realpath(path)

    async def stat(self, path: str) -> FileEntry:
        """Describe a file of the disk."""
        return await self._files.stat(path)

    async def exists(self, path: str) -> bool:
        """Whether the file is on the disk."""
        return await self._files.exists(path)

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        """List a directory of the disk."""
        return await self._files.list_dir(path)

    async def make_dir(self, path: str) -> None:
        """Make a directory."""
        await self._files.make_dir(path)

    async def remove(self, path: str) -> None:
        """Remove a file or a directory from the disk."""
        await self._files.remove(path)

    # -- reading -------------------------------------------------------------------------------------------------------

    async def read_bytes(self, path: str) -> bytes:
        """Read a file: the editor's text if it has unsaved changes, else what is on the disk.

        Raises:
            OSError: as the other backend, which is asked first.
        """
        return await self._edited(path, await self._files.read_bytes(path))

    async def _edited(self, path: str, saved: bytes) -> bytes:
        """Return what the editor has of a file that may be read."""
        text = _text(saved)
        if text is None or len(saved) > MOST:
            return saved
        try:
            edited = await self._editor.read_file(self._session, await self._files.realpath(path))
        except RequestError as error:
            logger.info("the editor does not read %s: %s", path, error)
            return saved
        # Editors normalize line ends: without another difference, the file is as it is on the disk.
        if _plain(edited) == _plain(text):
            return saved
        newline = "\r\n" if "\r\n" in text else "\n"
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        return (mark + _plain(edited).replace("\n", newline)).encode()

    # -- writing -------------------------------------------------------------------------------------------------------

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file to the disk and to the editor."""
        await self._files.write_bytes(path, data)
        await self._show(path, data)

    async def write_stream(self, path: str, chunks: AsyncIterable[bytes]) -> int:
        """See `deep_core.SupportsStreamWrite`. It goes to the disk, and to the editor if it is small."""
        from deep_core import SupportsStreamWrite

        if not isinstance(self._backend, SupportsStreamWrite):
            data = b"".join([chunk async for chunk in chunks])
            await self.write_bytes(path, data)
            return len(data)
        total = await self._backend.write_stream(path, chunks)
        if total <= MOST:
            await self._show(path, await self._files.read_bytes(path))
        return total

    async def write_if(self, path: str, data: bytes, *, expected: str | None) -> bool:
        """See `deep_core.SupportsGuardedWrite`: the content that is expected is the editor's."""
        backend = self._backend
        if not isinstance(backend, SupportsGuardedWrite):
            raise NotImplementedError(f"{type(backend).__name__} has no guarded writes")
        on_disk = expected
        if expected is not None:
            try:
                saved = await self._files.read_bytes(path)
            except (FileNotFoundError, NotADirectoryError):
                return False
            if _digest(await self._edited(path, saved)) != expected.lower():
                return False
            on_disk = _digest(saved)
        if not await backend.write_if(path, data, expected=on_disk):
            return False
        await self._show(path, data)
        return True

    async def _show(self, path: str, data: bytes) -> None:
        """Give the editor what was written. The disk has it already: an editor that fails loses nothing."""
        text = _text(data)
        if text is None or len(data) > MOST or not self._editor.writes:
            return
        try:
            await self._editor.write_file(self._session, await self._files.realpath(path), text)
        except RequestError as error:
            logger.warning("the editor does not show what was written to %s: %s", path, error)


class _CommandBackend(EditorBackend, SupportsCommands):
    """One whose backend runs commands; `EditorBackend(…)` chooses this class."""

    @property
    def command_backend(self) -> WorkspaceBackend:
        """What runs commands, also those that stay (`deep_backends.background_of`)."""
        return self._backend

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the protocol's parameter
    ) -> CommandResult:
        """Run a command in the other backend; it sees the disk."""
        return await self._files.run(command, shell=shell, env=env, timeout=timeout)


def _text(data: bytes) -> str | None:
    """Return a text; None for other content."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _plain(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
