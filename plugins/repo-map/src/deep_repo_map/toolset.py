"""The tool for the model."""

from __future__ import annotations

from typing import Any

from pydantic_ai import FunctionToolset, RunContext, Tool
from pydantic_core import CoreConfig, SchemaValidator, core_schema

from deep_core import SessionStates

from .options import RepoMapOptions
from .slot import MEMORY

__all__ = ["build_toolset", "create_repo_map_toolset"]

DESCRIPTION = (
    "Map code: its main files, definitions with line numbers. "
    "focus: names, paths or words to put first; also lists who uses such a name."
)


def _schema(options: RepoMapOptions) -> dict[str, Any]:
    return {
        "additionalProperties": False,
        "properties": {
            "path": {"default": ".", "type": "string"},
            "focus": {"default": [], "items": {"type": "string"}, "type": "array"},
            "tokens": {"default": options.tokens, "type": "integer"},
        },
        "type": "object",
    }


def _validator(options: RepoMapOptions) -> SchemaValidator:
    texts = core_schema.list_schema(core_schema.str_schema())
    fields = {
        "path": core_schema.with_default_schema(core_schema.str_schema(), default="."),
        "focus": core_schema.with_default_schema(texts, default_factory=list),
        "tokens": core_schema.with_default_schema(core_schema.int_schema(), default=options.tokens),
    }
    made = {name: core_schema.typed_dict_field(schema, required=False) for name, schema in fields.items()}
    return SchemaValidator(core_schema.typed_dict_schema(made, extra_behavior="forbid"), CoreConfig(title="repo_map"))


def build_toolset(options: RepoMapOptions, *, id: str = "repo_map") -> FunctionToolset[Any]:
    """Build the toolset for these options."""
    sessions = SessionStates()

    async def repo_map(ctx: RunContext[Any], path: str, focus: list[str], tokens: int) -> str:
        from .operation import draw_map  # at the first call: what it needs is of no use before

        return await draw_map(ctx.workspace, path, focus, tokens, sessions.state(ctx)[MEMORY], options)

    tool = Tool[Any].from_schema(repo_map, "repo_map", DESCRIPTION, _schema(options), takes_ctx=True)
    tool.function_schema.validator = _validator(options)
    tool.metadata = {"tags": ["read"]}
    return FunctionToolset([tool], id=id)


def create_repo_map_toolset(options: RepoMapOptions | None = None, *, id: str = "repo_map") -> FunctionToolset[Any]:
    """Create the tool for any `pydantic_ai.Agent` with a workspace.

    Args:
        options: limits; the defaults if None. `enabled` has no effect here.
        id: the toolset's id.
    """
    return build_toolset(options or RepoMapOptions(), id=id)
