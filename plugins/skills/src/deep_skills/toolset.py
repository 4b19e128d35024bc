"""The three tools for the model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic_ai import FunctionToolset, RunContext, Tool
from pydantic_core import SchemaValidator, core_schema

from .options import SkillsOptions

if TYPE_CHECKING:
    import logging

    from deep_core import SkillLoader

    from .operations import Operations

__all__ = ["build_toolset"]

LIST_DESCRIPTION = "Find skills by words, or list all."
LOAD_DESCRIPTION = "Read a skill's instructions, before the task it is for."
READ_DESCRIPTION = "Read a file of a skill."
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
LIST_SCHEMA: dict[str, Any] = {"type": "object", "properties": {"query": TEXT, "offset": NUMBER}}
LOAD_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"skill_name": TEXT, "offset": NUMBER},
    "required": ["skill_name"],
}
READ_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"skill_name": TEXT, "resource_name": TEXT, "offset": NUMBER},
    "required": ["skill_name", "resource_name"],
}


class SkillTools:
    """The tools' signatures; `operations.py` does the work, and is loaded at the first call."""

    def __init__(
        self, loaders: Callable[[], Sequence[SkillLoader]], options: SkillsOptions, logger: logging.Logger | None
    ) -> None:
        self._loaders = loaders
        self._options = options
        self._logger = logger

    @cached_property
    def _operations(self) -> Operations:
        from .library import Library
        from .operations import Operations

        return Operations(Library(self._loaders, self._logger), self._options)

    async def list_skills(self, ctx: RunContext[Any], **arguments: Any) -> str:
        return await self._operations.list_skills(ctx, arguments)

    async def load_skill(self, ctx: RunContext[Any], **arguments: Any) -> str:
        return await self._operations.load_skill(ctx, arguments)

    async def read_skill_resource(self, ctx: RunContext[Any], **arguments: Any) -> str:
        return await self._operations.read_skill_resource(ctx, arguments)


def build_toolset(
    loaders: Callable[[], Sequence[SkillLoader]],
    options: SkillsOptions,
    *,
    logger: logging.Logger | None = None,
    id: str = "skills",
) -> FunctionToolset[Any]:
    """Build the toolset over some loaders. It holds no session: the skills in use are in `ctx.deps.state`.

    Args:
        loaders: called each time: while hooks are being called, not all loaders are known yet.
        options: of the agent.
        logger: logs each problem once; None if the catalog does.
        id: the toolset's id.
    """
    tools = SkillTools(loaders, options, logger)
    return FunctionToolset(
        [
            _tool(tools.list_skills, LIST_DESCRIPTION, LIST_SCHEMA),
            _tool(tools.load_skill, LOAD_DESCRIPTION, LOAD_SCHEMA),
            _tool(tools.read_skill_resource, READ_DESCRIPTION, READ_SCHEMA),
        ],
        id=id,
    )


def _tool(function: Callable[..., Awaitable[str]], description: str, schema: dict[str, Any]) -> Tool[Any]:
    # The shown schema is terse; validation accepts any object, and wrong arguments get a more helpful answer.
    tool = Tool[Any].from_schema(function, function.__name__, description, schema, takes_ctx=True)
    tool.function_schema.validator = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))
    tool.metadata = {"tags": ["read"]}
    return tool
