"""O1: `set_config(…, apply="next_step")` reaches the runs under way, and `next_run` does not."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from deep_sessions import AgentDeps, DeepAgent, MemoryStore, UsageError, config_digest
from deep_sessions.entries import read_entry
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from plugins.sessions.tests.scripted import Scripted, call, create, kernel, look, put
from tests.plugins_by_hand import plugin

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(("apply", "used"), [("next_run", ["a", "a", "b"]), ("next_step", ["a", "b", "b"])])
async def test_O1_a_new_model_answers_from_the_next_run_or_step(apply: Any, used: list[str]) -> None:
    seen: list[str] = []

    def model(name: str) -> FunctionModel:
        def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            seen.append(name)
            return ModelResponse([call("change")] if len(seen) == 1 else [TextPart("end")])

        return FunctionModel(answer, model_name=name)

    models = {"acme:a": model("a"), "acme:b": model("b")}
    acme = plugin("acme", resolve_model=lambda model_id: models.get(model_id))  # pyright: ignore

    async def change() -> str:
        agent.set_config({"model": "acme:b"}, apply=apply)
        return "changed"

    agent = await DeepAgent.create(config={"model": "acme:a"}, deps=AgentDeps(kernel=kernel(acme)), tools=[change])
    result = await agent.run("go", session_id="s")
    assert result.status == "completed", result.error
    await agent.run("go", session_id="s")
    assert seen == used


async def changed(new: dict[str, Any], config: dict[str, Any] | None = None, **how: Any) -> tuple[Any, Scripted]:
    async def change() -> str:
        agent.set_config(new, apply="next_step")
        return "changed"

    said = Scripted([call("change")], [call("put")], "end")
    agent = await create(said, change, put, config=config, **how)
    return await agent.run("go", session_id="s"), said


async def test_O1_next_step_changes_the_prompt_and_the_settings() -> None:
    new = {"prompt": {"system": "Two."}, "model": {"temperature": 0.5}}
    _, said = await changed(new, {"prompt": {"system": "One."}, "model": {"max_tokens": 7}})
    assert [said.instructions(n) for n in range(3)] == ["One.", "Two.", "Two."]
    assert [said.requests[n][1].model_settings for n in range(2)] == [{"max_tokens": 7}, {"temperature": 0.5}]


async def test_O1_next_step_keeps_an_override_of_the_prompt() -> None:
    async def change() -> str:
        agent.set_config({"prompt": {"system": "Two."}}, apply="next_step")
        return "changed"

    said = Scripted([call("change")], "end")
    agent = await create(said, change, config={"prompt": {"system": "One."}})
    await agent.run("go", system_prompt_override="Mine.")
    assert [said.instructions(n) for n in range(2)] == ["Mine.", "Mine."]


async def test_O1_next_step_narrows_the_tools() -> None:
    result, said = await changed({"tools_policy": {"allow_list": ["change"]}})
    assert (said.offered(0), said.offered(1)) == ({"change", "put"}, {"change"})
    assert result.status == "completed"
    assert "did" not in str(said.requests[-1][0])


async def test_O1_next_step_lowers_budgets() -> None:
    result, said = await changed({"limits": {"run": {"requests": 2}}}, {"limits": {"run": {"requests": 9}}})
    assert (result.error.code, len(said.requests)) == ("limit_exceeded", 2)


async def test_O1_next_step_lowers_limits() -> None:
    result, said = await changed({"loop": {"max_iterations": 2}})
    assert (result.error.code, len(said.requests)) == ("limit_exceeded", 2)


@pytest.mark.parametrize(
    ("new", "why"),
    [
        ({"loop": {"max_iterations": 60}}, "loop.max_iterations can only be lowered"),
        ({"tools_policy": {"allow_list": None}}, "allow_list can only lose names"),
        ({"tools_policy": {"allow_list": ["put", "look", "more"]}}, "allow_list can only lose names"),
        ({"tools_policy": {"allow_list": ["put"], "enabled": False}}, "tools_policy.enabled cannot change"),
        ({"interrupt_on": True}, "interrupt_on cannot change"),
        ({"limits": {"run": {"requests": 9}}}, "limits.run.requests can only be lowered"),
    ],
)
async def test_O1_next_step_refuses_what_a_run_under_way_cannot_take(new: dict[str, Any], why: str) -> None:
    before = {"tools_policy": {"allow_list": ["put", "look"]}, "limits": {"run": {"requests": 8}}}
    agent = await create(Scripted("end"), put, look, config=before)
    with pytest.raises(UsageError, match=why):
        agent.set_config({**before, **new}, apply="next_step")
    assert agent.get_config().tools_policy.allow_list == ["put", "look"]


async def test_O1_the_journal_has_one_entry_with_both_digests() -> None:
    store = MemoryStore()
    await changed({"prompt": {"system": "Two."}}, session_store=store)
    (entry,) = [read_entry(entry) for entry in await store.entries("s") if entry.kind == "config_changed"]
    agents = [await create(Scripted("end"), config=config) for config in ({}, {"prompt": {"system": "Two."}})]
    assert entry == dict(zip(("before", "after"), (config_digest(a.get_config()) for a in agents), strict=True))


async def test_O1_a_change_between_runs_is_one_entry_too() -> None:
    store = MemoryStore()
    agent = await create(Scripted("end"), session_store=store)
    for config in ({}, {"prompt": {"system": "Two."}}, {"prompt": {"system": "Two."}}):
        agent.set_config(config)
        await agent.run("go", session_id="s")
    kinds = [entry.kind for entry in await store.entries("s") if entry.kind in ("config_changed", "run_started")]
    assert kinds == ["run_started", "config_changed", "run_started", "run_started"]


async def test_observability_log_level_is_of_this_agents_logger_alone(caplog: pytest.LogCaptureFixture) -> None:
    root = logging.getLogger().level
    said = Scripted("end")
    for name, level in (("loud", "info"), ("quiet", "error")):
        agent = await create(said, config={"identity": {"name": name}, "observability": {"log_level": level}})
        await agent.run("go")
    assert {record.name for record in caplog.records if record.levelname == "INFO"} >= {"deep.agents.loud"}
    assert "deep.agents.quiet" not in {record.name for record in caplog.records}
    assert logging.getLogger().level == root
    agent.set_config({"identity": {"name": "quiet"}, "observability": {"log_level": "debug"}}, apply="next_step")
    assert logging.getLogger("deep.agents.quiet").level == logging.DEBUG
