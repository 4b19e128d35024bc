"""What a hook receives: its plugin's own, the agent that is being made, and what earlier phases contributed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import infer_model

from ..plugins.context import PluginContext
from ..plugins.contributions import Contribution

if TYPE_CHECKING:
    from pydantic_ai import Agent
    from pydantic_ai.models import Model
    from pydantic_ai.workspaces import WorkspaceBackend

    from .assemble import Assembly
    from .run.session import DeepAgentDeps

__all__ = ["AgentContext"]


class AgentContext(PluginContext):
    """One plugin's view of the agent that is being made.

    Attributes:
        plugin: the plugin's name.
        config: what the agent is and may do.
        config_files: what policy is read from: the configuration files that were read, the user's own and the record of
            trusted ones even where there are none yet. Nothing should write to them.
        depth: 0 for the agent, 1 for a subagent, and so on.
        asks: whether calls can wait for a person; False where the application un-asked all (`interrupt_on=False`).
        logger: `deep.<plugin>`.
    """

    def __init__(self, plugin: str, assembly: Assembly) -> None:
        super().__init__(plugin, assembly.kernel, partial(assembly.request.options.get, plugin))
        self.config = assembly.agent_config
        self.config_files = assembly.config.protected
        self.depth: int = assembly.request.get("depth", 0)
        self.asks = assembly.policy.asks
        self._assembly = assembly

    def collect(self, hook: str) -> tuple[Contribution[Any], ...]:
        """What was contributed to a hook: one of an earlier phase, or one that this plugin owns.

        Raises:
            PluginError: the hook is of a later phase, of another plugin, or unknown.
        """
        return self._assembly.contributions(self.plugin, hook)

    def backend(self, deps: DeepAgentDeps[Any]) -> WorkspaceBackend:
        """A session's backend, made now if this agent has not worked in it yet. At run time only.

        Raises:
            PluginError: the agent is still being made.
        """
        return self._assembly.backend(deps)

    def resolve_model(self, model_id: str) -> Model:
        """The model of an id, as this agent would resolve it: by the plugins, else by Pydantic AI.

        Raises:
            pydantic_ai.UserError: no plugin and no provider has that id, or its provider's key is not set.
        """
        try:
            return self._assembly.resolve_model(model_id) or infer_model(model_id)
        except UserError as error:
            self._assembly.explain_unknown(error, model_id)
            raise

    def create_agent(self, *args: Any, **kwargs: Any) -> Agent[Any, Any]:
        """Make an agent with the same kernel and policy, one level deeper. At run time only.

        Raises:
            PluginError: the agent is still being made.
        """
        return self._assembly.child(*args, depth=self.depth + 1, **kwargs)
