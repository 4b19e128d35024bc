"""The context that a hook receives: its plugin's options and folders, the agent, and earlier contributions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, Unpack

from pydantic_ai import Agent
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, infer_model
from pydantic_ai.workspaces import WorkspaceBackend

from ..plugins.context import PluginContext
from ..plugins.contributions import Contribution

if TYPE_CHECKING:
    from pydantic_ai.capabilities import AbstractCapability

    from ..parameters import SubagentParameters
    from ..plugins.config import Config
    from ..plugins.kernel import PluginKernel
    from ..plugins.options import PluginOptions
    from .config import AgentConfig
    from .run.events import RunEvent
    from .run.observers import Observers
    from .run.session import DeepAgentDeps, Deps

BackendFactory: TypeAlias = "Callable[[BackendContext], WorkspaceBackend]"
"""Creates a session's backend. Called once for each session. It does no I/O: a backend connects on first use."""
RunHook = Literal["deep_check_call", "deep_run_event"]


class Making(Protocol):
    """What a context asks of the agent that it belongs to, while that is made and afterwards."""

    kernel: PluginKernel
    config: Config
    agent_config: AgentConfig
    config_keys: frozenset[str]
    options: Mapping[str, PluginOptions]
    depth: int
    asks: bool
    observers: Observers

    def contributions(self, plugin: str, hook: str) -> tuple[Contribution[Any], ...]:
        """Return what a plugin may collect."""
        ...

    def rest(self, plugin: str, hooks: tuple[RunHook, ...], unless: str = "") -> None:
        """Note that a plugin has nothing to do at these hooks, or only at some calls."""
        ...

    def vet(self, plugin: str, capability: AbstractCapability[Deps]) -> object:
        """Check a plugin's capability. Raises PluginError."""
        ...

    def backend(self, deps: Deps) -> WorkspaceBackend:
        """Return a session's backend."""
        ...

    def resolve_model(self, model_id: str) -> Model | None:
        """Ask the plugins for a model."""
        ...

    def explain_unknown(self, model_id: str, error: UserError) -> None:
        """Raise a better error for a model that nothing knows, if there is one."""
        ...

    def subagent(self, model: Model | str | None, changes: Mapping[str, Any]) -> Agent[DeepAgentDeps[Any], Any]:
        """Create a subagent."""
        ...


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

    def __init__(self, plugin: str, making: Making) -> None:
        super().__init__(plugin, making.kernel, partial(making.options.get, plugin))
        self.config = making.agent_config
        self.config_files = making.config.protected
        self._keys = making.config_keys
        self.depth = making.depth
        self.asks = making.asks
        self._making = making

    def sets(self, *keys: str) -> bool:
        """Whether the configuration sets one of these keys of `[agent]`, or a key below: `context.sets("loop")`.

        A file, a mapping or the environment sets what it writes. An `AgentConfig` is a value: it sets what differs from
        the default.
        """
        return any(f"{known}.".startswith(f"{key}.") for key in keys for known in self._keys)

    def collect(self, hook: str) -> tuple[Contribution[Any], ...]:
        """Return the contributions to a hook of an earlier phase, or to one that this plugin owns.

        Raises:
            PluginError: the hook is of a later phase, of another plugin, or unknown.
        """
        return self._making.contributions(self.plugin, hook)

    def idle(self, *hooks: RunHook, unless: Literal["", "asking"] = "") -> None:
        """Say that this plugin has nothing to do at these hooks for this agent, so that calls cost nothing there.

        Call it in a contribution hook, such as `deep_capabilities`: later it has no effect.

        Args:
            hooks: the hooks.
            unless: `asking`: it still checks calls that a person is asked about or approved. So a plugin whose tools or
                capabilities raise `ApprovalRequired` by themselves adds its reason to those that others have.
        """
        self._making.rest(self.plugin, hooks, unless)

    async def send(self, event: RunEvent) -> None:
        """Send an event of a run to the plugins that listen. At run time only."""
        await self._making.observers.send(event)

    def vet(self, capability: AbstractCapability[Any]) -> None:
        """Check a capability of this plugin as the kernel will. Raises PluginError: the kernel would refuse it."""
        self._making.vet(self.plugin, capability)

    def backend(self, deps: DeepAgentDeps[Any]) -> WorkspaceBackend:
        """Return a session's backend; create it if this agent has not used it yet. At run time only.

        Raises:
            PluginError: the agent is still being created.
        """
        return self._making.backend(deps)

    def resolve_model(self, model_id: str) -> Model:
        """Resolve a model id as this agent does: by the plugins, else by Pydantic AI.

        Raises:
            pydantic_ai.UserError: no plugin and no provider knows the id, or the provider's key is not set.
        """
        found = self._making.resolve_model(model_id)
        if found is not None:
            return found
        try:
            return infer_model(model_id)
        except UserError as error:
            self._making.explain_unknown(model_id, error)
            raise

    def create_agent(
        self, model: Model | str | None = None, **parameters: Unpack[SubagentParameters]
    ) -> Agent[DeepAgentDeps[Any], Any]:
        """Create a subagent with the same kernel and policy. At run time only. Parameters can only narrow its rights.

        Raises:
            PluginError: the agent is still being created.
            TypeError: an unknown parameter, or one that a subagent cannot change.
        """
        return self._making.subagent(model, parameters)


class BackendContext(AgentContext):
    """The context that a backend factory receives: its plugin's, for one session.

    Attributes:
        session_id: the session that the backend is for. A subagent's session has its parent's id.
    """

    def __init__(self, context: AgentContext, session_id: str) -> None:
        super().__init__(context.plugin, context._making)
        self.session_id = session_id
