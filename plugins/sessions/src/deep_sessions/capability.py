"""The capability through which a run reaches its session's journal and ledger."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic_ai import CallToolsNode, DeferredToolRequests, ModelRequestNode
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import (
    ApprovalRequired,
    CallDeferred,
    ModelRetry,
    ToolFailed,
    ToolFailedError,
    ToolRetryError,
)
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_graph import End

from deep_core import Ask, ToolCall, tool_facts
from deep_core.plugin_api import call_path, describe_error

from .door.plain import passed_result
from .endings import ended
from .entries import encode
from .journal import Journal
from .ledger_rows import UNKNOWN, EffectRow
from .slot import ASIDE, CALL, JOURNAL, RESPONSE_KEY, session_in

if TYPE_CHECKING:
    from pydantic_ai.models import ModelRequestContext

logger = logging.getLogger("deep.sessions")
LATE = 0.5
"""Seconds after its timeout in which a call may still end: a busy machine is late too."""

__all__ = ["JournalCapability", "key_of", "session_capabilities"]


def session_capabilities() -> list[AbstractCapability[Any]]:
    """Return what an agent needs for sessions: `create_deep_agent(capabilities=session_capabilities())`.

    It does nothing in a run without a journal.
    """
    return [JournalCapability()]


class JournalCapability(AbstractCapability[Any]):
    """Write a run's messages at each settled boundary, and its effects before and after they happen.

    It has only hooks that the kernel hosts, which cost least.
    """

    id = "deep.sessions"
    shares_context = True
    """It emits no events, so it needs no context of its own (decision 0010)."""

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: it belongs to its agent."""
        return None

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Give the response a key. Ids of calls are not unique: the key of a call is made of both."""
        if journal_of(ctx) is None or ASIDE.get():
            return response
        keyed = object.__new__(type(response))  # a copy: a scripted model may give one object twice
        vars(keyed).update(vars(response))
        keyed.metadata = {**(response.metadata or {}), RESPONSE_KEY: secrets.token_hex(6)}
        return keyed

    async def after_node_run(self, ctx: RunContext[Any], *, node: Any, result: Any) -> Any:
        """Commit at the boundaries: after each response, after each batch of tools, and at the end."""
        journal = journal_of(ctx)
        if journal is None or ASIDE.get():
            return result
        path, session = CALL.get(), session_in(ctx)
        state = ctx.deps.state if session is None else session.state
        if not path:
            if journal.enqueue is None:
                journal.enqueue = ctx.enqueue
            journal.deliver()
            journal.phase = "tool_running" if isinstance(result, CallToolsNode) else "model_running"
        if isinstance(result, End):
            output = cast("Any", result).data.output
            waits = isinstance(output, DeferredToolRequests)
            # A subagent that waits is stored with its caller, which waits too.
            if not path:
                if ctx.pending_messages and not (waits and isinstance(ctx.messages[-1], ModelRequest)):
                    return result  # not the end: Pydantic AI makes one more request, with what came during the last one
                journal.enqueue = None  # what comes while the end is written begins the next run
                data: dict[str, Any] = {"requests": output} if waits else ended("completed", ctx.messages)
                end = [encode("paused" if waits else "run_ended", data, journal.run_id)]
                status = "awaiting" if waits else "idle"
                await journal.settle("", ctx.messages, state, ctx.usage, entries=end, status=status)
        elif isinstance(node, ModelRequestNode):
            await journal.settle(path, ctx.messages, state, ctx.usage, agent=agent_name(ctx))
        elif isinstance(node, CallToolsNode) and isinstance(result, ModelRequestNode):
            request = result.request
            await journal.settle(path, ctx.messages, state, ctx.usage, results=request, agent=agent_name(ctx))
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
        if ASIDE.get():
            token = CALL.set(_key(ctx, call))
            try:
                return await handler(args)
            finally:
                CALL.reset(token)
        if journal.tap is None:
            return await self._execute(journal, ctx, call, tool_def, args, handler)
        with Told(journal, ctx, call, tool_def, args) as told:
            told.result = await self._execute(journal, ctx, call, tool_def, args, handler)
            return told.result

    async def _execute(
        self,
        journal: Journal,
        ctx: RunContext[Any],
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        token = CALL.set(key := _key(ctx, call))
        try:
            row = journal.effects.get(key)
            if row is not None:
                if row.state != "started":
                    return row.answer()
                what = on_unknown(tool_def)
                if what == "ask" and not ctx.tool_call_approved:
                    raise ApprovalRequired({"reasons": [{"kind": "guard", "text": UNKNOWN, "plugin": "sessions"}]})
                if what == "fail":
                    raise ToolFailed(UNKNOWN)
            if tool_def.timeout is not None:
                handler = _watched(tool_def, handler)
            if "read" in tool_facts(tool_def).tags:
                return passed_result(tool_def.name, await handler(args))
            await journal.put(key, EffectRow(tool_def.name))
            try:
                result = passed_result(tool_def.name, await handler(args))
            except (ApprovalRequired, CallDeferred):
                await journal.drop(key)
                raise
            except Exception as error:
                state, message = failure_of(error)
                journal.put_soon(key, EffectRow(tool_def.name, state, message=message))
                raise
            journal.put_soon(key, EffectRow.of(tool_def.name, call.tool_call_id, result))
            return result
        finally:
            CALL.reset(token)


class Told:
    """Tells watchers how a call ends."""

    result: Any = None

    def __init__(
        self, journal: Journal, ctx: RunContext[Any], call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any]
    ) -> None:
        self._journal = journal
        self._args = args
        self._facts = tool_facts(tool_def)
        self._path = CALL.get()
        self._call = call
        self._agent = agent_name(ctx)

    def __enter__(self) -> Told:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ApprovalRequired | CallDeferred):
            return
        result, outcome = self.result, "success"
        if error is not None:
            state, result = failure_of(error)
            outcome = "unknown" if result == UNKNOWN else "retried" if state == "retry" else "failed"
        call = {"call_id": self._call.tool_call_id, "tool": self._call.tool_name, "plugin": self._facts.plugin}
        self._tell("tool_ended", **call, outcome=outcome, result=result)
        if "read" not in self._facts.tags:
            self._tell("files_changed", file=str(self._args.get("path", "")))

    def _tell(self, kind: str, **fields: Any) -> None:
        self._journal.tell(kind, path=self._path, agent=self._agent, run_id=self._journal.run_id, **fields)


def failure_of(error: BaseException) -> tuple[Literal["retry", "failed"], str]:
    """Return what the model reads of a tool's exception. Pydantic AI has wrapped those that the tool itself raised."""
    if isinstance(error, ToolRetryError):
        content: object = error.tool_retry.content
        return "retry", content if isinstance(content, str) else str(error)
    if isinstance(error, ToolFailedError):
        content = error.tool_failed.content
        return "failed", content if isinstance(content, str) else str(error)
    if isinstance(error, ModelRetry):
        return "retry", error.message
    return "failed", error.message if isinstance(error, ToolFailed) else describe_error(error)


