"""The session outside a run: its backend, and what limits it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from deep_core.capability import DeepCapability

from .errors import UploadError
from .options import UploadsOptions
from .section import FilesSection

if TYPE_CHECKING:
    from pydantic_ai import Agent
    from pydantic_ai.workspaces import WorkspaceBackend

    from deep_core import DeepAgentDeps

__all__ = ["backend_of", "enter", "limits_of"]


def enter(agent: Agent[Any, Any], deps: DeepAgentDeps[Any]) -> UploadsOptions:
    """Make `deps` a session of `agent`, as its first run would: with its kernel and its backend.

    Returns:
        The agent's options.

    Raises:
        UploadError: the agent would not be told of uploads.
    """
    leaves: list[Any] = []
    agent.root_capability.apply(leaves.append)
    deep = next((leaf for leaf in leaves if isinstance(leaf, DeepCapability)), None)
    sections = [] if deep is None else [item.value.fn for item in deep.parts.live]
    section = next((fn for fn in sections if isinstance(fn, FilesSection)), None)
    if deep is None or section is None:
        raise UploadError(
            "this agent has no plugin uploads, so its model would not be told of the files: make it with "
            "deep_core.create_deep_agent(…), without Without('uploads') and uploads=False"
        )
    deps.state.bind(deep.parts.kernel)
    deep.parts.workspaces.for_session(deps, None)
    return section.options


def limits_of(deps: DeepAgentDeps[Any]) -> UploadsOptions:
    """The options that the configuration gives to every agent of the session's kernel.

    Raises:
        UploadError: the configuration is wrong.
    """
    settings = deps.state.kernel.config.plugin("uploads")
    trusted = {key: value for key, value in settings.options.items() if key not in settings.untrusted_options}
    try:
        return UploadsOptions.model_validate(trusted)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise UploadError(f"plugins.uploads.options.{'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def backend_of(deps: DeepAgentDeps[Any]) -> WorkspaceBackend:
    """The session's backend.

    Raises:
        UploadError: it has none yet.
    """
    if deps.backend is None:
        raise UploadError(
            "this session has no backend yet: the agent gives it one at its first run. Name the agent, "
            "upload_file(deps, name, data, agent=agent), or give a backend: "
            "create_default_deps(deep_backends.local_backend('.'))"
        )
    return deps.backend
