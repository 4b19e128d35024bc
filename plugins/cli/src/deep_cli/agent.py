"""The agent that `deep run` and `deep chat` work with: which model, which backend, and where each is named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deep_core import Kernel
from deep_core.plugin_api import read_agent_config

from .collector import resume
from .explained import no_model
from .failure import Failure
from .flags import BACKEND

if TYPE_CHECKING:
    from pydantic_ai import Agent
    from pydantic_ai.models import Model
    from pydantic_ai.workspaces import WorkspaceBackend

__all__ = ["Made", "make_agent"]


@dataclass(frozen=True)
class Made:
    """An agent, and what it was made of.

    Attributes:
        agent: the agent.
        model: its model's id.
        backend: its backend's name, or its type where an instance was given.
    """

    agent: Agent[Any, Any]
    model: str
    backend: str


def make_agent(kernel: Kernel, model: str | Model | None = None, backend: str | WorkspaceBackend | None = None) -> Made:
    """The agent of all plugins.

    Args:
        kernel: whose plugins.
        model: a model, or its id; None means what the configuration says.
        backend: a name or an instance; None means what the configuration says, else `local`.

    Raises:
        ConfigError: a configuration key or value is wrong.
        PluginError: two plugins clash, or no plugin provides the backend.
        Failure: no model is named.
        Exception: whatever the model's provider raises: no key, no package, no such model.
    """
    from pydantic_ai.models import infer_model

    settings = read_agent_config(kernel.config)
    chosen = model if model is not None else settings.model.id
    if chosen is None:
        problem = no_model()
        raise Failure(problem.message, problem.exit_code)
    place = backend if backend is not None else settings.runtime_policy.profile or BACKEND
    agent = kernel.create_agent(chosen, backend=place)
    if isinstance(agent.model, str):
        # No plugin knows it. Resolved now: a missing key is told before anything else is said.
        agent.model = infer_model(agent.model)
    resume()
    return Made(
        agent,
        chosen if isinstance(chosen, str) else chosen.model_id,
        place if isinstance(place, str) else type(place).__name__,
    )
