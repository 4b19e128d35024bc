"""What can be set for subagents, and what a type of subagent is."""

# No postponed annotations: pydantic would compile and evaluate the text of each while the class is made.
from collections.abc import Sequence
from typing import Any

from pydantic import Field, InstanceOf, field_validator
from pydantic.json_schema import SkipJsonSchema
from pydantic_ai.models import Model

from deep_core import PluginOptions, ToolExpression
from deep_core.plugin_api import as_expression

__all__ = ["GENERAL_PURPOSE", "SubAgentConfig", "SubagentsOptions"]

GENERAL_PURPOSE = "general-purpose"
"""The type that `task` starts when the model names none."""


class SubAgentConfig(PluginOptions):
    """One type of subagent.

    What is not said here (model, tools, approvals, filters, options, limits) a subagent has from its caller.
    """

    name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,39}$")
    """What the model writes as `subagent_type`."""
    description: str = Field(min_length=1, max_length=400)
    """When to use it, for the calling model: paid on every request, so keep it to a sentence."""
    instructions: str = Field(min_length=1, max_length=100_000)
    """What the subagent is told besides its task."""
    tools: ToolExpression | str | Sequence[str] | None = None
    """Which of the caller's tools it has: a tool expression, or a list of names. None means all. It can only narrow."""
    model: str | SkipJsonSchema[InstanceOf[Model]] | None = None
    """Which model it uses: an id, or in code a Pydantic AI model. None means the caller's."""

    @field_validator("tools", mode="before")
    @classmethod
    def _expression(cls, tools: Any) -> Any:
        return tools if tools is None else as_expression(tools)

    @field_validator("description")
    @classmethod
    def _one_line(cls, text: str) -> str:
        return " ".join(text.split())


class SubagentsOptions(PluginOptions):
    """Options of the plugin `subagents`."""

    types: tuple[SubAgentConfig, ...] = Field(default=(), json_schema_extra={"trusted": True})
    """Types besides general-purpose. One called `general-purpose` takes that one's place."""
    include_general_purpose: bool = True
    """Whether `task` can start a subagent of no special type."""
    max_depth: int = Field(default=1, ge=1, le=5, json_schema_extra={"trusted": True})
    """How many levels of subagents there may be: 1 means that a subagent starts none itself."""
    request_limit: int | None = Field(default=40, ge=1, json_schema_extra={"trusted": True})
    """Requests that one subagent may make to its model, beside the limits of the run it belongs to."""
    timeout: float | None = Field(default=900, gt=0, le=86_400)
    """Seconds that a subagent may take, the time it waits for a person not counted."""
    max_result_chars: int = Field(default=16_000, ge=200, le=1_000_000)
    """Characters of a subagent's report that its caller gets."""

    @field_validator("types")
    @classmethod
    def _names_differ(cls, types: tuple[SubAgentConfig, ...]) -> tuple[SubAgentConfig, ...]:
        names = [kind.name for kind in types]
        double = next((name for name in names if names.count(name) > 1), None)
        if double is not None:
            raise ValueError(f"two types are called {double!r}; give each its own name")
        return types
