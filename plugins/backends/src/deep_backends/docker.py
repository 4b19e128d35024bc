"""The docker backend: pydantic-ai-backend's container workspace, with clear errors if docker is missing."""

from __future__ import annotations

import importlib
import importlib.util
import os
import posixpath
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

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
    WorkspaceUnavailableError,
)

from .errors import ProtectedPathError

if TYPE_CHECKING:
    from pydantic_ai_backends.workspaces import DockerWorkspace

__all__ = ["DockerBackend", "require_docker"]

_NEEDED = ("pydantic_ai_backends", "httpx", "docker")
"""The packages of the extra; pydantic-ai-backend 0.2.37 imports httpx, which its extra `docker` lacks."""
IN_SHELL = """\
if SHELL=$(command -v bash); then export SHELL; exec "$SHELL" -c "$1"; fi
echo 'note: there is no bash here; /bin/sh runs this command' >&2
exec /bin/sh -c "$1"
"""
"""Runs a command in bash where the image has it: models write bash, and dash reads `&>` as `&` and `>`."""


class _Container(WorkspaceBackend, SupportsCommands):
    """The commands of a container, from which Pydantic AI's facade derives file operations."""

    def __init__(self, workspace: DockerWorkspace, ref: WorkspaceRef | None) -> None:
        self._workspace = workspace
        self._wrapped = workspace.backend(ref)

    @property
    def ref(self) -> WorkspaceRef | None:
        """`WorkspaceRef("docker", <container name>)` once the container exists."""
        return self._wrapped.ref

    async def working_dir(self) -> str:
        """The directory in the container where commands start.

        Raises:
            WorkspaceUnavailableError: No Docker engine answers, or the container is gone.
        """
        try:
            return await self._wrapped.working_dir()
        except Exception as error:
            raise _unreachable(error) from error

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the protocol's parameter
    ) -> CommandResult:
        """Run a command in the container.

        Raises:
            WorkspaceUnavailableError: No Docker engine answers, or the container is gone.
            WorkspaceTimeoutError: It took longer than `timeout` seconds.
            WorkspaceOutputLimitError: It produced more than 10 MiB.
        """
        if shell and isinstance(command, str):
            command, shell = ["/bin/sh", "-c", IN_SHELL, "sh", command], False
        try:
            return await self._wrapped.run(command, shell=shell, env=env, timeout=timeout)
        except Exception as error:
            raise _unreachable(error) from error

    async def dispose(self) -> None:
        """Remove the container with all of its files that are not mounted. A missing container is fine.

        Raises:
            WorkspaceUnavailableError: No Docker engine answers.
            ValueError: The ref names a container that was not made by this backend.
        """
        if self.ref is None:
            return
        try:
            await self._workspace.destroy(self.ref)
        except Exception as error:
            raise _unreachable(error) from error


class DockerBackend(WorkspaceBackend, SupportsFilesystem, SupportsRealpath, SupportsCommands):
    """A container of this machine's Docker engine; it reaches the host's files only through mounts.

    File operations run as commands in the container. The container is created at the first operation, kept after the
    run, and found again by its ref. It sees only those variables of the host's environment that `env` names.
    """

    def __init__(self, workspace: DockerWorkspace, ref: WorkspaceRef | None = None) -> None:
        self._container = _Container(workspace, ref)
        self._files = Workspace(self._container)
        self._volumes = {os.path.realpath(host): path for host, path in (workspace.volumes or {}).items()}
        self._runtime = workspace.runtime
        self._protected: set[str] = set()

    @property
    def ref(self) -> WorkspaceRef | None:
        """`WorkspaceRef("docker", <container name>)` once the container exists."""
        return self._container.ref

    def protect(self, *paths: str | os.PathLike[str]) -> None:
        """Reject writes to these paths of the host where they are mounted. Commands are not confined by it."""
        for path in paths:
            real = os.path.realpath(path)
            for host, mounted in self._volumes.items():
                if real == host or real.startswith(f"{host.rstrip('/')}/"):
                    self._protected.add(posixpath.normpath(posixpath.join(mounted, os.path.relpath(real, host))))

    def describe(self) -> str | None:
        """Say what the model should know of the container's runtime; None without one. No I/O."""
        runtime = self._runtime
        if runtime is None or isinstance(runtime, str):
            return None
        installed = f" Installed: {', '.join(runtime.packages)}." if runtime.packages else ""
        return f"Commands run in a container: {runtime.description or runtime.name}.{installed}"

    async def working_dir(self) -> str:
        """The directory in the container where commands start.

        Raises:
            WorkspaceUnavailableError: No Docker engine answers, or the container is gone.
        """
        return await self._container.working_dir()

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the protocol's parameter
    ) -> CommandResult:
        """Run a command in the container.

        Raises:
            WorkspaceUnavailableError: No Docker engine answers, or the container is gone.
            WorkspaceTimeoutError: It took longer than `timeout` seconds.
            WorkspaceOutputLimitError: It produced more than 10 MiB.
        """
        return await self._container.run(command, shell=shell, env=env, timeout=timeout)

    async def read_bytes(self, path: str) -> bytes:
        """Return a file's content."""
        return await self._files.read_bytes(path)

    async def stat(self, path: str) -> FileEntry:
        """Return what a path is."""
        return await self._files.stat(path)

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        """Return what a directory has."""
        return await self._files.list_dir(path)

    async def exists(self, path: str) -> bool:
        """Whether a path exists."""
        return await self._files.exists(path)

    async def realpath(self, path: str) -> str:
        """Return a path with its links followed."""
        return await self._files.realpath(path)

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file. Raises ProtectedPathError as `protect` says."""
        await self._check(path)
        await self._files.write_bytes(path, data)

    async def make_dir(self, path: str) -> None:
        """Make a directory, and those above it. Raises ProtectedPathError as `protect` says."""
        await self._check(path)
        await self._files.make_dir(path)

    async def remove(self, path: str) -> None:
        """Remove a file, or a directory with all in it. Raises ProtectedPathError as `protect` says."""
        await self._check(path, above=True)
        await self._files.remove(path)

    async def dispose(self) -> None:
        """Remove the container with all of its files that are not mounted. A missing container is fine.

        Raises:
            WorkspaceUnavailableError: No Docker engine answers.
            ValueError: The ref names a container that was not made by this backend.
        """
        await self._container.dispose()

    async def _check(self, path: str, *, above: bool = False) -> None:
        if not self._protected:
            return
        for place in {posixpath.normpath(path), await self._files.realpath(path)}:
            for protected in self._protected:
                if f"{place}/".startswith(f"{protected}/") or (above and f"{protected}/".startswith(f"{place}/")):
                    raise ProtectedPathError.below(path, posixpath.dirname(protected), protected)


def _unreachable(error: Exception) -> Exception:
    """Return the error to raise: itself, or an explanation if the engine could not be reached."""
    from docker.errors import APIError, DockerException  # pyright: ignore[reportMissingModuleSource] - an extra

    # An APIError is an answer of a running engine. Docker's other errors mean that the client found no engine.
    if not isinstance(error, DockerException) or isinstance(error, APIError):
        return error
    return WorkspaceUnavailableError(
        f"no Docker engine answers ({error}): start Docker, or set DOCKER_HOST, or choose another backend"
    )


def require_docker() -> None:
    """Check that the packages of the extra are installed.

    Raises:
        MissingExtra: `deep-backends[docker]` is not installed.
    """
    if any(importlib.util.find_spec(name) is None for name in _NEEDED):
        from deep_core import MissingExtra

        raise MissingExtra("backends[docker]")
