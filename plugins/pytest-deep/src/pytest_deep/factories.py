"""Create kernels and sessions for tests."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deep_core import DeepAgentDeps, Kernel, PluginKernel, create_default_deps

from .shell import shell_of
from .subject import find_subject

if TYPE_CHECKING:
    from pydantic_ai.workspaces import WorkspaceBackend

    from .recorder import Recorder

__all__ = ["folder_backend", "make_deps", "make_kernel"]


def make_kernel(recorder: Recorder, plugins: Sequence[object], **options: Any) -> Kernel:
    """Create a kernel of these plugins and the recorder's listener.

    Raises:
        LookupError: no plugin and no module has that name.
        PluginError: a plugin did not load.
    """
    shells = [shell_of(find_subject(plugin), recorder.hook_calls) for plugin in plugins]
    kernel = Kernel(plugins=[*shells, recorder.listener], discover=False, **options)
    recorder.kernels.append(kernel)
    return kernel


def make_deps(
    kernel: PluginKernel | None,
    folder: Path,
    *,
    files: Mapping[str, str | bytes],
    backend: WorkspaceBackend | None = None,
    app: Any = None,
) -> DeepAgentDeps[Any]:
    """Create a session whose workspace is a folder with these files, unless another backend is given."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return create_default_deps(backend if backend is not None else folder_backend(folder), app=app, kernel=kernel)


def folder_backend(folder: Path) -> WorkspaceBackend:
    """Use a folder as a workspace: by deep-backends if installed, else by Pydantic AI, which does not confine."""
    if importlib.util.find_spec("deep_backends") is not None:
        from deep_backends import local_backend

        return local_backend(folder)
    from pydantic_ai.workspaces import LocalWorkspaceBackend

    return LocalWorkspaceBackend(folder)
