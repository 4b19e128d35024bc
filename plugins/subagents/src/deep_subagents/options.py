"""The options of subagents, and of a type of subagent."""

# No postponed annotations: pydantic would compile and evaluate the text of each at class creation.
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from pydantic import AfterValidator, Field, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from deep_core import PluginOptions, ToolExpression
from deep_core.plugin_api import as_expression

__all__ = ["GENERAL_PURPOSE", "SubAgentConfig", "SubagentsOptions"]

GENERAL_PURPOSE = "general-purpose"
"""The default type of `task`."""

if TYPE_CHECKING:
    from pydantic_ai.models import Model
else:  # commands that run no agent read options too, and Pydantic AI is most of their time

    def _is_model(value):
        from pydantic_ai.models import Model

        if not isinstance(value, Model):
            raise ValueError("it is an id, or in code a Pydantic AI model")
        return value

    Model = Annotated[Any, AfterValidator(_is_model)]


class SubAgentConfig(PluginOptions):
    """One type of subagent.

    Values that are not set (model, tools, approvals, filters, options, limits) are the caller's.
    """

    name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,39}$")
    """The model's value for `subagent_type`."""
    description: str = Field(min_length=1, max_length=400)
    """When to use it, for the calling model. Every request has it, so keep it to a sentence."""
    instructions: str = Field(min_length=1, max_length=100_000)
    """The subagent's instructions besides its task."""
    tools: ToolExpression | str | Sequence[str] | None = None
    """Which of the caller's tools it has: a tool expression, or a list of names. None means all. It can only narrow."""
    model: str | SkipJsonSchema[Model] | None = None
    """Its model: an id, or in code a Pydantic AI model. None means the caller's."""

    functions: SkipJsonSchema[tuple[Any, ...]] = Field(default=(), exclude=True)
    """In code: functions, and `pydantic_ai.Tool`s, that it has besides. They may stand in a list `tools`, too."""

    @model_validator(mode="before")
    @classmethod
    def _split_tools(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        data = cast("Mapping[str, Any]", given)
        tools = data.get("tools")
        if not isinstance(tools, list | tuple):
            return data
        items = cast("Sequence[object]", tools)
        functions: list[object] = [item for item in items if _is_function(item)]
        names = [item for item in items if item not in functions]
        # An empty list is no tool; a list of functions alone leaves the caller's tools as they are.
        kept = names or (None if functions else [])
        return {**data, "tools": kept, "functions": (*data.get("functions", ()), *functions)}

    @field_validator("tools", mode="before")
    @classmethod
    def _expression(cls, tools: Any) -> Any:
        try:
            return tools if tools is None else as_expression(tools)
        except TypeError as error:
            raise ValueError(f"{error}; give names of tools, functions, or a tool expression") from error

    @field_validator("functions")
    @classmethod
    def _are_functions(cls, given: tuple[Any, ...]) -> tuple[Any, ...]:
        for item in given:
            if not _is_function(item):
                raise ValueError(f"{item!r:.80} is not a function; names of tools go into `tools`")
        return given

    @field_validator("description")
    @classmethod
    def _one_line(cls, text: str) -> str:
        return " ".join(text.split())


def _is_function(item: object) -> bool:
    if isinstance(item, str) or callable(item):
        return not isinstance(item, str)
    from pydantic_ai import Tool

    return isinstance(item, Tool)


class SubagentsOptions(PluginOptions):
    """Options of the plugin `subagents`."""

    from_list: ClassVar[str] = "types"

    types: tuple[SubAgentConfig, ...] = ()
    """Types besides general-purpose. One named `general-purpose` replaces it."""
    include_general_purpose: bool = Field(default=True, json_schema_extra={"project": "off"})
    """Whether `task` has the type general-purpose."""
    max_depth: int = Field(default=1, ge=1, le=5, json_schema_extra={"project": "lower"})
    """Maximum levels of subagents, at most 5: 1 means that a subagent cannot start one."""
    request_limit: int | None = Field(default=40, ge=1, json_schema_extra={"project": "lower"})
    """Maximum requests of one subagent over all its pauses, beside the run's limits. None in code: no other limit."""
    timeout: float | None = Field(default=900, gt=0, le=86_400, json_schema_extra={"project": "lower"})
    """Time limit of a subagent in seconds, without waits for approvals. None in code: no limit."""
    max_result_chars: int = Field(default=16_000, ge=200, le=1_000_000, json_schema_extra={"project": "lower"})
    """Maximum characters of a subagent's report."""
    background: bool = Field(default=False, json_schema_extra={"project": "off"})
    """Offer `task(background=true)`, `task_status` and `task_cancel`."""

    @field_validator("types")
    @classmethod
    def _names_differ(cls, types: tuple[SubAgentConfig, ...]) -> tuple[SubAgentConfig, ...]:
        names = [kind.name for kind in types]
        double = next((name for name in names if names.count(name) > 1), None)
        if double is not None:
            raise ValueError(f"two types are named {double!r}; rename one")
        return types
