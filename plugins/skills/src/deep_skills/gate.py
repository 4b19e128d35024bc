"""Check `allowed-tools` at each call, with a capability inside the policy, so that it can only add questions.

The hook `deep_check_call` is idle but for calls that ask anyway: checking every call there would cost every call. The
policy has already decided at this point; an approved call does not ask twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired

from .slot import SKILLS

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.tools import ToolDefinition

__all__ = ["AllowedTools"]


class AllowedTools(AbstractCapability[Any]):
    """Ask for approval of calls that the skills in use do not list. See `allowed.narrow`."""

    shares_context = True
    """It emits no events, so it needs no context of its own."""

    def __init__(self, *, asks: bool = True) -> None:
        self.id = "skills.allowed_tools"
        self.description = None
        self.defer_loading = False
        self.asks = asks
        """Whether approvals can be asked: with `interrupt_on=False` a skill's list has no effect."""

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: it cannot be created from a spec."""
        return None

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Let the call run, or ask."""
        if not self.asks or ctx.tool_call_approved:
            return await handler(args)
        active = ctx.deps.state[SKILLS]
        if active:
            from deep_core import ToolCall, tool_facts

            from .allowed import narrow

            call_record = ToolCall.of(tool_facts(tool_def), args, call.tool_call_id, ctx.deps.depth)
            ask = narrow(call_record, active.values())
            if ask is not None:
                reason = {"kind": ask.kind, "text": ask.reason, "plugin": "skills"}
                raise ApprovalRequired(metadata={"reasons": [reason]})
        return await handler(args)
