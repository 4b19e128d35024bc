"""What the subagents of an agent may do, as tags: the union of those of all tools that they may call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from deep_core import STANDARD_TAGS, ToolFacts, tool_facts

if TYPE_CHECKING:
    from pydantic_ai import RunContext, ToolDefinition
    from pydantic_ai.capabilities import AbstractCapability

    from .options import SubAgentConfig

__all__ = ["tags_of_children"]


def tags_of_children(ctx: RunContext[Any], types: Iterable[SubAgentConfig]) -> list[str]:
    """Return the tags of all that subagents of this run's agent may call, sorted.

    Its filter is theirs: what it hides, they have not. A type narrows further, which is not counted. An agent that no
    kernel made passes no policy on, so that its subagents may do anything.
    """
    tags = {tag for kind in types for function in kind.functions for tag in _tags_of_function(function)}
    tags |= _tags_of_tools(ctx)
    return sorted(tags)


def _tags_of_function(function: object) -> Sequence[str]:
    definition = getattr(function, "tool_def", None)
    return (ToolFacts("", "") if definition is None else tool_facts(definition)).tags


def _tags_of_tools(ctx: RunContext[Any]) -> set[str]:
    leaves: list[AbstractCapability[Any]] = []
    if ctx.root_capability is not None:
        ctx.root_capability.apply(leaves.append)
    made = next((leaf for leaf in leaves if hasattr(leaf, "plan")), None)  # the kernel's own capability
    plan: Any = getattr(made, "plan", None)
    if plan is None:
        return {*STANDARD_TAGS}
    known: Sequence[ToolDefinition] | None = plan.known
    rules: Any = plan.policy.rules
    if known is None:
        # Some tools are known only in a run. A rule that names them says nothing about their tags.
        named = any(":" in str(rule) for rule in rules.shown)
        possible = [ToolFacts("", "", tags=(tag,)) for tag in STANDARD_TAGS]
        return {tag for facts in possible if named or rules.show(facts) for tag in facts.tags}
    found = [tool_facts(definition) for definition in known]
    return {tag for facts in found if rules.show(facts) and "subagent" not in facts.tags for tag in facts.tags}
