"""The docker backend: pydantic-ai-backend's container workspace, with its two ways to be missing said clearly."""

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
"""What the extra brings; pydantic-ai-backend 0.2.37 imports httpx for every workspace, its extra `docker` lacks it."""


class DockerBackend(WorkspaceBackend, SupportsCommands):
    """A container of this machine's Docker engine; what runs in it reaches the host's files only where mounted.

    Commands only: `ctx.workspace` makes its file operations from them, in the container. The container is made at
    the first operation, kept after the run, and found again by its ref. Of the host's environment it sees nothing
    but what was passed.
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
        """Remove the container with everything in it that is not mounted. One that is gone, or never was, is fine.

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
    """The error to raise for `error`: itself, or what it means where the engine could not be reached at all."""
    from docker.errors import APIError, DockerException  # pyright: ignore[reportMissingModuleSource] - an extra

    # An APIError is an answer of a running engine. Anything else of docker's is the client that found none.
    if not isinstance(error, DockerException) or isinstance(error, APIError):
        return error
    return WorkspaceUnavailableError(
        f"no Docker engine answers ({error}): start Docker, or set DOCKER_HOST, or choose another backend"
    )


def require_docker() -> None:
    """Look for what the extra brings.

    Raises:
        MissingExtra: `deep-backends[docker]` is not installed.
    """
    if any(importlib.util.find_spec(name) is None for name in _NEEDED):
        from deep_core import MissingExtra

        raise MissingExtra("backends[docker]")
