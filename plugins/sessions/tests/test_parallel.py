"""`tools_policy.max_parallel`: how many calls of a run execute at once."""

from __future__ import annotations

import asyncio

import deep_subagents
import pytest
from deep_sessions import AgentDeps, DeepAgent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from plugins.sessions.tests.scripted import Scripted, call, create, kernel, put, results

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(("most", "peak"), [(1, 1), (2, 2), (None, 6)])
async def test_tools_policy_max_parallel_bounds_the_calls_and_keeps_their_order(most: int | None, peak: int) -> None:
    now, seen = 0, list[int]()

    async def work(n: int) -> str:
        nonlocal now
        now += 1
        seen.append(now)
        for _ in range(20):
            await asyncio.sleep(0)
        now -= 1
        return f"did {n}"

    said = Scripted([call("work", f"c{n}", n=n) for n in range(6)], "end")
    agent = await create(said, work, config={"tools_policy": {"max_parallel": most}} if most else None)
    assert (await agent.run("go")).status == "completed"
    assert max(seen) == peak
    assert results(said) == [f"did {n}" for n in range(6)]


async def test_tools_policy_max_parallel_1_lets_a_subagent_call_tools() -> None:
    """A call that waits for a subagent holds the only seat of its own run, not of the subagent's."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        first = not any(isinstance(message, ModelResponse) for message in messages)
        if any(tool.name == "task" for tool in info.function_tools):
            tasks = [call("task", f"t{n}", description="Put.", subagent_type="general-purpose") for n in range(2)]
            return ModelResponse(tasks if first else [TextPart("end")])
        return ModelResponse([call("put", "p")] if first else [TextPart("done")])

    agent = await DeepAgent.create(
        config={"tools_policy": {"max_parallel": 1}},
        deps=AgentDeps(model=FunctionModel(answer), kernel=kernel(deep_subagents)),
        tools=[put],
    )
    result = await asyncio.wait_for(agent.run("go"), 60)
    assert result.status == "completed", result.error
