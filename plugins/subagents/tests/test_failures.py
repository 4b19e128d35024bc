"""Subagents that fail, hang, spend too much or are cancelled: one result per call, and no task remains."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from deep_subagents import SubagentsOptions
from deep_subagents.slots import PAUSED
from pydantic_ai import Agent, CancellationToken, DeferredToolRequests, RunContext, UsageLimits
from pydantic_ai.exceptions import CallDeferred, RunCancelled, UnexpectedModelBehavior
from pydantic_ai.usage import RunUsage

from plugins.subagents.tests.actors import Cast, Request, call, hang, outcomes, say_results, task
from tests.plugins_by_hand import Tools

pytestmark = pytest.mark.anyio
MakeAgent = Callable[..., Agent[Any, Any]]


def on_and_on(request: Request) -> Any:
    """A step that never ends."""
    number = len(request.messages)
    return call("look", f"look-{number}", path=str(number))


def others() -> set[asyncio.Task[Any]]:
    """The tasks of this loop besides the test's."""
    return {t for t in asyncio.all_tasks() if t is not asyncio.current_task() and not t.done()}


FIVE = {
    "fine": ["all is well"],
    "raises": [RuntimeError("the disk is on fire")],
    "hangs": [hang],
    "spends": [on_and_on] * 50,
    "asks": [call("run", "c1", path="x"), say_results],
}


@pytest.mark.slow
async def test_of_five_side_by_side_each_call_gets_exactly_one_result(make_agent: MakeAgent, deps: Any) -> None:
    cast = Cast({"go": [[task(name, name) for name in FIVE], say_results], **FIVE})
    before = others()
    agent = make_agent(cast.model, plugins=[SubagentsOptions(timeout=5, request_limit=4)])
    asked = await agent.run("go", deps=deps)
    assert isinstance(asked.output, DeferredToolRequests)
    assert [part.tool_call_id for part in asked.output.approvals] == ["asks"]
    so_far = outcomes(asked.all_messages())
    assert {name: outcome for name, (outcome, _) in so_far.items()} == {
        "fine": "success",
        "raises": "failed",
        "hangs": "failed",
        "spends": "failed",
    }
    assert so_far["fine"][1] == "all is well"
    assert "RuntimeError: the disk is on fire" in so_far["raises"][1]
    assert "did not finish within 5 seconds" in so_far["hangs"][1]
    assert "its limit of 4 requests" in so_far["spends"][1]
    assert all("Give it a smaller or clearer task" in text for outcome, text in so_far.values() if outcome == "failed")

    done = await agent.run(
        None,
        deps=deps,
        message_history=asked.all_messages(),
        usage=asked.usage,
        deferred_tool_results=asked.output.build_results(approve_all=True),
    )
    assert outcomes(done.all_messages())["asks"] == ("success", "success:run x")
    assert len(outcomes(done.all_messages())) == 5
    # 2 of the caller; fine 1; spends 4; asks 2. The two that failed inside a request had no answer to count.
    assert done.usage.requests == 2 + 1 + 4 + 2
    assert deps.state[PAUSED] == {}
    assert others() == before


async def test_usage_adds_up_over_all_levels(make_agent: MakeAgent, deps: Any) -> None:
    cast = Cast(
        {
            "go": [[task("a", "t1"), task("b", "t2")], "end"],
            "a": [task("c", "t3"), "end"],
            "b": [call("look", "l"), "end"],
            "c": ["end"],
        }
    )
    result = await make_agent(cast.model, subagents={"max_depth": 2}).run("go", deps=deps)
    assert result.usage.requests == len(cast.seen) == 7
    assert result.usage.tool_calls == 4


async def test_when_a_child_has_used_up_the_runs_requests_its_caller_can_still_answer(
    make_agent: MakeAgent, deps: Any
) -> None:
    cast = Cast({"go": [[task("spends", "t1"), task("fine", "t2")], say_results], **FIVE})
    result = await make_agent(cast.model).run("go", deps=deps, usage_limits=UsageLimits(request_limit=8))
    assert "request_limit of 7" in result.output
    assert "success:all is well" in result.output
    assert result.usage.requests == 8


