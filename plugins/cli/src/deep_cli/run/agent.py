"""The agent of `deep run`, `deep chat` and `deep call`, with its model and backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deep_core import Kernel
from deep_core.plugin_api import read_agent_config

from ..collector import resume
from ..errors import no_model
from ..failure import Failure
from ..flags import BACKEND, given_profile
from ..options import cli_options
from ..terminal.asking import offers_questions
from .plan import PlanModes, planner_parameters

if TYPE_CHECKING:
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.models import Model
    from pydantic_ai.workspaces import WorkspaceBackend

__all__ = ["AgentSetup", "make_agent"]


@dataclass(frozen=True)
class AgentSetup:
    """An agent, with its model and backend.

    Attributes:
        agent: the agent.
        model: its model's id.
        backend: its backend's name, or the type of a given instance.
        modes: the agent, and the one of plan mode.
    """

    agent: Agent[Any, Any]
    model: str
    backend: str
    modes: PlanModes


def make_agent(
    kernel: Kernel,
    model: str | Model | None = None,
    backend: str | WorkspaceBackend | None = None,
    *,
    is_stored: bool = False,
    has_person: bool = False,
    choose: Callable[[], str] | None = None,
) -> AgentSetup:
    """Create the agent of all plugins.

    Args:
        kernel: the kernel whose plugins it uses.
        model: a model, or its id; None reads the configuration.
        backend: a name or an instance; None reads the configuration, then takes `local`.
        is_stored: whether its sessions are stored.
        has_person: whether a person answers questions of the model.
        choose: returns a model if none is named; None for an error.

    Raises:
        ConfigError: a configuration key or value is wrong.
        PluginError: two plugins clash, or no plugin provides the backend.
        Failure: no model is named.
        Exception: any error of the model's provider: no key, no package, no such model.
    """
    from pydantic_ai.models import infer_model

    settings = read_agent_config(kernel.config)
    model_id = model if model is not None else settings.model.id
    if model_id is None:
        if choose is None:
            problem = no_model()
            raise Failure(problem.message, problem.exit_code)
        model_id = choose()
    if isinstance(model_id, str):
        from ..config.keys import load_key

        load_key(model_id)
    place = backend if backend is not None else settings.runtime_policy.profile or BACKEND
    capabilities = [*(_capabilities() if is_stored else ())]
    if given_profile() == "small" and settings.profile is None:
        from deep_sessions import SmallProfile

        capabilities.append(SmallProfile())
    more: dict[str, Any] = {"config": offers_questions(kernel)} if has_person else {}
    agent = kernel.create_agent(model_id, backend=place, capabilities=capabilities, **more)

    def make_planner() -> Agent[Any, Any]:
        planning = planner_parameters(kernel.config, cli_options(kernel.config).plan_tools)
        return kernel.create_agent(agent.model, backend=place, capabilities=capabilities, **planning, **more)

    if isinstance(agent.model, str):
        # No plugin knows this model. Resolve it now, so that a missing key is the first error.
        agent.model = infer_model(agent.model)
    resume()
    return AgentSetup(
        agent,
        model_id if isinstance(model_id, str) else model_id.model_id,
        place if isinstance(place, str) else type(place).__name__,
        PlanModes(agent, make_planner),
    )


def _capabilities() -> Sequence[AbstractCapability[Any]]:
    from deep_sessions import session_capabilities

    return session_capabilities()
