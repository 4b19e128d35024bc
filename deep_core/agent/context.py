"""The context that a hook receives: its plugin's options and folders, the agent, and earlier contributions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack

from pydantic_ai import Agent
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, infer_model
from pydantic_ai.workspaces import WorkspaceBackend

from ..plugins.context import PluginContext
from ..plugins.contributions import Contribution

if TYPE_CHECKING:
    from pydantic_ai.capabilities import AbstractCapability

    from ..parameters import SubagentParameters
    from .assemble import Assembly
    from .run.session import DeepAgentDeps


class AgentContext(PluginContext):
    """One plugin's view of the agent that the kernel creates.

    Attributes:
        plugin: the plugin's name.
        config: the agent's configuration.
        config_files: the files that policy is read from, now or at the next start. Nothing should write to them.
        depth: 0 for the agent, 1 for a subagent, and so on.
        asks: whether calls can wait for approval; False with `interrupt_on=False`.
        logger: `deep.<plugin>`.
    """

    def __init__(self, plugin: str, assembly: Assembly) -> None:
        super().__init__(plugin, assembly.kernel, partial(assembly.options.get, plugin))
        self.config = assembly.agent_config
        self.config_files = assembly.config.protected
        self.depth = assembly.spec.depth
        self.asks = assembly.policy.asks
        self._assembly = assembly

    def collect(self, hook: str) -> tuple[Contribution[Any], ...]:
        """Return the contributions to a hook of an earlier phase, or to one that this plugin owns.

        Raises:
            PluginError: the hook is of a later phase, of another plugin, or unknown.
        """
        return self._assembly.contributions(self.plugin, hook)

    def idle(self, *hooks: Literal["deep_check_call", "deep_run_event"]) -> None:
        """Say that this plugin has nothing to do at these hooks for this agent, so that calls cost nothing there.

        Call it in a contribution hook, such as `deep_capabilities`: later it has no effect.
        """
        self._assembly.idle.update((self.plugin, hook) for hook in hooks)

    def vet(self, capability: AbstractCapability[Any]) -> None:
        """Check a capability of this plugin as the kernel will. Raises PluginError: the kernel would refuse it."""
        self._assembly.vet(self.plugin, capability)

    def backend(self, deps: DeepAgentDeps[Any]) -> WorkspaceBackend:
        """Return a session's backend; create it if this agent has not used it yet. At run time only.

        Raises:
            PluginError: the agent is still being created.
        """
        return self._assembly.backend(deps)

    def resolve_model(self, model_id: str) -> Model:
        """Resolve a model id as this agent does: by the plugins, else by Pydantic AI.

        Raises:
            pydantic_ai.UserError: no plugin and no provider knows the id, or the provider's key is not set.
        """
        try:
            return self._assembly.resolve_model(model_id) or infer_model(model_id)
        except UserError as error:
            self._assembly.explain_unknown(error, model_id)
            raise

    def create_agent(
        self, model: Model | str | None = None, **parameters: Unpack[SubagentParameters]
    ) -> Agent[DeepAgentDeps[Any], Any]:
        """Create a subagent with the same kernel and policy. At run time only. Parameters can only narrow its rights.

        Raises:
            PluginError: the agent is still being created.
            TypeError: an unknown parameter, or one that a subagent cannot change.
        """
        return self._assembly.child(model, parameters)


class BackendContext(AgentContext):
    """The context that a backend factory receives: its plugin's, for one session.

    Attributes:
        session_id: the session that the backend is for. A subagent's session has its parent's id.
    """

    def __init__(self, context: AgentContext, session_id: str) -> None:
        vars(self).update(vars(context))
        self.session_id = session_id
