"""Code mode: what a program of the model may call. A call in a program cannot wait for a person."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.tools import RunContext, ToolDefinition, matches_tool_selector

from deep_core.plugin_api import PolicyCapability

__all__ = ["only_tools_that_never_ask"]

CLASSES = ("CodeMode", "BackgroundTools")
"""Classes whose calls cannot wait: in a program, and beside the run."""


class NeverAsking:
    """Selects tools that another selector selects, and that no rule of the agent's policy asks about."""

    def __init__(self, selector: Any) -> None:
        self.selector = selector

    async def __call__(self, ctx: RunContext[Any], definition: ToolDefinition) -> bool:
        """Return whether a program may call the tool."""
        leaves: list[AbstractCapability[Any]] = []
        if ctx.root_capability is not None:
            ctx.root_capability.apply(leaves.append)
        policies = [leaf.policy for leaf in leaves if isinstance(leaf, PolicyCapability)]
        if not policies or any(policy.asks_statically(definition) != "never" for policy in policies):
            return False
        return await matches_tool_selector(self.selector, ctx, definition)


def only_tools_that_never_ask(capability: AbstractCapability[Any]) -> AbstractCapability[Any]:
    """Limit the tools of a capability that calls them where no person can be asked."""
    if type(capability).get_serialization_name() not in CLASSES or not is_dataclass(capability):
        return capability
    if "tools" not in (each.name for each in fields(capability)):
        return capability
    made = cast("Any", capability)
    return replace(made, tools=NeverAsking(made.tools))
