"""Where `allowed-tools` is asked about each call: a capability inside the policy, so it can only add questions.

A capability and not the hook `deep_check_call`: that hook is told the call, not the session, and which skills are in
use is the session's. The policy has decided already when this is reached; an approved call is not asked about twice.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai import DeferredToolRequests
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired

from deep_core import ToolCall

from .allowed import narrowed
from .slot import SKILLS

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.agent import AbstractAgent
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.tools import ToolDefinition

__all__ = ["AllowedTools"]


class AllowedTools(AbstractCapability[Any]):
    """Asks for approval of calls that the skills in use do not list. See `allowed.narrowed`."""

    def __init__(self) -> None:
        self.id = "skills.allowed_tools"
        self.description = None
        self.defer_loading = False
        self.asks = False

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Not made from a spec: it belongs to the plugin."""
        return None

    def for_agent(self, agent: AbstractAgent[Any, Any]) -> AbstractCapability[Any]:
        """With `interrupt_on=False` there is nobody to ask: then a skill's list holds nothing up."""
        bound = copy.copy(self)
        output: object = agent.output_type
        outputs = cast("Iterable[object]", output) if isinstance(output, list | tuple) else [output]
        bound.asks = any(kind is DeferredToolRequests for kind in outputs)
        return bound

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Let the call through, or ask."""
        if not self.asks or ctx.tool_call_approved:
            return await handler(args)
        active = ctx.deps.state[SKILLS]
        if active:
            about = tool_def.metadata or {}
            described = ToolCall(
                tool=tool_def.name,
                original=about.get("original", tool_def.name),
                plugin=about.get("plugin", "app"),
                tags=frozenset(about.get("tags", ("write",))),  # what the kernel takes an untagged tool for
                args=args,
                call_id=call.tool_call_id,
                depth=ctx.deps.depth,
            )
            ask = narrowed(described, active.values())
            if ask is not None:
                raise ApprovalRequired(metadata={"plugin": "skills", "reason": ask.reason})
        return await handler(args)
