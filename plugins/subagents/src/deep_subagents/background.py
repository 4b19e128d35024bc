"""Background tasks: subagents that work beside their caller's run, and end with it.

A task has a record in the session, which is stored, and while it works an `asyncio.Task`, which is not. What it does is
not in a journal, so it is never run again: after a crash it is lost. If it waits for a person, it becomes the paused
subagent of the `task_status` call that finds it, and continues in that call as a `task` would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic_ai import ConversationTypeAdapter, DeferredToolRequests, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired, ToolFailed

from deep_core import DeepAgentDeps
from deep_core.plugin_api import call_path, suggest

from .approvals import waiting_metadata
from .background_task import BackgroundTask
from .paused_child import calling_run, paused_key
from .slots import BACKGROUND, PAUSED, WORKING

if TYPE_CHECKING:
    from pydantic_ai.run import AgentRunResult

    from .children import Child

__all__ = ["BackgroundTasks", "cancel", "start", "status"]

MOST = 10
"""Tasks of one session that may work at once."""
KEPT = 20
"""Tasks whose report was given that a session remembers."""
SHOWN = 80
"""Characters of a task's description in its status."""


def start(ctx: RunContext[DeepAgentDeps[Any]], child: Child, description: str) -> str:
    """Start a subagent beside the run; return what the caller's model reads.

    Raises:
        ToolFailed: too many work already.
    """
    records, working = ctx.deps.state[BACKGROUND], ctx.deps.state[WORKING]
    if len(working) >= MOST:
        raise ToolFailed(f"{MOST} background tasks are under way: wait for one with task_status, or cancel one.")
    for old in [name for name, record in records.items() if record.is_told][:-KEPT]:
        del records[old]
    number = 1 + max((int(name[1:]) for name in records), default=0)
    name = f"b{number}"
    record = records[name] = BackgroundTask(child.name, description)
    # An id of its own: two background tasks of one call id would share a paused subagent.
    own = replace(ctx, tool_call_id=name, tool_call_approved=False, tool_call_metadata=None)
    working[name] = asyncio.create_task(_work(own, child, record))
    return f"Started {name}. task_status reports on it. It is stopped when you give your final answer."


async def _work(ctx: RunContext[DeepAgentDeps[Any]], child: Child, record: BackgroundTask) -> None:
    name, state = ctx.tool_call_id or "", ctx.deps.state
    journal = state.get("session_journal")  # of deep-sessions
    try:
        with journal.aside() if journal is not None else nullcontext():
            record.report = await child.start(ctx, record.description)
        record.status = "done"
    except ApprovalRequired:
        record.paused = state[PAUSED].pop(call_path(str(calling_run(ctx)), name))
        record.status = "waiting"
    except ToolFailed as error:
        record.status, record.report = "failed", error.message
    except asyncio.CancelledError:
        record.status, record.report = "stopped", "It was stopped. Its changes remain."
        raise
    finally:
        state[WORKING].pop(name, None)


async def status(
    ctx: RunContext[DeepAgentDeps[Any]], arguments: Mapping[str, Any], child_of: Callable[[str], Child]
) -> str:
    """Report on background tasks: without a name, on those whose report was not given yet.

    Raises:
        ApprovalRequired: one of them waits for a person, who is asked now.
        ToolFailed: there is no such task.
    """
    records, working = ctx.deps.state[BACKGROUND], ctx.deps.state[WORKING]
    await _resume_asked(ctx, records, child_of)
    names = _find(records, arguments["task"]) if arguments.get("task") else _untold(records)
    if arguments.get("wait") in (True, "true"):
        await _wait(working[name] for name in names if name in working)
    for name in names:
        _ask_person(ctx, records[name])
    lines: list[str] = []
    for name in names:
        record = records[name]
        about = f"{name} ({record.subagent_type}: {record.description[:SHOWN]})"
        if name in working:
            lines.append(f"{about} is running.")
        elif record.status == "waiting":
            lines.append(f"{about} waits for a person.")
        else:
            lost = record.status == "running"
            text = "It ended with its process, and is not run again. Its changes remain." if lost else record.report
            lines.append(f"{about} {'is lost' if lost else record.status}:\n{text}")
            record.is_told = True
    return "\n\n".join(lines) or "There are no background tasks."


