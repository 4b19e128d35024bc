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
from ..terminal.asking import with_person
from .plan import PlanModes, planner_parameters

if TYPE_CHECKING:
    from deep_sessions import OwnAgent
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.models import Model
    from pydantic_ai.workspaces import WorkspaceBackend

__all__ = ["AgentSetup", "find_agent", "make_agent", "own_agent"]


@dataclass(eq=False, repr=False)
class AgentSetup:
    """An agent, with its model and backend.

    Attributes:
        agent: the agent.
        model: its model's id.
        backend: its backend's name, or the type of a given instance.
        modes: the agent, and the one of plan mode.
        own: the agent of another program, which `--agent` names; None for deep's.
        kernel: of the agent.
    """

    agent: Agent[Any, Any]
    model: str
    backend: str
    modes: PlanModes
    kernel: Kernel
    own: OwnAgent | None = None

    def tools(self) -> Sequence[Any]:
        """Return the tools that the model is offered."""
        if self.own is None:
            return self.kernel.explain(self.agent).tools
        from deep_sessions import tools_of

        return tools_of(self.agent, self.kernel)


def make_agent(
    kernel: Kernel,
    model: str | Model | None = None,
    backend: str | WorkspaceBackend | None = None,
    *,
    is_stored: bool = False,
    has_person: bool = False,
    edits_ask: bool = False,
    choose: Callable[[], str] | None = None,
) -> AgentSetup:
    """Create the agent of all plugins.

    Args:
        kernel: the kernel whose plugins it uses.
        model: a model, or its id; None reads the configuration.
        backend: a name or an instance; None reads the configuration, then takes `local`.
        is_stored: whether its sessions are stored.
        has_person: whether a person answers questions of the model.
        edits_ask: whether a person decides about changes to files.
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
    more: dict[str, Any] = {"config": with_person(kernel, edits=edits_ask)} if has_person else {}
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
        kernel,
    )


async def find_agent(name: str, folder: str) -> OwnAgent:
    """Return the agent of another program that `--agent` names, with the stored keys in its environment.

    Args:
        name: `module:attribute`, or `file.py:attribute`.
        folder: where they are found.

    Raises:
        ConfigError: it names nothing, or nothing that is an agent.
        Failure: the file of the keys cannot be read.
    """
    from deep_sessions import load_agent

    from ..config.keys import load_keys

    load_keys()
    return await load_agent(name, folder)


def own_agent(
    kernel: Kernel, own: OwnAgent, watch: AbstractCapability[Any], model: str | Model | None = None
) -> AgentSetup:
    """Return an agent of another program, as `--agent` names it.

    Args:
        kernel: the kernel of the command.
        own: the agent.
        watch: sees its calls.
        model: a model, or its id, instead of its own.

    Raises:
        ConfigError: it needs deps, and has none.
        Failure: neither it nor the command names a model.
        Exception: any error of the model's provider: no key, no package, no such model.
    """
    from deep_sessions import Planning
    from pydantic_ai.models import infer_model

    model = None if model == own.model else model
    model_id = model or own.model
    if not model_id:
        problem = no_model()
        raise Failure(problem.message, problem.exit_code)
    if isinstance(model_id, str):
        from ..config.keys import load_key

        load_key(model_id)
    if model is None and not isinstance(own.agent.model, str):
        chosen: Model | None = None
    else:
        # A plugin may know it; else Pydantic AI does, and a missing key is the first error.
        found = kernel.caller.first("deep_resolve_model", {"model_id": model_id, "config": None}, among=kernel.active)
        chosen = found or (infer_model(model_id) if isinstance(model_id, str) else model_id)

    def make_planner() -> Agent[Any, Any]:
        return own.in_sessions([watch, Planning(cli_options(kernel.config).plan_tools)], chosen)

    agent = own.in_sessions([watch], chosen)
    resume()
    shown = model_id if isinstance(model_id, str) else model_id.model_id
    used = own.kernel if isinstance(own.kernel, Kernel) else kernel
    return AgentSetup(agent, shown, f"of {own.name}", PlanModes(agent, make_planner), used, own)


def _capabilities() -> Sequence[AbstractCapability[Any]]:
    from deep_sessions import session_capabilities

    return session_capabilities()
