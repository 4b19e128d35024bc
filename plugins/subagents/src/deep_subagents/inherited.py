"""What the subagents of an agent may do, as tags: the union of those of all tools that they may call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from deep_core import STANDARD_TAGS, ToolFacts, tool_facts

if TYPE_CHECKING:
    from pydantic_ai import RunContext, ToolDefinition
    from pydantic_ai.capabilities import AbstractCapability

    from .options import SubAgentConfig

__all__ = ["plan_of", "tags_of_children"]


def plan_of(ctx: RunContext[Any]) -> Any:
    """Return what the kernel made this run's agent from, which never changes; None if no kernel made it."""
    leaves: list[AbstractCapability[Any]] = []
    if ctx.root_capability is not None:
        ctx.root_capability.apply(leaves.append)
    # Only the kernel's own capability has one.
    return next((plan for leaf in leaves if (plan := getattr(leaf, "plan", None)) is not None), None)


def tags_of_children(plan: Any, types: Iterable[SubAgentConfig]) -> list[str]:
    """Return the tags of all that subagents of an agent may call, sorted.

    Its filter is theirs: what it hides, they have not. A type narrows further, which is not counted. An agent that no
    kernel made passes no policy on, so that its subagents may do anything.
    """
    tags = {tag for kind in types for function in kind.functions for tag in _tags_of_function(function)}
    tags |= {*STANDARD_TAGS} if plan is None else _tags_of_tools(plan.known, plan.policy.rules)
    return sorted(tags)


def _tags_of_function(function: object) -> Sequence[str]:
    definition = getattr(function, "tool_def", None)
    return (ToolFacts("", "") if definition is None else tool_facts(definition)).tags


def _tags_of_tools(known: Sequence[ToolDefinition] | None, rules: Any) -> set[str]:
    if known is None:
        # Some tools are known only in a run. A rule that names them says nothing about their tags.
        named = any(":" in str(rule) for rule in rules.shown)
        possible = [ToolFacts("", "", tags=(tag,)) for tag in STANDARD_TAGS]
        return {tag for facts in possible if named or rules.show(facts) for tag in facts.tags}
    found = [tool_facts(definition) for definition in known]
    return {tag for facts in found if rules.show(facts) and "subagent" not in facts.tags for tag in facts.tags}
