"""A universe of an agent's tools: selected and rendered like any other, executed under the agent's policy."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ToolFailed

from deep_core.plugin_api import DeepCapability

from .agents import Approve, ToolSession, agent_tools
from .drivers import default_drivers
from .errors import CallDenied
from .tools import PreparedCall, UniverseTool

if TYPE_CHECKING:
    from pydantic_ai import Agent
    from pydantic_ai.tools import ToolDefinition

    from .driver import ToolDriver
    from .universe import Universe

__all__ = ["AgentTool", "agent_universe"]


@asynccontextmanager
async def agent_universe(
    kind: type[Universe],
    agent: Agent[Any, Any],
    *,
    deps: object = None,
    approve: Approve | None = None,
    drivers: Iterable[ToolDriver] | None = None,
) -> AsyncGenerator[Universe]:
    """Make a universe of every tool of an agent, and keep the agent's toolsets open. See `Universe.from_agent`."""
    async with agent_tools(agent, deps) as tools:
        session = tools.session(deps)
        universe = kind(_drivers(agent) if drivers is None else drivers)
        for definition in tools.definitions:
            universe.register_tool(AgentTool(definition, session, approve))
        yield universe


class AgentTool(UniverseTool):
    """A tool of an agent. Each call is a run of the agent: its validation, policy, events and redaction apply.

    Args:
        definition: the tool, as the agent offers it.
        session: where it is called.
        approve: decides on calls that ask; None refuses them.
    """

    def __init__(self, definition: ToolDefinition, session: ToolSession, approve: Approve | None = None) -> None:
        super().__init__(definition)
        self._session = session
        self._approve = approve

    async def prepare(self, arguments: Mapping[str, Any], context: Mapping[str, Any]) -> PreparedCall:
        """Prepare a call. The agent validates when it is executed, and takes its values from its own deps."""
        return partial(self._execute, dict(arguments))

    async def _execute(self, arguments: dict[str, Any]) -> Any:
        outcome = await self._session.call(self.name, arguments, self._approve)
        if outcome.status == "waiting":
            outcome = await self._session.refuse(outcome)
        if outcome.status == "refused":
            raise CallDenied(outcome.text)
        if outcome.status != "done":
            raise ToolFailed(outcome.text) from outcome.error
        return outcome.value


def _drivers(agent: Agent[Any, Any]) -> list[ToolDriver]:
    """Return the drivers of the agent's kernel; those of this package if no kernel with this plugin made it."""
    from .contributed import drivers_of

    capabilities: list[AbstractCapability[Any]] = []
    agent.root_capability.apply(capabilities.append)
    kernels = [capability.plan.kernel for capability in capabilities if isinstance(capability, DeepCapability)]
    if kernels and "universe" in kernels[0].active:
        return drivers_of(kernels[0])
    return default_drivers()
