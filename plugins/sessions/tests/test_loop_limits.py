"""`[agent.loop]` and `tools_policy.max_calls_per_run`: what a run does before it ends, in one attempt or several."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import deep_subagents
import pytest
from deep_sessions import AgentDeps, DeepAgent, LimitExceeded, MemoryStore, open_store
from pydantic import BaseModel
from pydantic_ai import Tool
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import RunCancelled
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from deep_core import create_default_deps
from plugins.sessions.tests.scripted import Scripted, call, create, kernel, put, results

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_loop_max_iterations_refuses_the_next_model_request() -> None:
    said = Scripted([call("put")])
    agent = await create(said, put, config={"loop": {"max_iterations": 2}})
    result = await agent.run("go")
    assert (result.status, result.error and result.error.code) == ("failed", "limit_exceeded")
    assert len(said.requests) == 2


async def test_loop_max_iterations_counts_answers_that_are_no_calls_too() -> None:
    said = Scripted("")
    agent = await create(said, config={"loop": {"max_iterations": 2}})
    result = await agent.run("go")
    assert "max_iterations" in str(result.error)
    assert len(said.requests) == 2


@pytest.mark.slow
async def test_loop_max_iterations_has_a_default_of_50_that_may_be_raised() -> None:
    said = Scripted([call("put")])
    await (await create(said, put, config={"loop": {"max_tool_rounds": 49}})).run("go")
    assert len(said.requests) == 50
    said = Scripted([call("put")])
    await (await create(said, put, config={"loop": {"max_iterations": 60, "max_tool_rounds": 59}})).run("go")
    assert len(said.requests) == 60


async def test_loop_max_iterations_begins_anew_with_each_run() -> None:
    said = Scripted([call("put")], "end", [call("put")], "end")
    agent = await create(said, put, config={"loop": {"max_iterations": 2}})
    for _ in range(2):
        assert (await agent.run("go", session_id="s")).status == "completed"


async def hang_until_cancelled(agent: DeepAgent, inside: asyncio.Event, how: Any) -> None:
    running = asyncio.ensure_future(how)
    waiting = asyncio.ensure_future(inside.wait())
    await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    inside.clear()


@pytest.mark.parametrize("url", ["memory", "sqlite"])
async def test_loop_limits_count_all_attempts_of_a_run(url: str, tmp_path: Any) -> None:
    """Each attempt makes one request, and dies in its tool. A compaction between them changes no count."""
    store = MemoryStore() if url == "memory" else open_store(f"sqlite:///{tmp_path / 'runs.db'}")
    inside = asyncio.Event()

    async def hang() -> str:
        inside.set()
        await asyncio.Event().wait()
        return "never"

    def hangs() -> Tool[Any]:
        return Tool(hang, metadata={"tags": ["read"]})

    async def look() -> str:
        return "saw"

    said = Scripted([call("look")], [call("look")], [call("hang")], "end")
    config = {"loop": {"max_iterations": 3, "max_tool_rounds": 2}}
    first = await create(said, hangs(), Tool(look, metadata={"tags": ["read"]}), config=config, session_store=store)
    result = await first.run("go", session_id="s")
    assert result.error is not None
    assert "max_tool_rounds" in str(result.error)
    said = Scripted([call("look")], [call("hang")], [call("look")], "end")
    config = {"loop": {"max_iterations": 3, "max_tool_rounds": 2}}
    first = await create(said, hangs(), Tool(look, metadata={"tags": ["read"]}), config=config, session_store=store)
    await hang_until_cancelled(first, inside, first.run("go", session_id="t"))
    ends = Tool(look, name="hang", metadata={"tags": ["read"]})
    second = await create(said, ends, Tool(look, metadata={"tags": ["read"]}), config=config, session_store=store)
    result = await second.resume("t")
    assert result.error is not None
    assert "max_tool_rounds" in str(result.error)
    assert len(said.requests) == 3
    await store.aclose()


async def test_loop_max_tool_rounds_stops_the_run_before_the_next_round() -> None:
    ran: list[int] = []

    async def put() -> str:
        ran.append(1)
        return "did"

    store = MemoryStore()
    said = Scripted([call("put")])
    agent = await create(said, put, config={"loop": {"max_tool_rounds": 2}}, session_store=store)
    result = await agent.run("go", session_id="s")
    assert (result.error and result.error.code, len(said.requests), len(ran)) == ("limit_exceeded", 3, 2)
    said.answers = ("end",)
    assert (await agent.run("go on", session_id="s")).status == "completed"
    assert results(said)[-1] == "Not executed: the run was stopped before this call."


async def test_loop_max_tool_rounds_0_allows_an_answer_and_no_call() -> None:
    config = {"loop": {"max_tool_rounds": 0}}
    assert (await (await create(Scripted("end"), put, config=config)).run("go")).status == "completed"
    assert (await (await create(Scripted([call("put")]), put, config=config)).run("go")).status == "failed"


async def test_loop_max_tool_rounds_follows_a_lower_max_iterations() -> None:
    agent = await create(Scripted("end"), config={"loop": {"max_iterations": 5}})
    assert agent.get_config().loop.max_tool_rounds == 4


async def test_tools_policy_max_calls_per_run_refuses_the_batch_that_would_pass_it() -> None:
    ran: list[int] = []

    async def put(n: int) -> str:
        ran.append(n)
        return "did"

    batches = [[call("put", f"{batch}.{n}", n=n) for n in range(3)] for batch in range(2)]
    said = Scripted(*batches, "end")
    agent = await create(said, put, config={"tools_policy": {"max_calls_per_run": 4}})
    result = await agent.run("go")
    assert (result.error and result.error.code, len(said.requests), sorted(ran)) == ("limit_exceeded", 2, [0, 1, 2])
    assert "max_calls_per_run" in str(result.error)


async def test_tools_policy_max_calls_per_run_does_not_count_a_structured_answer() -> None:
    class Answer(BaseModel):
        n: int

    said = Scripted([call("put")], [call("final_result", "c2", n=1)])
    agent = await DeepAgent.create(
        config={"tools_policy": {"max_calls_per_run": 1}},
        deps=AgentDeps(model=said.model, kernel=kernel()),
        tools=[put],
        output_type=Answer,
    )
    result = await agent.run("go")
    assert result.output == Answer(n=1)


@pytest.mark.slow
async def test_loop_max_run_duration_ms_ends_a_run_that_loops() -> None:
    async def put() -> str:
        await asyncio.sleep(0.01)
        return "did"

    config = {"loop": {"max_run_duration_ms": 1000, "max_iterations": 1000, "max_tool_rounds": 999}}
    result = await (await create(Scripted([call("put")]), put, config=config)).run("go")
    assert (result.status, result.error and result.error.code) == ("failed", "run_timed_out")


async def test_loop_limits_hold_in_an_agent_without_sessions(caplog: pytest.LogCaptureFixture) -> None:
    async def hang() -> str:
        await asyncio.Event().wait()
        return "never"

    said, made_by = Scripted([call("put")]), kernel()
    for model, limit, error in (
        (said.model, {"max_iterations": 2}, LimitExceeded),
        (Scripted([call("hang")]).model, {"max_run_duration_ms": 1000}, RunCancelled),
    ):
        agent = made_by.create_agent(model, tools=[put, hang], config={"agent": {"loop": limit}})
        with pytest.raises(error) as caught:
            await agent.run("go", deps=create_default_deps(kernel=made_by))
        assert min(limit) in f"{caught.value} {caplog.text}"
    assert len(said.requests) == 2


def test_an_agent_without_these_keys_has_no_capability_for_them() -> None:
    def names(config: dict[str, Any]) -> set[str]:
        agent = kernel().create_agent("test", config={"agent": config})
        found: set[str] = set()

        def visit(capability: AbstractCapability[Any]) -> None:
            found.update(type(hosted).__name__ for hosted in getattr(capability, "hosted", ()))
            found.add(type(capability).__name__)

        agent.root_capability.apply(visit)
        return found

    assert names({"loop": {"max_iterations": 2}}) - names({}) == {"LoopLimits"}


async def test_loop_limits_of_a_subagent_are_its_own() -> None:
    """The caller makes two requests, its subagent three: a limit of three ends neither."""
    made: list[str] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        count = sum(isinstance(message, ModelResponse) for message in messages)
        who = "caller" if any(tool.name == "task" for tool in info.function_tools) else "child"
        made.append(who)
        if who == "caller":
            task = call("task", description="Put it.", subagent_type="general-purpose")
            return ModelResponse([task] if not count else [TextPart("end")])
        return ModelResponse([call("put", f"p{count}")] if count < 2 else [TextPart("done")])

    agent = await DeepAgent.create(
        config={"loop": {"max_iterations": 3}},
        deps=AgentDeps(model=FunctionModel(answer), kernel=kernel(deep_subagents)),
        tools=[put],
    )
    result = await agent.run("go")
    assert result.status == "completed", result.error
    assert (made.count("caller"), made.count("child")) == (2, 3)