async def test_the_tokens_of_the_run_bound_its_children(make_agent: MakeAgent, deps: Any) -> None:
    cast = Cast({"go": [task("spends", "t1"), say_results], **FIVE})
    usage = RunUsage()
    with pytest.raises(Exception, match="total_tokens_limit"):  # the caller is over the limit too
        await make_agent(cast.model).run(
            "go", deps=deps, usage=usage, usage_limits=UsageLimits(total_tokens_limit=500, request_limit=None)
        )
    assert len(cast.of("spends")) < 20


async def test_a_pause_does_not_refill_the_budget(make_agent: MakeAgent, deps: Any) -> None:
    asking: Any = [call("run", f"c{n}") for n in range(9)]
    agent = make_agent(
        Cast({"go": [task("work", "t1"), say_results], "work": asking}).model, subagents={"request_limit": 3}
    )
    result = await agent.run("go", deps=deps)
    rounds = 0
    while isinstance(result.output, DeferredToolRequests):
        rounds += 1
        result = await agent.run(
            None,
            deps=deps,
            message_history=result.all_messages(),
            deferred_tool_results=result.output.build_results(approve_all=True),
        )
    assert rounds == 3
    assert "its limit of 3 requests" in result.output


async def test_a_model_that_talks_nonsense_ends_its_own_run_only(make_agent: MakeAgent, deps: Any) -> None:
    nonsense: Any = [call("no_such_tool", f"n{n}") for n in range(9)]
    cast = Cast({"go": [[task("work", "t1"), task("fine", "t2")], say_results], "work": nonsense, **FIVE})
    result = await make_agent(cast.model).run("go", deps=deps)
    found = outcomes(result.all_messages())
    assert found["t1"][0] == "failed"
    assert UnexpectedModelBehavior.__name__ in found["t1"][1]
    assert found["t2"] == ("success", "all is well")


async def test_a_subagent_that_cancels_itself_is_a_failed_result(make_agent: MakeAgent, deps: Any) -> None:
    def stop(ctx: RunContext[Any]) -> str:
        ctx.cancel()
        return "stopping"

    cast = Cast({"go": [task("work", "t1"), say_results], "work": [call("stop", "s"), "never"]})
    result = await make_agent(cast.model, tools=[stop]).run("go", deps=deps)
    assert result.output.startswith("failed:Subagent 'general-purpose' failed: RunCancelled")


async def test_a_call_that_is_answered_outside_fails_in_a_subagent_and_it_continues(
    make_agent: MakeAgent, deps: Any
) -> None:
    def outside() -> str:
        raise CallDeferred

    cast = Cast({"go": [task("work", "t1"), say_results], "work": [call("outside", "o"), say_results]})
    result = await make_agent(cast.model, tools=[outside]).run("go", deps=deps)
    assert result.output == (
        "success:failed:This tool runs outside of the agent, which a subagent cannot do: leave it to your caller."
    )


@pytest.mark.parametrize("how", ["token", "task"])
async def test_cancelling_the_caller_reaches_every_level_and_leaves_no_task(
    make_agent: MakeAgent, deps: Any, tools: Tools, how: str
) -> None:
    hanging: list[str] = []
    all_hang = asyncio.Event()
    ended: list[str] = []

    async def wait(request: Request) -> str:
        hanging.append(request.prompt)
        if len(hanging) == 3:
            all_hang.set()
        try:
            return await hang(request)
        finally:
            ended.append(request.prompt)

    cast = Cast({"go": [[task("a", "t1"), task("b", "t2")]], "a": [wait], "b": [[task("c", "t3"), task("d", "t4")]]})
    cast.roles |= {"c": [wait], "d": [wait]}
    agent = make_agent(cast.model, subagents={"max_depth": 2})
    before, token = others(), CancellationToken()
    running = asyncio.create_task(agent.run("go", deps=deps, cancellation_token=token))
    await all_hang.wait()
    if how == "token":
        token.cancel()
        with pytest.raises(RunCancelled):
            await running
    else:
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert sorted(ended) == ["a", "c", "d"]
    assert others() == before


async def test_the_deadline_of_the_run_holds_for_its_children(make_agent: MakeAgent, deps: Any) -> None:
    cast = Cast({"go": [task("hangs", "t1")], **FIVE})
    before = others()
    with pytest.raises(RunCancelled):
        await make_agent(cast.model).run("go", deps=deps, timeout=0.3)
    assert others() == before
