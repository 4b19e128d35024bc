"""`[agent.limits]`: a run ends before the request that would begin after a budget is spent."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import deep_subagents
import pytest
from deep_sessions import AgentDeps, DeepAgent, MemoryStore, SessionStore, budgets, fold, open_store
from deep_sessions import create as create_session
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from plugins.sessions.tests.scripted import Scripted, call, create, kernel, put

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def code(agent: DeepAgent, session: str = "s") -> str:
    result = await agent.run("go", session_id=session)
    return result.status if result.error is None else f"{result.error.code} {result.error}".split(", and")[0]


async def test_limits_run_requests() -> None:
    said = Scripted([call("put")])
    agent = await create(said, put, config={"limits": {"run": {"requests": 2}}})
    assert (await code(agent)).startswith("limit_exceeded 2 requests")
    assert len(said.requests) == 2
    assert (await code(agent)).startswith("limit_exceeded 2 requests")
    assert len(said.requests) == 4


def priced(tokens: int, usd: str) -> FunctionModel:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        usage = RequestUsage(input_tokens=tokens, output_tokens=1, cost=Decimal(usd))
        return ModelResponse([call("put")], usage=usage)

    return FunctionModel(answer)


@pytest.mark.parametrize(("budget", "made"), [({"tokens": 250}, 3), ({"usd": 0.05}, 3), ({"usd": 0.04}, 2)])
async def test_limits_run_tokens_and_usd(budget: dict[str, Any], made: int) -> None:
    deps = AgentDeps(model=priced(99, "0.02"), kernel=kernel())
    agent = await DeepAgent.create(config={"limits": {"run": budget}}, deps=deps, tools=[put])
    result = await agent.run("go")
    assert result.error is not None
    assert (result.error.code, result.usage.requests) == ("limit_exceeded", made)


@pytest.mark.slow
async def test_limits_session_counts_all_its_runs_in_any_process(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    config = {"limits": {"session": {"requests": 3}}}
    said = Scripted("end")
    for attempt in range(4):
        agent = await create(said, config=config, session_store=url)
        assert await code(agent) == ("completed" if attempt < 3 else "limit_exceeded 3 requests are used")
        await agent.close()
    assert len(said.requests) == 3
    agent = await create(said, config=config, session_store=url)
    assert await code(agent, "other") == "completed"
    await agent.close()


@pytest.mark.parametrize("name", ["owner", "day"])
async def test_limits_owner_and_day_count_all_sessions_of_the_owner(name: str, tmp_path: Any) -> None:
    said = Scripted("end")
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    stores: list[SessionStore] = []

    async def agent(owner: str) -> DeepAgent:
        stores.append(open_store(url, owner=owner))
        return await create(said, config={"limits": {name: {"requests": 3}}}, session_store=stores[-1])

    first = await agent("ada")
    assert [await code(first, f"a{n}") for n in range(3)] == ["completed"] * 3
    assert await code(first, "a0") == "limit_exceeded 3 requests are used"
    assert await code(await agent("ada"), "a9") == "limit_exceeded 3 requests are used"
    assert await code(await agent("bob"), "b0") == "completed"
    for store in stores:
        await store.aclose()


async def test_limits_owner_counts_one_owner_where_the_store_shows_all() -> None:
    """As a worker's does."""
    store = MemoryStore()
    for owner in ("ada", "bob"):
        await create_session(store.for_owner(owner), owner, [])
    agent = await create(Scripted("end"), config={"limits": {"owner": {"requests": 2}}}, session_store=store)
    assert [await code(agent, "ada"), await code(agent, "ada")] == ["completed"] * 2
    assert await code(agent, "ada") == "limit_exceeded 2 requests are used"
    assert [await code(agent, "bob"), await code(agent, "nobody's")] == ["completed"] * 2


async def test_limits_day_forgets_the_days_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A budget that is looked at on the next day."""
    store = MemoryStore()
    agent = await create(Scripted("end"), config={"limits": {"day": {"requests": 1}}}, session_store=store)
    assert await code(agent) == "completed"
    assert await code(agent) == "limit_exceeded 1 requests are used"
    assert await code(agent, "other") == "limit_exceeded 1 requests are used"

    def day_after(at: float) -> str:
        return fold.day_of(at + 86_400)

    monkeypatch.setattr(budgets, "day_of", day_after)
    agent = await create(Scripted("end"), config={"limits": {"day": {"requests": 1}}}, session_store=store)
    assert await code(agent, "third") == "completed"


async def test_limits_count_the_whole_tree_of_subagents() -> None:
    made: list[str] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        first = not any(isinstance(message, ModelResponse) for message in messages)
        made.append("caller" if any(tool.name == "task" for tool in info.function_tools) else "child")
        if made[-1] == "caller":
            task = call("task", description="Put it.", subagent_type="general-purpose")
            return ModelResponse([task] if first else [TextPart("end")])
        return ModelResponse([call("put")] if len(made) < 9 else [TextPart("done")])

    agent = await DeepAgent.create(
        config={"limits": {"run": {"requests": 4}}},
        deps=AgentDeps(model=FunctionModel(answer), kernel=kernel(deep_subagents)),
        tools=[put],
    )
    assert (await code(agent)).startswith("limit_exceeded 4 requests")
    assert made == ["caller", "child", "child", "child"]
