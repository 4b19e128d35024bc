"""Create backends in code, or by name from the options, one for each session."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pydantic_ai.workspaces import WorkspaceBackend, WorkspaceRef

from .environment import PassedEnv, check_env, passed_environment
from .limits import MAX_OUTPUT_BYTES, MAX_READ_BYTES
from .modes import folder, refuse_folder, with_mode

if TYPE_CHECKING:
    from deep_core import AgentContext

    from .composite import CompositeBackend
    from .docker import DockerBackend
    from .local import LocalBackend
    from .memory import MemoryBackend
    from .options import BackendName, BackendsOptions
    from .runtimes import RuntimeConfig
    from .sandbox import SandboxBackend

__all__ = [
    "composite_backend",
    "composite_by_name",
    "docker_backend",
    "docker_by_name",
    "local_backend",
    "local_by_name",
    "memory_backend",
    "memory_by_name",
    "sandbox_backend",
    "sandbox_by_name",
]

DEFAULT_IMAGE = "python:3.12-slim"
DEFAULT_WORK_DIR = "/workspace"


def local_backend(
    root: str | os.PathLike[str],
    *,
    env: PassedEnv = (),
    protected: Iterable[str | os.PathLike[str]] = (),
    hide_environment: bool = True,
    max_read_bytes: int = MAX_READ_BYTES,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
    virtual_root: bool = False,
) -> LocalBackend:
    """A directory of this machine: files confined to it, commands with a scrubbed environment.

    See `LocalBackend` for the arguments and for what it does not confine.
    """
    from .local import LocalBackend

    return LocalBackend(
        root,
        env=env,
        protected=protected,
        hide_environment=hide_environment,
        max_read_bytes=max_read_bytes,
        max_output_bytes=max_output_bytes,
        virtual_root=virtual_root,
    )


def sandbox_backend(
    root: str | os.PathLike[str],
    *,
    network: bool = False,
    readable: Iterable[str | os.PathLike[str]] = (),
    env: PassedEnv = (),
    protected: Iterable[str | os.PathLike[str]] = (),
    hide_environment: bool = True,
    max_read_bytes: int = MAX_READ_BYTES,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
    virtual_root: bool = False,
) -> SandboxBackend:
    """A directory of this machine: files and commands confined to it, by bubblewrap. Linux only.

    See `SandboxBackend` for the arguments and for what it confines.

    Raises:
        WorkspaceUnavailableError: bubblewrap is not installed.
    """
    from .sandbox import SandboxBackend

    return SandboxBackend(
        root,
        network=network,
        readable=readable,
        env=env,
        protected=protected,
        hide_environment=hide_environment,
        max_read_bytes=max_read_bytes,
        max_output_bytes=max_output_bytes,
        virtual_root=virtual_root,
    )


def memory_backend(files: Mapping[str, bytes] | None = None) -> MemoryBackend:
    """Files in memory, starting with `files`; no commands."""
    from .memory import MemoryBackend

    return MemoryBackend(files)


def composite_backend(default: WorkspaceBackend, routes: Mapping[str, WorkspaceBackend]) -> CompositeBackend:
    """Combine backends in one tree of paths: `default`, with others mounted at the prefixes of `routes`.

    See `CompositeBackend` for how paths are routed.
    """
    from .composite import CompositeBackend

    return CompositeBackend(default, routes)


def docker_backend(
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
    """A container of this machine's Docker engine, created at the first operation and kept afterwards.

    Args:
        image: The image of a new container.
        runtime: Instead of `image` and `work_dir`: a runtime, or the name of one in `deep_backends.BUILTIN_RUNTIMES`.
            Its image is built at the first operation if it has packages. Its variables are set in the container;
            the model does not see them.
        env: Names of host variables that commands see, or a mapping of names to values; nothing else of the host.
        work_dir: The directory in the container where commands start.
        network_mode: Docker's network mode; `"none"` keeps the container off the network.
        mem_limit: The memory limit in Docker's syntax, such as `"512m"`.
        cpus: The limit in processor cores.
        oci_runtime: Docker's `--runtime`, such as `"runsc"` for a stronger boundary.
        volumes: Host directories to mount, `{"/host/path": "/container/path"}`; the container reaches exactly those.
        container_name: The name of a container to create on first use and to reuse later.
        ref: The container to attach to, from an earlier backend's `ref`.

    Raises:
        MissingExtra: `deep-backends[docker]` is not installed.
        ValueError: Both a runtime, and an image or a work_dir, are given.
        KeyError: No runtime has that name; the message lists the names.
    """
    if runtime is not None and (image, work_dir) != (DEFAULT_IMAGE, DEFAULT_WORK_DIR):
        raise ValueError("a runtime brings its own image and work_dir: give the runtime alone, or leave it out")
    passed = passed_environment(check_env(env))
    from .docker import DockerBackend, require_docker

    require_docker()
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


def _options(context: AgentContext) -> BackendsOptions:
    from .options import BackendsOptions

    return context.options(BackendsOptions)


def memory_by_name(context: AgentContext) -> WorkspaceBackend:
    """Create the backend `memory`, empty."""
    refuse_folder(context, "memory")
    return with_mode(context, memory_backend())


def local_by_name(context: AgentContext) -> WorkspaceBackend:
    """Create the backend `local`: the configured root, or the present directory; protect config files in use.

    `sandbox_mode = "workspace_write"` makes it a `sandbox`: nothing else confines its commands.
    """
    options = _options(context)
    if context.config.runtime_policy.sandbox_mode == "workspace_write":
        return sandbox_by_name(context)
    backend = local_backend(
        folder(context, options.root or os.getcwd()),
        env=options.env,
        protected=[*context.config_files, *options.protected],
        hide_environment=options.hide_environment,
        max_read_bytes=options.max_read_bytes,
        max_output_bytes=options.max_output_bytes,
        virtual_root=options.virtual_root,
    )
    return with_mode(context, backend)


def sandbox_by_name(context: AgentContext) -> WorkspaceBackend:
    """Create the backend `sandbox`: the configured root, or the present directory; protect config files in use."""
    options = _options(context)
    backend = sandbox_backend(
        folder(context, options.root or os.getcwd()),
        network=options.sandbox_network,
        readable=options.sandbox_readable,
        env=options.env,
        protected=[*context.config_files, *options.protected],
        hide_environment=options.hide_environment,
        max_read_bytes=options.max_read_bytes,
        max_output_bytes=options.max_output_bytes,
        virtual_root=options.virtual_root,
    )
    return with_mode(context, backend)


def docker_by_name(context: AgentContext) -> WorkspaceBackend:
    """Create the backend `docker`: a new container of the configured image, with the root mounted as its directory.

    The root is the configured one, or the present directory; `docker_mount = false` leaves the container empty.
    """
    options = _options(context)
    volumes: dict[str, str] = {}
    if options.docker_mount:
        volumes = {os.path.realpath(folder(context, options.root or os.getcwd())): DEFAULT_WORK_DIR}
    else:
        refuse_folder(context, "docker")
    backend = docker_backend(
        options.docker_image,
        env=options.env,
        network_mode=options.docker_network,
        mem_limit=options.docker_memory,
        cpus=options.docker_cpus,
        volumes=volumes or None,
    )
    backend.protect(*context.config_files, *options.protected)
    return with_mode(context, backend)


def composite_by_name(context: AgentContext) -> WorkspaceBackend:
    """Create the backend `composite`: the configured default and routes, each a new backend."""
    makers = {
        "memory": memory_by_name,
        "local": local_by_name,
        "sandbox": sandbox_by_name,
        "docker": docker_by_name,
    }

    def made(name: BackendName) -> WorkspaceBackend:
        return makers[name](context)

    options = _options(context)
    routes = {prefix: made(name) for prefix, name in options.routes.items()}
    return composite_backend(made(options.composite_default), routes)
