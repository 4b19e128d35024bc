"""A run with everything in it: parallel tools, a subagent, approvals in both, a compaction. Its effects are counted.

The model holds no state: it answers what the conversation has come to, so any process can continue it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import deep_backends
import deep_sessions
import deep_subagents
import deep_todo
from deep_sessions import Runner, SessionStore, session_capabilities
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, FunctionToolset
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from deep_core import Kernel, Processor
from tests.plugins_by_hand import plugin

__all__ = ["EFFECTS", "PROMPT", "Record", "finish", "make_runner"]

PROMPT = "go"
STEPS: dict[int, list[tuple[str, int]]] = {
    0: [("put", 1), ("put", 2), ("look", 3)],
    3: [("task", 4), ("put", 5)],
    5: [("run", 6), ("put", 7)],
    7: [("put", 8), ("look", 9)],
    9: [("plan", 10)],
    10: [("put", 11)],
}
"""The highest number so far -> the next calls of the agent."""
CHILD: dict[int, list[tuple[str, int]]] = {
    0: [("put", 101), ("look", 102), ("put", 103)],
    103: [("run", 104), ("put", 105)],
    105: [("put", 106)],
}
EFFECTS = {1, 2, 5, 6, 7, 8, 11, 101, 103, 104, 105, 106}
"""The numbers of all calls that change something."""
Record = Callable[[int], Awaitable[None]]


def _answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    calls = [part for m in messages if isinstance(m, ModelResponse) for part in m.tool_calls]
    done = max((int(call.args_as_dict().get("n") or call.args_as_dict()["description"]) for call in calls), default=0)
    prompts = [
        p.content for m in messages if isinstance(m, ModelRequest) for p in m.parts if isinstance(p, UserPromptPart)
    ]
    steps = CHILD if done > 100 or any(str(text) == "4" for text in prompts) else STEPS
    if done not in steps:
        return ModelResponse([TextPart(f"finished after {done}")])
    parts: list[ToolCallPart] = []
    for tool, n in steps[done]:
        args = {"description": str(n)} if tool == "task" else {"n": n}
        # Ids are numbered anew in each response, as some models do.
        parts.append(ToolCallPart(tool, args, f"call_{len(parts)}"))
    return ModelResponse(parts)


def _shorten(messages: list[ModelMessage]) -> list[ModelMessage]:
    """Cut the history to its last four messages when it has ten, never between a call and its result."""
    return messages if len(messages) < 9 else [ModelRequest([UserPromptPart("(cut)")]), *messages[-4:]]


def make_runner(
    store: SessionStore, record: Record, *, capabilities: Sequence[Any] = (), **how: Any
) -> tuple[Kernel, Runner]:
    """A kernel, an agent and a runner, as a fresh process has them."""
    tools: FunctionToolset[Any] = FunctionToolset(id="things")

    async def put(n: int) -> dict[str, int]:
        await record(n)
        return {"did": n}

    async def look(n: int) -> dict[str, int]:
        return {"saw": n}

    async def plan(n: int) -> str:
        return "planned"

    tools.add_function(put, metadata={"tags": ["write"]})
    tools.add_function(put, name="run", metadata={"tags": ["execute"]}, requires_approval=True)
    tools.add_function(look, metadata={"tags": ["read"]})
    tools.add_function(plan, metadata={"tags": ["read"]})
    things = plugin("things", toolsets=[tools], processors=[Processor("shorten", _shorten)])
    kernel = Kernel(
        plugins=[deep_sessions, deep_backends, deep_subagents, deep_todo, things], discover=False, strict=True
    )
    agent: Agent[Any, Any] = kernel.create_agent(
        FunctionModel(_answer), backend="memory", capabilities=[*session_capabilities(), *capabilities]
    )
    return kernel, Runner(agent, store, kernel=kernel, **how)


def approve(requests: DeferredToolRequests) -> DeferredToolResults:
    """Approve everything."""
    return requests.build_results(approve_all=True)


async def finish(store: SessionStore, record: Record, session_id: str = "s", **how: Any) -> str:
    """Run the session to its end, each attempt as a fresh process: asked in one, answered in another."""
    status = ""
    while status != "completed":
        kernel, runner = make_runner(store, record, **how)
        try:
            status = await _step(runner, session_id)
        finally:
            kernel.close()
    return status


async def _step(runner: Runner, session_id: str) -> str:
    from deep_sessions import NothingToResume, SessionNotFound

    try:
        outcome = await runner.resume(session_id)
    except SessionNotFound:
        outcome = await runner.run(session_id, PROMPT, run_id="run-1")
    except NothingToResume:
        info = await runner.store.info(session_id)
        if info.seq > 0:
            return "completed"
        outcome = await runner.run(session_id, PROMPT, run_id="run-1")
    if outcome.error is not None:
        raise outcome.error
    if outcome.status == "awaiting":
        assert outcome.requests is not None
        await runner.decide(session_id, approve(outcome.requests))
    return outcome.status
