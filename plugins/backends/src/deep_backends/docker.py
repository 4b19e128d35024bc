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

from .environment import PassedEnv, check_env, passed_environment

if TYPE_CHECKING:
    from pydantic_ai_backends.types import RuntimeConfig
    from pydantic_ai_backends.workspaces import DockerWorkspace

__all__ = ["DEFAULT_IMAGE", "DEFAULT_WORK_DIR", "DockerBackend", "create_docker_backend"]

DEFAULT_IMAGE = "python:3.12-slim"
DEFAULT_WORK_DIR = "/workspace"
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


def create_docker_backend(
    image: str = DEFAULT_IMAGE,
    *,
    runtime: str | RuntimeConfig | None = None,
    env: PassedEnv = (),
    work_dir: str = DEFAULT_WORK_DIR,
    network_mode: str | None = None,
    mem_limit: str | None = None,
    cpus: float | None = None,
    oci_runtime: str | None = None,
    volumes: Mapping[str, str] | None = None,
    container_name: str | None = None,
    ref: WorkspaceRef | None = None,
) -> DockerBackend:
    """Make a docker backend; see `deep_backends.docker_backend`."""
    if runtime is not None and (image, work_dir) != (DEFAULT_IMAGE, DEFAULT_WORK_DIR):
        raise ValueError("a runtime brings its own image and work_dir: give the runtime alone, or leave it out")
    passed = passed_environment(check_env(env))
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        from deep_core import MissingExtra

        raise MissingExtra("backends[docker]")
    from pydantic_ai_backends.workspaces import DockerWorkspace

    from .runtimes import get_runtime

    workspace = DockerWorkspace(
        image=image,
        runtime=get_runtime(runtime) if isinstance(runtime, str) else runtime,
        work_dir=work_dir,
        network_mode=network_mode,
        mem_limit=mem_limit,
        cpus=cpus,
        oci_runtime=oci_runtime,
        env=passed or None,
        volumes=volumes,
        container_name=container_name,
    )
    return DockerBackend(workspace, ref)
