"""The records of one agent: what plugins contributed to it, and the plan that it is built from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_ai import ToolDefinition
    from pydantic_ai.capabilities import AbstractCapability, AgentCapability

    from ..plugins.config import Config
    from ..plugins.contributions import Contribution, Processor
    from ..plugins.dispatch import Caller, Incidents
    from ..plugins.kernel import PluginKernel
    from ..plugins.options import PluginOptions
    from ..plugins.settings import PluginSettings
    from .config import AgentConfig
    from .context import AgentContext
    from .policy.decisions import Policy
    from .policy.native_tools import NativeTools
    from .run.session import Deps
    from .run.workspace import Workspaces
    from .sections import PromptSection
    from .spec import CallerSpec
    from .tools.toolsets import Toolbox


@dataclass(frozen=True, eq=False, repr=False)
class Contributed:
    """What configuration, code and plugins contributed to one agent.

    Attributes:
        spec: the caller's parameters.
        config: the layers of configuration, with the caller's on top.
        agent_config: `[agent]`, validated.
        settings: `[plugins.x]` of each plugin that the caller does not leave out.
        options: the validated options of plugins.
        plugins: the agent's plugins, without those that failed.
        contexts: what each plugin's hooks receive; `app` for the application.
        caller: calls hooks, and records failures in `incidents`.
        incidents: where failures are recorded; strict ones let a tool's exception through.
        collected: the contributions to each hook. A plugin may collect its own hook later, in a run.
        dropped: plugins that failed for this agent: their status and the reason.
        checks: the plugins that check calls.
        asking: the plugins that check only calls that ask.
        listeners: the plugins that listen to the events of runs.
    """

    spec: CallerSpec
    config: Config
    agent_config: AgentConfig
    settings: Mapping[str, PluginSettings]
    options: Mapping[str, PluginOptions]
    plugins: tuple[str, ...]
    contexts: Mapping[str, AgentContext]
    caller: Caller
    incidents: Incidents
    collected: Mapping[str, Sequence[Contribution[Any]]]
    dropped: Mapping[str, tuple[str, str]]
    checks: tuple[str, ...]
    asking: tuple[str, ...]
    listeners: tuple[str, ...]

    @property
    def kernel(self) -> PluginKernel:
        """Who makes the agent."""
        return self.spec.kernel

    def to(self, hook: str) -> list[Contribution[Any]]:
        """Return the contributions to a hook, in order."""
        return [c for c in self.collected[hook] if c.plugin not in self.dropped]


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """One agent, complete: what it is built from, and what its parts use in a run.

    Attributes:
        contributed: what it was planned from.
        policy: decides on every call.
        toolbox: all tools.
        static: the static sections, in order.
        live: the live sections, in order.
        processors: the history processors, by phase, then in plugin order.
        workspaces: the backends.
        capabilities: the plugins' capabilities, each with its plugin.
        own: the application's capabilities.
        native_tools: which of the provider's own tools are sent.
        known: the offered tools; None if some are known only in a run.
    """

    contributed: Contributed
    policy: Policy
    toolbox: Toolbox
    static: Sequence[Contribution[PromptSection]]
    live: Sequence[Contribution[PromptSection]]
    processors: Sequence[Contribution[Processor]]
    workspaces: Workspaces
    capabilities: Sequence[tuple[str, AbstractCapability[Deps]]]
    own: Sequence[AgentCapability[Deps]]
    native_tools: NativeTools
    known: Sequence[ToolDefinition] | None

    @property
    def kernel(self) -> PluginKernel:
        """Who made the agent."""
        return self.contributed.kernel

    @property
    def owners(self) -> dict[str, str]:
        """Capability id -> the plugin that contributed it."""
        return {capability.id or "": plugin for plugin, capability in self.capabilities}

    @property
    def tool_names(self) -> set[str]:
        """Every tool that there is, also those that rules withhold; those of a server once it has listed them."""
        static = (member.static_definitions() or () for member in self.toolbox.members)
        return self.policy.tools.names | {definition.name for found in static for definition in found}

    @property
    def guards(self) -> set[str]:
        """The plugins that check calls or redact texts: a subagent is not made without them."""
        redactors = (c.plugin for c in self.contributed.to("deep_history_processors") if c.value.phase == "redact")
        return {*self.contributed.checks, *redactors}
