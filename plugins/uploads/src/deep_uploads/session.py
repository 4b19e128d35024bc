"""A session outside a run: its backend and its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_core import DeepAgentDeps, PluginError, agent_context

from .errors import UploadError
from .options import UploadsOptions

if TYPE_CHECKING:
    from pydantic_ai import Agent
    from pydantic_ai.workspaces import WorkspaceBackend

__all__ = ["backend_of", "enter", "limits_of"]

PLUGIN = "uploads"


def enter(agent: Agent[Any, Any], deps: DeepAgentDeps[Any]) -> UploadsOptions:
    """Make `deps` a session of `agent`, as its first run would: with its kernel and its backend.

    Returns:
        The agent's options.

    Raises:
        UploadError: the agent does not have the plugin.
        TypeError: `deps` is not a session.
    """
    _check(deps)
    try:
        context = agent_context(agent, PLUGIN)
    except PluginError as error:
        raise UploadError(
            "this agent has no plugin uploads, so its model would not see the files: create it with "
            "deep_core.create_deep_agent(…), without Without('uploads') and uploads=False"
        ) from error
    context.backend(deps)
    return context.options(UploadsOptions)


def limits_of(deps: DeepAgentDeps[Any]) -> UploadsOptions:
    """Return the options that the configuration gives to every agent of the session's kernel.

    Raises:
        UploadError: the session's kernel does not have the plugin.
        ConfigError: the configuration is wrong.
        TypeError: `deps` is not a session.
    """
    _check(deps)
    kernel = deps.state.kernel
    if PLUGIN in kernel.active:
        return kernel.context(PLUGIN).options(UploadsOptions)
    if deps.state.bound is None:
        return UploadsOptions()  # the kernel does not exist yet
    raise UploadError(
        "the session's kernel has no plugin uploads, so no model would see the file; `deep plugins list` shows why"
    )


def _check(deps: object) -> None:
    if not isinstance(deps, DeepAgentDeps):
        raise TypeError(
            f"deps must be a session, not {type(deps).__name__}. Create one per conversation: "
            "deps = deep_core.create_default_deps()"
        )


def backend_of(deps: DeepAgentDeps[Any]) -> WorkspaceBackend:
    """Return the session's backend.

    Raises:
        UploadError: it has none yet.
    """
    if deps.backend is None:
        raise UploadError(
            "this session has no backend yet: the agent sets it at its first run. Pass the agent, "
            "upload_file(deps, name, data, agent=agent), or a backend: "
            "create_default_deps(deep_backends.local_backend('.'))"
        )
    return deps.backend
