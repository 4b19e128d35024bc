"""One agent, many sessions: a session shares some state with its subagents, and none with other sessions."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from deep_subagents import decide
from deep_subagents.slots import PAUSED
from pydantic_ai import Agent, ConversationTypeAdapter, RunContext

from deep_core import DeepAgentDeps, Kernel, StateSlot, create_default_deps
from plugins.subagents.tests.actors import Cast, call, say_results, task
from tests.plugins_by_hand import plugin

pytestmark = pytest.mark.anyio

SHARED = StateSlot("shared", list[str], list[str], child="share")
OWN = StateSlot("own", list[str], list[str])


def note(ctx: RunContext[DeepAgentDeps[Any]], text: str) -> str:
    for slot in (SHARED, OWN):
        ctx.deps.state[slot].append(text)
    return f"shared {ctx.deps.state[SHARED]}, own {ctx.deps.state[OWN]}"


NOTES = plugin("notes", state=[SHARED, OWN])


async def test_slots_are_shared_or_fresh_as_they_declare_also_after_a_pause(make_kernel: Any) -> None:
    cast = Cast(
        {
            "go": [task("work", "t1"), call("note", "n3", text="caller"), say_results],
            "work": [
                call("note", "n1", text="before"),
                call("run", "c1"),
                call("note", "n2", text="after"),
                say_results,
            ],
        }
    )

    def fresh() -> tuple[Kernel, Agent[Any, Any]]:
        kernel = make_kernel(NOTES, strict=True)
        return kernel, kernel.create_agent(cast.model, backend="memory", tools=[note])

    kernel, agent = fresh()
    deps = create_default_deps(kernel=kernel)
    asked = await agent.run("go", deps=deps)
    assert (deps.state[SHARED], deps.state[OWN]) == (["before"], [])
    stored, session = ConversationTypeAdapter.dump_json(asked.conversation), deps.dump()
    kernel, agent = fresh()
    deps = kernel.load_deps(session)
    conversation = ConversationTypeAdapter.validate_json(stored)
    assert conversation.deferred_tool_requests is not None
    done = await agent.run(
        None,
        deps=deps,
        conversation=conversation,
        deferred_tool_results=decide(conversation.deferred_tool_requests, {"c1": True}),
    )
    assert cast.of("work")[-1].returns[-1].content == "shared ['before', 'after'], own ['before', 'after']"
    assert done.output == "success:shared ['before', 'after', 'caller'], own ['caller']"


def cast_of(sessions: int) -> Cast:
    roles: dict[str, Any] = {}
    for n in range(sessions):
        roles[f"go {n}"] = [[task(f"a {n}", "t1"), task(f"b {n}", "t2")], say_results]
        roles[f"a {n}"] = [call("note", "n", text=f"canary {n}"), say_results]
        roles[f"b {n}"] = [call("run", "c1", path=f"canary {n}"), say_results]
    return Cast(roles)


async def session(agent: Agent[Any, Any], kernel: Kernel, n: int) -> str:
    deps = create_default_deps(kernel=kernel)
    asked = await agent.run(f"go {n}", deps=deps)
    (waiting,) = deps.state[PAUSED].values()
    assert f'"canary {n}"' in waiting.conversation.replace("\\", "")
    results = asked.output.build_results(approve_all=True)
    done = await agent.run(None, deps=deps, message_history=asked.all_messages(), deferred_tool_results=results)
    assert deps.state[SHARED] == [f"canary {n}"]
    return str(done.all_messages())


def check(found: list[str]) -> None:
    for n, text in enumerate(found):
        others = [m for m in range(len(found)) if m != n and (f"canary {m}'" in text or f"canary {m}\\" in text)]
        assert f"run canary {n}" in text
        assert others == []


@pytest.mark.slow
async def test_sessions_side_by_side_on_one_loop_see_nothing_of_each_other(make_kernel: Any) -> None:
    kernel = make_kernel(NOTES, strict=True)
    agent = kernel.create_agent(cast_of(10).model, backend="memory", tools=[note])
    check(await asyncio.gather(*(session(agent, kernel, n) for n in range(10))))


@pytest.mark.slow
def test_sessions_on_threads_with_loops_of_their_own_see_nothing_of_each_other(make_kernel: Any) -> None:
    kernel = make_kernel(NOTES, strict=True)
    agent = kernel.create_agent(cast_of(8).model, backend="memory", tools=[note])

    def serve(n: int) -> str:
        return asyncio.run(session(agent, kernel, n))

    with ThreadPoolExecutor(4) as threads:
        check(list(threads.map(serve, range(8))))