def _ask_person(ctx: RunContext[DeepAgentDeps[Any]], record: BackgroundTask) -> None:
    """If the task waits, let the call wait in its place, with the task as its paused subagent. Ask only once."""
    if record.status != "waiting" or record.paused is None:
        return
    if record.asked is not None:
        if any(p.part_kind == "tool-return" and p.tool_call_id == record.asked for m in ctx.messages for p in m.parts):
            record.status, record.report = "stopped", "A person refused what it asked for. Its changes remain."
        return
    call_id, run = ctx.tool_call_id or "", calling_run(ctx)
    conversation = ConversationTypeAdapter.validate_json(record.paused.conversation)
    record.asked = call_id
    paused = replace(record.paused, owner=ctx.conversation_id, call_id=call_id, calling_run=run)
    ctx.deps.state[PAUSED][call_path(str(run), call_id)] = paused
    requests = conversation.deferred_tool_requests or DeferredToolRequests()
    raise ApprovalRequired(metadata=waiting_metadata(record.subagent_type, call_id, requests))


async def _resume_asked(
    ctx: RunContext[DeepAgentDeps[Any]], records: Mapping[str, BackgroundTask], child_of: Callable[[str], Child]
) -> None:
    """Continue the task that this call asked about, if a person has decided; not beside the run any more."""
    waiting = ctx.deps.state[PAUSED]
    key = paused_key(ctx, waiting) if ctx.tool_call_approved else ""
    record = next((each for each in records.values() if each.asked == ctx.tool_call_id and each.paused), None)
    if not key or record is None:
        return
    try:
        record.report, record.status = await child_of(record.subagent_type).resume(ctx, waiting[key]), "done"
    except ToolFailed as error:
        record.status, record.report = "failed", error.message
    waiting.pop(key, None)
    record.paused = record.asked = None


async def cancel(ctx: RunContext[DeepAgentDeps[Any]], arguments: Mapping[str, Any]) -> str:
    """Stop a background task, and wait until it has stopped.

    Raises:
        ToolFailed: there is no such task.
    """
    records, working = ctx.deps.state[BACKGROUND], ctx.deps.state[WORKING]
    (name,) = _find(records, arguments.get("task"))
    task = working.get(name)
    if task is not None:
        task.cancel()
        await _wait([task])
    records[name].status, records[name].is_told = "stopped", True
    return f"Stopped {name}. Its changes remain." if task is not None else f"{name} was not running; it is dropped."


def _untold(records: Mapping[str, BackgroundTask]) -> list[str]:
    return [name for name, record in records.items() if not record.is_told]


def _find(records: Mapping[str, BackgroundTask], name: object) -> list[str]:
    if not isinstance(name, str) or name not in records:
        known = ", ".join(_untold(records)) or "none"
        raise ToolFailed(f"There is no background task {name!r}.{suggest(str(name), records)} Tasks: {known}.")
    return [name]


async def _wait(tasks: Iterable[asyncio.Task[None]]) -> None:
    if waiting := [*tasks]:
        await asyncio.wait(waiting)


class BackgroundTasks(AbstractCapability[Any]):
    """Ends background tasks with the run that started them.

    If the run waits for a person, its tasks end first, or wait too. With any other end they are stopped.
    """

    async def wrap_run(
        self, ctx: RunContext[DeepAgentDeps[Any]], *, handler: Callable[[], Awaitable[AgentRunResult[Any]]]
    ) -> Any:
        """Run, then wait for the tasks, or stop them."""
        state = ctx.deps.state
        try:
            result = await handler()
            if isinstance(result.output, DeferredToolRequests):
                await _wait(state[WORKING].values())
                await self._write(ctx)
            return result
        finally:
            tasks = [*state[WORKING].values()]
            for task in tasks:
                task.cancel()
            await _wait(tasks)
            if tasks:
                await self._write(ctx)

    @staticmethod
    async def _write(ctx: RunContext[DeepAgentDeps[Any]]) -> None:
        """Store how the tasks ended: the run has settled before."""
        state = ctx.deps.state
        journal = state.get("session_journal")
        if journal is not None and ctx.deps.depth == 0:
            await journal.write_slots({BACKGROUND.name: state.dump().get(BACKGROUND.name)})
