"""Backends for deep agents: memory, local (confined), composite and docker.

Public names are loaded on first use, so that finding this plugin imports neither pydantic nor Pydantic AI.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_core import hookimpl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deep_core import AgentContext, BackendFactory

    from .composite import CompositeBackend
    from .docker import DockerBackend
    from .errors import ConfinementError, FileTooLargeError, ProtectedPathError, UnsupportedOperationError
    from .factories import composite_backend, docker_backend, local_backend, memory_backend
    from .local import LocalBackend
    from .memory import MemoryBackend
    from .options import BackendsOptions
    from .protocols import SupportsGuardedWrite, SupportsProtect, SupportsRangeRead, SupportsStreamWrite

__all__ = [
    "BackendsOptions",
    "CompositeBackend",
    "ConfinementError",
    "DockerBackend",
    "FileTooLargeError",
    "LocalBackend",
    "MemoryBackend",
    "ProtectedPathError",
    "SupportsGuardedWrite",
    "SupportsProtect",
    "SupportsRangeRead",
    "SupportsStreamWrite",
    "UnsupportedOperationError",
    "composite_backend",
    "docker_backend",
    "local_backend",
    "memory_backend",
]

_HOMES = {
    "BackendsOptions": "options",
    "CompositeBackend": "composite",
    "ConfinementError": "errors",
    "DockerBackend": "docker",
    "FileTooLargeError": "errors",
    "LocalBackend": "local",
    "MemoryBackend": "memory",
    "ProtectedPathError": "errors",
    "SupportsGuardedWrite": "protocols",
    "SupportsProtect": "protocols",
    "SupportsRangeRead": "protocols",
    "SupportsStreamWrite": "protocols",
    "UnsupportedOperationError": "errors",
    "composite_backend": "factories",
    "docker_backend": "factories",
    "local_backend": "factories",
    "memory_backend": "factories",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


@hookimpl
def deep_options() -> type[BackendsOptions]:
    """The options of `[plugins.backends]`."""
    from .options import BackendsOptions

    return BackendsOptions


@hookimpl
def deep_backends(context: AgentContext) -> Mapping[str, BackendFactory]:
    """The backends that can be chosen by name."""
    from .factories import composite_by_name, docker_by_name, local_by_name, memory_by_name

    return {
        "memory": memory_by_name,
        "local": local_by_name,
        "composite": composite_by_name,
        "docker": docker_by_name,
    }
