"""What `[agent.runtime_policy]` says of a backend that is chosen by name: its mode, and its folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic_ai.workspaces import (
    FileEntry,
    SupportsFilesystem,
    SupportsRealpath,
    Workspace,
    WorkspaceBackend,
    WorkspaceRef,
)

from deep_core import ConfigError

from .errors import ReadOnlyError

if TYPE_CHECKING:
    from deep_core import AgentContext

__all__ = ["ReadOnlyBackend", "folder", "refuse_folder", "with_mode"]


def with_mode(context: AgentContext, backend: WorkspaceBackend) -> WorkspaceBackend:
    """Return a backend as `sandbox_mode` allows it."""
    return ReadOnlyBackend(backend) if context.config.runtime_policy.sandbox_mode == "read_only" else backend


def folder(context: AgentContext, root: str | os.PathLike[str]) -> str:
    """Return the folder to work in: `working_directory` below `root`.

    Raises:
        ConfigError: it does not exist, or leads out of `root`.
    """
    wanted = context.config.runtime_policy.working_directory
    base = os.path.realpath(root)
    if wanted is None:
        return os.fspath(root)
    path = os.path.realpath(os.path.join(base, wanted))
    if os.path.commonpath([base, path]) != base:
        raise ConfigError(f"agent.runtime_policy.working_directory: {wanted!r} leads out of {base}")
    if not os.path.isdir(path):
        raise ConfigError(f"agent.runtime_policy.working_directory: there is no folder {wanted!r} in {base}: create it")
    return path


def refuse_folder(context: AgentContext, name: str) -> None:
    """Refuse `working_directory` for a backend that has no folder of this machine. Raises ConfigError."""
    if context.config.runtime_policy.working_directory is not None:
        raise ConfigError(f"agent.runtime_policy.working_directory: {name!r} has none; choose 'local' or 'sandbox'")


class ReadOnlyBackend(WorkspaceBackend, SupportsFilesystem, SupportsRealpath):
    """The files of another backend, to read. It has no commands: they could write.

    Args:
        backend: the other one.
    """

    def __init__(self, backend: WorkspaceBackend) -> None:
        self._backend = backend
        self._files = Workspace(backend)

    @property
    def ref(self) -> WorkspaceRef | None:
        """The other backend's."""
        return self._backend.ref

    def describe(self) -> str | None:
        """Say what the other backend says of itself."""
        from .describe import describe  # most other backends say nothing

        return describe(self._backend)

    async def working_dir(self) -> str:
        """Return the other backend's."""
        return await self._backend.working_dir()

    async def read_bytes(self, path: str) -> bytes:
        """Return a file's content."""
        return await self._files.read_bytes(path)

    async def stat(self, path: str) -> FileEntry:
        """Return what a path is."""
        return await self._files.stat(path)

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        """Return what a folder has."""
        return await self._files.list_dir(path)

    async def exists(self, path: str) -> bool:
        """Whether a path exists."""
        return await self._files.exists(path)

    async def realpath(self, path: str) -> str:
        """Return a path without links."""
        return await self._files.realpath(path)

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Refuse. Raises ReadOnlyError."""
        raise ReadOnlyError.of(path)

    async def make_dir(self, path: str) -> None:
        """Refuse. Raises ReadOnlyError."""
        raise ReadOnlyError.of(path)

    async def remove(self, path: str) -> None:
        """Refuse. Raises ReadOnlyError."""
        raise ReadOnlyError.of(path)
