"""Backends for deep agents: memory, local (files confined), sandbox (commands too), composite and docker.

Public names are loaded on first use: discovery imports neither pydantic nor Pydantic AI.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_ai import RunContext

    from deep_core import AgentContext, BackendFactory, PromptSection

    from .background import (
        BackgroundCommand,
        CommandLimits,
        Output,
        SupportsBackground,
        TooManyCommands,
        background_of,
        end_commands,
        how_it_ended,
        sweep_commands,
    )
    from .composite import CompositeBackend
    from .docker import DockerBackend
    from .errors import ConfinementError, FileTooLargeError, ProtectedPathError, UnsupportedOperationError
    from .factories import composite_backend, docker_backend, local_backend, memory_backend, sandbox_backend
    from .local import LocalBackend
    from .memory import MemoryBackend
    from .options import BackendsOptions
    from .run_later import part_that_runs, reason_of
    from .runtimes import BUILTIN_RUNTIMES, RuntimeConfig, get_runtime
    from .sandbox import SandboxBackend
    from .sessions import (
        SessionFactory,
        SessionInUseError,
        SessionLimitError,
        SessionManager,
        SessionPlace,
        SupportsDispose,
        docker_session,
        session_directory_name,
    )

__all__ = [
    "BUILTIN_RUNTIMES",
    "BackendsOptions",
    "BackgroundCommand",
    "CommandLimits",
    "CompositeBackend",
    "ConfinementError",
    "DockerBackend",
    "FileTooLargeError",
    "LocalBackend",
    "MemoryBackend",
    "Output",
    "ProtectedPathError",
    "RuntimeConfig",
    "SandboxBackend",
    "SessionFactory",
    "SessionInUseError",
    "SessionLimitError",
    "SessionManager",
    "SessionPlace",
    "SupportsBackground",
    "SupportsDispose",
    "TooManyCommands",
    "UnsupportedOperationError",
    "background_of",
    "composite_backend",
    "docker_backend",
    "docker_session",
    "end_commands",
    "get_runtime",
    "how_it_ended",
    "local_backend",
    "memory_backend",
    "part_that_runs",
    "reason_of",
    "sandbox_backend",
    "session_directory_name",
    "sweep_commands",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "background": [
            "BackgroundCommand",
            "CommandLimits",
            "Output",
            "SupportsBackground",
            "TooManyCommands",
            "background_of",
            "end_commands",
            "how_it_ended",
            "sweep_commands",
        ],
        "composite": ["CompositeBackend"],
        "docker": ["DockerBackend"],
        "errors": ["ConfinementError", "FileTooLargeError", "ProtectedPathError", "UnsupportedOperationError"],
        "factories": ["composite_backend", "docker_backend", "local_backend", "memory_backend", "sandbox_backend"],
        "local": ["LocalBackend"],
        "memory": ["MemoryBackend"],
        "options": ["BackendsOptions"],
        "run_later": ["part_that_runs", "reason_of"],
        "runtimes": ["BUILTIN_RUNTIMES", "RuntimeConfig", "get_runtime"],
        "sandbox": ["SandboxBackend"],
        "sessions": [
            "SessionFactory",
            "SessionInUseError",
            "SessionLimitError",
            "SessionManager",
            "SessionPlace",
            "SupportsDispose",
            "docker_session",
            "session_directory_name",
        ],
    },
)


@hookimpl
def deep_options() -> type[BackendsOptions]:
    """Return the options of `[plugins.backends]`."""
    from .options import BackendsOptions

    return BackendsOptions


@hookimpl
def deep_backends(context: AgentContext) -> Mapping[str, BackendFactory]:
    """Add the backends that can be chosen by name."""
    from .factories import composite_by_name, docker_by_name, local_by_name, memory_by_name, sandbox_by_name

    return {
        "memory": memory_by_name,
        "local": local_by_name,
        "sandbox": sandbox_by_name,
        "composite": composite_by_name,
        "docker": docker_by_name,
    }


@hookimpl
def deep_prompt_sections(context: AgentContext) -> list[PromptSection]:
    """Say what the model cannot see: a composite's mounts, a container's runtime, a shell that is not bash."""
    from deep_core import PromptSection

    def workspace(ctx: RunContext[Any]) -> str | None:
        backend = ctx.workspace.backend if ctx.workspace.attached else None
        if not hasattr(backend, "describe"):
            return None  # most backends: they need none of the code
        from .describe import describe

        return describe(backend)

    return [PromptSection.live("workspace", workspace)]
