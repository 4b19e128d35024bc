"""Collect the types, and list them for the calling model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deep_core import AgentContext, PluginError, PromptSection

from .options import GENERAL_PURPOSE, SubAgentConfig, SubagentsOptions
from .slots import SUBAGENTS

if TYPE_CHECKING:
    from pydantic_ai import RunContext

__all__ = ["DEFAULT", "sections_of", "types_of"]

# Constants: our own values need no validator.
DEFAULT = SubAgentConfig.model_construct(
    name=GENERAL_PURPOSE,
    description="Any task of several steps.",
    instructions="You work on one task for another agent, on your own: it answers no questions.",
)
NAMED = 120
"""Maximum characters of a prepared agent's description in the section."""


def types_of(context: AgentContext) -> dict[str, SubAgentConfig]:
    """All types by name: the application's, then the plugins', general-purpose last.

    Raises:
        PluginError: two plugins contribute the same type.
    """
    options = context.options(SubagentsOptions)
    types = {kind.name: kind for kind in options.types}
    owners: dict[str, str] = {}
    for item in context.collect("deep_subagents"):
        name = item.value.name
        other = owners.setdefault(name, item.plugin)
        if other != item.plugin:
            raise PluginError(
                f"two plugins have a subagent type {name!r}: {other} and {item.plugin}. Choose one way out:\n"
                f"  [plugins.{item.plugin}] enabled = false\n"
                f"  your type {name!r} in [plugins.{context.plugin}] options.types, which replaces both",
                plugin=context.plugin,
            )
        types.setdefault(name, item.value)
    if options.include_general_purpose:
        types.setdefault(GENERAL_PURPOSE, DEFAULT)
    return types


def sections_of(context: AgentContext) -> list[PromptSection]:
    """Build the sections of one agent, without empty ones."""
    types = types_of(context)
    lines = [f"- {kind.name}: {kind.description}" for kind in types.values() if kind.name != GENERAL_PURPOSE]
    out = [PromptSection.live("prepared", lambda ctx: _prepared_text(ctx, types), needs=["task"])]
    if lines:
        text = "\n".join(["Subagent types for {tool:task}:", *lines])
        out.insert(0, PromptSection.static("types", text, needs=["task"]))
    return out


def _prepared_text(ctx: RunContext[Any], types: Mapping[str, SubAgentConfig]) -> str | None:
    agents = {name: agent for name, agent in ctx.deps.state[SUBAGENTS].items() if name not in types}
    if not agents:
        return None
    lines = [f"- {name}{_about(agent.description)}" for name, agent in agents.items()]
    return "\n".join(["More subagent types:", *lines])


def _about(description: object) -> str:
    # A description may be a template over the deps; only plain text can be shown.
    return f": {' '.join(description.split())[:NAMED]}" if isinstance(description, str) else ""