def _watched(
    tool_def: ToolDefinition, handler: Callable[[dict[str, Any]], Awaitable[Any]]
) -> Callable[[dict[str, Any]], Awaitable[Any]]:
    """Say it if a call took longer than its timeout: nothing can end a coroutine that never awaits."""

    async def watched(args: dict[str, Any]) -> Any:
        began = time.monotonic()
        result = await handler(args)  # a timeout that ended the call has raised
        took, limit = time.monotonic() - began, tool_def.timeout or 0.0
        if took > limit + LATE:
            logger.warning(
                "the tool %s has a timeout of %g s and took %.1f s: it blocked the event loop, and everything else in "
                "this process waited. Await in it, or make it a plain function, which runs in a thread",
                tool_def.name,
                limit,
                took,
            )
        return result

    return watched


def check_call(ctx: RunContext[Any], call: ToolCall) -> Ask | None:
    """Say of a call that a person is asked about that it may have run before."""
    journal, tools = journal_of(ctx), ctx.tool_manager.tools if ctx.tool_manager else None
    tool = (tools or {}).get(call.tool)
    if journal is None or tool is None or ASIDE.get():
        return None
    row = journal.effects.get(_key(ctx, ToolCallPart(call.tool, {}, call.call_id)))
    asks = row is not None and row.state == "started" and on_unknown(tool.tool_def) == "ask"
    return Ask(UNKNOWN) if asks else None


def agent_name(ctx: RunContext[Any]) -> str:
    """Return the name of the subagent that runs here; "" for the agent itself."""
    return (ctx.agent.name or "") if CALL.get() and ctx.agent is not None else ""


def journal_of(ctx: RunContext[Any]) -> Journal | None:
    """Return the journal of a run; None where nothing is stored."""
    session = session_in(ctx)
    return None if session is None else session.state[JOURNAL]


def on_unknown(definition: ToolDefinition) -> str:
    """Return what its author says of a call that may have run: `fail`, `retry` or `ask`."""
    said = (definition.metadata or {}).get("on_unknown")
    if said in ("fail", "retry", "ask"):
        return cast("str", said)
    facts = tool_facts(definition)
    return "retry" if "idempotent" in facts.tags or "read" in facts.tags else "fail"


def key_of(path: str, response: ModelResponse, index: int) -> str:
    """Return the key of a response's call: its path, the key of the response, and its place there."""
    key = call_path(f"{(response.metadata or {}).get(RESPONSE_KEY, response.run_id)}.{index}")
    return f"{path}/{key}" if path else key


def _key(ctx: RunContext[Any], call: ToolCallPart) -> str:
    path = CALL.get()
    for message in reversed(ctx.messages):
        if not isinstance(message, ModelResponse):
            continue
        equal, index = None, -1
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                index += 1
                if part is call:
                    return key_of(path, message, index)
                if equal is None and part.tool_call_id == call.tool_call_id:
                    equal = index
        if equal is not None:
            return key_of(path, message, equal)
    return f"{path}/{call_path(call.tool_call_id)}" if path else call_path(call.tool_call_id)
