"""The two capabilities through which a run reaches its session's journal: outermost and innermost."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai import CallToolsNode, DeferredToolRequests, ModelRequestNode
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool
from pydantic_graph import End

from deep_core import DeepAgentDeps, tool_facts
from deep_core.plugin_api import DeepCapability, describe_error

from .entries import encode
from .journal import Journal
from .ledger_rows import EffectRow
from .slot import CALL, JOURNAL

if TYPE_CHECKING:
    from pydantic_ai.models import ModelRequestContext

__all__ = ["UNKNOWN", "JournalCapability", "LedgerCapability", "key_of", "session_capabilities"]

RESPONSE_KEY = "deep"
"""Where a response's metadata has its key."""
UNKNOWN = (
    "Nobody knows whether this call ran: the process ended while it was running, and its result is lost. "
    "Check before you repeat it."
)


def session_capabilities() -> list[AbstractCapability[Any]]:
    """Return both, for `create_deep_agent(capabilities=…)`. They do nothing in a run without a journal."""
    return [JournalCapability(), LedgerCapability()]


class JournalCapability(AbstractCapability[Any]):
    """Write a run's messages at each settled boundary, and answer calls that an earlier attempt ran."""

    id = "deep.sessions"

    def get_ordering(self) -> CapabilityOrdering:
        """Place it around all others, so that it sees what they made of messages and calls."""
        return CapabilityOrdering(position="outermost")

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: it belongs to its agent."""
        return None

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Give the response a key. Ids of calls are not unique: the key of a call is made of both."""
        if journal_of(ctx) is None:
            return response
        return replace(response, metadata={**(response.metadata or {}), RESPONSE_KEY: secrets.token_hex(6)})

    async def after_node_run(self, ctx: RunContext[Any], *, node: Any, result: Any) -> Any:
        """Commit at the boundaries: after each response, after each batch of tools, and at the end."""
        journal = journal_of(ctx)
        if journal is None:
            return result
        path, state = CALL.get(), ctx.deps.state
        if isinstance(result, End):
            output = cast("Any", result).data.output
            waits = isinstance(output, DeferredToolRequests)
            # A subagent that waits is stored with its caller, which waits too.
            if not path:
                kind, data = ("paused", {"requests": output}) if waits else ("run_ended", {"status": "completed"})
                end = [encode(kind, data, journal.run_id)]
                status = "awaiting" if waits else "idle"
                await journal.settle("", ctx.messages, state, ctx.usage, entries=end, status=status)
        elif isinstance(node, ModelRequestNode):
            await journal.settle(path, ctx.messages, state, ctx.usage)
        elif isinstance(node, CallToolsNode) and isinstance(result, ModelRequestNode):
            await journal.settle(path, ctx.messages, state, ctx.usage, results=result.request)
        return cast("Any", result)

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Run the call under its key, or answer it from the ledger."""
        journal = journal_of(ctx)
        if journal is None:
            return await handler(args)
        token = CALL.set(key := _key(ctx, call))
        try:
            row = journal.effects.get(key)
            if row is not None and (row.state != "started" or key in journal.unknown):
                return await self._answer(ctx, journal, key, row, tool_def, args, handler)
            return await handler(args)
        finally:
            CALL.reset(token)

    async def _answer(
        self,
        ctx: RunContext[Any],
        journal: Journal,
        key: str,
        row: EffectRow,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        if row.state != "started":
            return row.answer()
        what = on_unknown(tool_def)
        if what == "ask" and not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"reason": UNKNOWN})
        if what == "fail":
            raise ToolFailed(UNKNOWN)
        journal.unknown.discard(key)
        return await handler(args)


class LedgerCapability(AbstractCapability[Any]):
    """Write each effect before and after it happens, inside everything that others wrap around tools."""

    id = "deep.sessions.ledger"

    def get_ordering(self) -> CapabilityOrdering:
        """Place it behind the kernel's last check: what is refused there has not started."""
        return CapabilityOrdering(position="innermost", wrapped_by=[DeepCapability])

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: it belongs to its agent."""
        return None

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """Wrap the run's tools."""
        return LedgerToolset(toolset)


@dataclass
class LedgerToolset(WrapperToolset[Any]):
    """Write each effect's start and result."""

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Call the tool."""
        journal, key = journal_of(ctx), CALL.get()
        if journal is None or not key or not is_effect(tool.tool_def):
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)
        row = journal.effects.get(key)
        if row is not None and row.state != "started":
            return row.answer()  # a capability calls the tool again
        await journal.put(key, EffectRow(name))
        try:
            result = await self.wrapped.call_tool(name, tool_args, ctx, tool)
        except (ApprovalRequired, CallDeferred):
            await journal.drop(key)
            raise
        except ModelRetry as error:
            await journal.put(key, EffectRow(name, "retry", message=error.message))
            raise
        except Exception as error:
            message = error.message if isinstance(error, ToolFailed) else describe_error(error)
            await journal.put(key, EffectRow(name, "failed", message=message))
            raise
        await journal.put(key, EffectRow.of(name, ctx.tool_call_id or "", result))
        return result


def journal_of(ctx: RunContext[Any]) -> Journal | None:
    """Return the journal of a run; None where nothing is stored."""
    deps: object = ctx.deps
    return cast("DeepAgentDeps[Any]", deps).state[JOURNAL] if isinstance(deps, DeepAgentDeps) else None


def is_effect(definition: ToolDefinition) -> bool:
    """Whether a tool may change something: its author did not tag it `read`."""
    return "read" not in tool_facts(definition).tags


def on_unknown(definition: ToolDefinition) -> str:
    """Return what its author says of a call that may have run: `fail`, `retry` or `ask`."""
    said = (definition.metadata or {}).get("on_unknown")
    if said in ("fail", "retry", "ask"):
        return cast("str", said)
    facts = tool_facts(definition)
    return "retry" if "idempotent" in facts.tags or "read" in facts.tags else "fail"


def key_of(path: str, response: ModelResponse, index: int) -> str:
    """Return the key of a response's call: its path, the key of the response, and its place there."""
    key = f"{(response.metadata or {}).get(RESPONSE_KEY, response.run_id)}.{index}"
    return f"{path}/{key}" if path else key


def _key(ctx: RunContext[Any], call: ToolCallPart) -> str:
    path = CALL.get()
    for message in reversed(ctx.messages):
        if isinstance(message, ModelResponse):
            calls = message.tool_calls
            same = [index for index, part in enumerate(calls) if part is call]
            same += [index for index, part in enumerate(calls) if part.tool_call_id == call.tool_call_id]
            if same:
                return key_of(path, message, same[0])
    return f"{path}/{call.tool_call_id}" if path else call.tool_call_id
