"""The docker backend: pydantic-ai-backend's container workspace, with clear errors if docker is missing."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic_ai.workspaces import (
    CommandResult,
    SupportsCommands,
    WorkspaceBackend,
    WorkspaceCommand,
    WorkspaceRef,
    WorkspaceUnavailableError,
)

if TYPE_CHECKING:
    from pydantic_ai_backends.workspaces import DockerWorkspace

__all__ = ["DockerBackend", "require_docker"]

_NEEDED = ("pydantic_ai_backends", "httpx", "docker")
"""The packages of the extra; pydantic-ai-backend 0.2.37 imports httpx, which its extra `docker` lacks."""


class DockerBackend(WorkspaceBackend, SupportsCommands):
    """A container of this machine's Docker engine; it reaches the host's files only through mounts.

    Commands only: `ctx.workspace` derives file operations from them, in the container. The container is created at
    the first operation, kept after the run, and found again by its ref. It sees only those variables of the host's
    environment that `env` names.
    """

    def __init__(self, workspace: DockerWorkspace, ref: WorkspaceRef | None = None) -> None:
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
