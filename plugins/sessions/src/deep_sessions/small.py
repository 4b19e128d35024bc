"""`profile = "small"`: an agent for models with windows of 2,000 to 8,000 tokens."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ToolReturn

from deep_core import tool_facts

if TYPE_CHECKING:
    from pydantic_ai.messages import InstructionPart, ToolCallPart
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import RunContext, ToolDefinition

__all__ = ["SmallProfile"]

TOOLS: Final = ("read_file", "write_file", "edit_file", "execute")
"""What is offered of plugins, as far as the agent has it: with these, a model can do all work on files."""
SECTIONS: Final = 600
"""Characters of plugins' prompt sections; a section that does not fit is left out. The application's own is kept."""
RESULT: Final = 3_000
"""Characters of one result: about a tenth of the larger windows."""
CUT: Final = "\n[… {left:,} more characters: read less at once]"


class SmallProfile(AbstractCapability[Any]):
    """Offers four tools and the application's own, one call at a time, with results that fit."""

    id = "deep.sessions.small"
    shares_context = True

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: it belongs to its agent."""
        return None

    def get_model_settings(self) -> ModelSettings:
        """Let the model make one call at a time."""
        return {"parallel_tool_calls": False}

    async def prepare_tools(self, ctx: RunContext[Any], tool_defs: list[ToolDefinition]) -> list[ToolDefinition]:
        """Leave out all tools of plugins but four."""
        return [tool for tool in tool_defs if tool.name in TOOLS or tool_facts(tool).plugin == "app"]

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Leave out the sections that do not fit."""
        parameters = request_context.model_request_parameters
        if parameters.instruction_parts:
            kept = _fitting(parameters.instruction_parts)
            request_context.model_request_parameters = replace(parameters, instruction_parts=kept)
        return request_context

    async def after_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any], result: Any
    ) -> Any:
        """Cut a long result."""
        if isinstance(result, ToolReturn):
            whole = cast("ToolReturn[Any]", result)
            cut = await self.after_tool_execute(ctx, call=call, tool_def=tool_def, args=args, result=whole.return_value)
            return replace(whole, return_value=cut)
        text = _text(result)
        if text is None or len(text) <= RESULT:
            return result
        return text[:RESULT] + CUT.format(left=len(text) - RESULT)


def _text(result: object) -> str | None:
    """Return a result as the model reads it; None for what holds files."""
    if isinstance(result, str):
        return result
    return json.dumps(result, ensure_ascii=False, default=str) if isinstance(result, list | dict) else None


def _fitting(parts: list[InstructionPart]) -> list[InstructionPart]:
    left = SECTIONS
    kept: list[InstructionPart] = []
    for part in parts:
        if part.name is not None and len(part.content) > left:
            continue
        left -= len(part.content) if part.name is not None else 0
        kept.append(part)
    return kept
