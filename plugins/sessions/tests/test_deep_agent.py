"""`DeepAgent`: one test, at least, for each requirement of its design, named after it."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import re
import threading
from contextlib import suppress
from typing import Any

import deep_sessions
import pytest
from deep_backends import memory_backend
from deep_sessions import (
    AgentClosed,
    AgentDeps,
    AgentError,
    DeepAgent,
    Delta,
    MemoryStore,
    Message,
    MissingDependencyError,
    NoopObserver,
    NothingToResume,
    RunResult,
    RuntimeUnavailable,
    SessionBusy,
    SessionNotFound,
    Sessions,
    SqliteStore,
    ToolContext,
    ToolDefinition,
    ToolNotFound,
    ToolRegistry,
    UsageError,
    config_digest,
    errors,
)
from deep_sessions.entries import read_entry
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import ValidationError
from pydantic_ai import Tool
from pydantic_ai.messages import ModelRequest
from pydantic_ai.usage import UsageLimits
from pydantic_ai.workspaces import UnavailableWorkspace

from deep_core import AgentConfig, ConfigError, Kernel, PromptSection
from plugins.sessions.tests.scripted import Scripted, call, create, kernel, look, put, results
from tests.environments import REPOSITORY
from tests.plugins_by_hand import plugin

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


# -- boundaries --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"prompt": {"variables": {"f": len}}}, r"prompt\.variables\.f"),
        ({"prompt": {"system": object()}}, r"prompt\.system"),
    ],
)
async def test_G2_a_configuration_holds_no_objects(config: Any, path: str) -> None:
    with pytest.raises(ConfigError, match=path):
        await create(Scripted("end"), config=config)


async def test_K7_a_configuration_of_a_later_version_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"schema_version: Input should be 1"):
        await create(Scripted("end"), config={"schema_version": 2})


async def test_K10_the_last_request_can_answer() -> None:
    with pytest.raises(ConfigError, match=r"max_tool_rounds must be below max_iterations, which is 3"):
        await create(Scripted("end"), config={"loop": {"max_iterations": 3, "max_tool_rounds": 3}})


def test_G3_services_are_never_stored() -> None:
    deps = AgentDeps(model="test")
    with pytest.raises(TypeError, match="cannot be stored"):
        pickle.dumps(deps)
    assert not hasattr(deps, "model_dump")


def test_G4_services_hold_no_policy() -> None:
    with pytest.raises(TypeError, match="max_iterations"):
        AgentDeps(max_iterations=3)  # type: ignore[call-arg]


def test_G5_the_tools_belong_to_the_agent() -> None:
    with pytest.raises(TypeError, match="tools"):
        AgentDeps(tools=[put])  # type: ignore[call-arg]


async def test_G6_the_registry_only_holds_tools() -> None:
    registry = ToolRegistry([ToolDefinition("use", "Use it.", {"type": "object"}, lambda ctx: "", requires_agent=True)])
    held = vars(registry["use"])
    await create(Scripted("end"), tool_registry=registry, runtime="memory")
    assert vars(registry["use"]) == held
    assert not any(name in held for name in ("agent", "runtime"))


@pytest.mark.parametrize("declared", [True, False])
async def test_G7_a_tool_gets_the_runtime_and_the_agent_only_if_it_declares_them(declared: bool) -> None:
    seen: list[ToolContext] = []

    async def use(ctx: ToolContext) -> str:
        seen.append(ctx)
        return "used"

    definition = ToolDefinition(
        "use", "Use it.", {"type": "object", "properties": {}}, use, requires_runtime=declared, requires_agent=declared
    )
    agent = await create(Scripted([call("use")], "end"), definition, runtime="memory")
    assert (await agent.run("go")).status == "completed"
    assert (seen[0].runtime is not None, seen[0].agent is agent) == (declared, declared)


async def test_G8_F1_policy_is_read_from_the_configuration() -> None:
    """The same services with another configuration: the tool is gone, and the services are the same objects."""
    said = Scripted("end")
    deps = AgentDeps(model=said.model, kernel=kernel())
    for allowed in (None, ["look"]):
        config = {"tools_policy": {"allow_list": allowed}} if allowed else {}
        agent = await DeepAgent.create(config=config, deps=deps, tools=[put, look])
        await agent.run("go")
    assert said.offered(0) == {"put", "look"}
    assert said.offered(1) == {"look"}


async def test_G9_F5_the_base_prompt_is_the_configurations() -> None:
    said = Scripted("end")
    agent = await create(said, config={"prompt": {"system": "You tidy notes."}})
    await agent.run("go")
    assert said.instructions(0) == "You tidy notes."


async def test_G11_the_configuration_is_frozen_to_its_depth() -> None:
    mine: dict[str, Any] = {"interrupt_on": {"put": True}}
    said = Scripted([call("put")], "end")
    agent = await create(said, put, config=mine)
    before = config_digest(agent.get_config())
    mine["interrupt_on"]["put"] = False
    with pytest.raises(TypeError, match="frozen"):
        agent.get_config().interrupt_on["put"] = False  # type: ignore[index]
    assert config_digest(agent.get_config()) == before
    assert (await agent.run("go")).status == "awaiting_human"
    assert agent.get_state().status == "awaiting_human"


def test_G12_equal_configurations_have_one_digest() -> None:
    one = AgentConfig.model_validate({"identity": {"name": "a"}, "prompt": {"system": "b"}})
    other = AgentConfig.model_validate({"prompt": {"system": "b"}, "identity": {"name": "a"}})
    assert config_digest(one) == config_digest(other)
    assert config_digest(one) != config_digest(AgentConfig())


async def test_G12_every_run_records_the_digest() -> None:
    store = MemoryStore()
    agent = await create(Scripted("end"), config={"prompt": {"system": "b"}}, session_store=store)
    await agent.run("go", session_id="s")
    (started, *_) = await store.entries("s")
    assert read_entry(started)["digest"] == config_digest(agent.get_config())


# -- services ----------------------------------------------------------------------------------------------------------


async def test_H1_step_1_all_missing_services_are_named_at_once() -> None:
    with pytest.raises(MissingDependencyError, match=r"no model and no session_store.*model=…, session_store=…"):
        await DeepAgent.create(deps=AgentDeps(session_store=None))


async def test_H1_a_missing_service_builds_nothing() -> None:
    made: list[object] = []

    class Spy(Kernel):
        def create_agent(self, *args: Any, **how: Any) -> Any:
            made.append(args)
            return super().create_agent(*args, **how)

    with pytest.raises(MissingDependencyError, match="no model"):
        await DeepAgent.create(deps=AgentDeps(kernel=Spy(discover=False)))
    assert made == []


async def test_H2_H3_H8_step_2_a_model_is_enough() -> None:
    agent = await DeepAgent.create(deps=AgentDeps(model="test", kernel=kernel()))
    result, other = await agent.run("go"), await agent.run("go")
    assert (result.status, other.status) == ("completed", "completed")
    assert len({result.session_id, other.session_id, result.run_id, other.run_id}) == 4
    assert isinstance(agent.deps.observer, NoopObserver)
    assert isinstance(agent.store, MemoryStore)
    assert agent.get_tools() == []


def test_K3_nothing_else_assembles_messages_or_joins_deltas() -> None:
    for name in ("message_assembler_factory", "delta_aggregation", "context_manager", "tool_executor"):
        with pytest.raises(TypeError, match=name):
            AgentDeps(model="test", **{name: object()})  # type: ignore[arg-type]


def uses_files() -> ToolDefinition:
    async def use(ctx: ToolContext) -> str:
        assert ctx.runtime is not None
        return str(await ctx.runtime.working_dir())

    return ToolDefinition("use", "Use it.", {"type": "object", "properties": {}}, use, requires_runtime=True)


@pytest.mark.parametrize("needs", [False, True])
async def test_H4_K6_step_5_6_the_workspace_is_made_only_if_a_tool_needs_it(needs: bool) -> None:
    made: list[object] = []

    def local(context: object) -> Any:
        made.append(context)
        return memory_backend()

    said = Scripted([call("use" if needs else "look")], "end")
    services = Kernel(plugins=[deep_sessions, plugin("spy", backends={"local": local})], discover=False)
    agent = await DeepAgent.create(
        deps=AgentDeps(model=said.model, kernel=services), tools=[uses_files() if needs else look]
    )
    assert made == []
    await agent.run("go")
    assert (len(made), results(said)) == ((1, ["/workspace"]) if needs else (0, ["saw"]))


async def test_K6_step_6_without_the_workspace_that_a_tool_needs_there_is_no_agent() -> None:
    services = Kernel(plugins=[deep_sessions], discover=False)
    with pytest.raises(RuntimeUnavailable, match=r"'use' needs a workspace: .*pip install deep-backends"):
        await DeepAgent.create(deps=AgentDeps(model="test", kernel=services), tools=[uses_files()])


async def test_H5_the_services_of_an_agent_are_not_replaceable() -> None:
    deps = AgentDeps(model="test")
    with pytest.raises(AttributeError):
        deps.model = "other"  # type: ignore[misc]


async def test_H5_the_same_agent_in_another_store_is_another_agent() -> None:
    agent, store = await create(Scripted("one"), put, config={"identity": {"name": "dora"}}), MemoryStore()
    other = agent.with_store(store)
    assert (await other.run("go", session_id="s")).message == "one"
    assert [info.id for info in await store.list()] == ["s"]
    assert await agent.store.list() == []
    assert (other.get_config(), other.get_tools()) == (agent.get_config(), agent.get_tools())
    await other.close()
    assert (await agent.run("go")).message == "one"


async def test_H6_defaults_are_fresh_for_each_agent() -> None:
    given = AgentDeps(model="test", kernel=kernel())
    before = dict(vars(given))
    first = await DeepAgent.create(deps=given, tools=[put])
    second = await DeepAgent.create(deps=given, tools=[look])
    assert {tool.name for tool in first.get_tools()} == {"put"}
    assert {tool.name for tool in second.get_tools()} == {"look"}
    assert first.store is not second.store
    assert AgentDeps().observer is not AgentDeps().observer
    assert vars(given) == before


async def test_H7_an_observer_that_raises_changes_no_run_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def run_started(self, session_id: str, run_id: str) -> None:
            raise ValueError("no")

        def run_ended(self, result: RunResult) -> None:
            raise ValueError("no")

    agent = await create(Scripted("end"), observer=Broken())
    assert (await agent.run("go")).status == "completed"
    assert (await agent.run("go")).status == "completed"
    assert len([record for record in caplog.records if "observer" in record.message]) == 1


# -- tools -------------------------------------------------------------------------------------------------------------


def test_T1_K2_a_tool_is_defined_without_a_model_or_an_agent() -> None:
    definition = ToolDefinition("use", "Use it.", {"type": "object"}, put, tags=("read",), timeout=3.0)
    assert definition.name == "use"


def test_T2_a_model_sees_the_schema_only() -> None:
    definition = ToolDefinition("use", "Use it.", {"type": "object"}, put, requires_runtime=True)
    assert vars(definition.spec) == {"name": "use", "description": "Use it.", "parameters": {"type": "object"}}


async def test_T3_K4_step_7_a_shared_registry_is_never_changed() -> None:
    shared = ToolRegistry([look])
    first = await create(Scripted("end"), put, tool_registry=shared)
    first.register_tools([Tool(put, name="more")])
    second = await create(Scripted("end"), tool_registry=shared)
    assert {tool.name for tool in first.get_tools()} == {"look", "put", "more"}
    assert {tool.name for tool in second.get_tools()} == {"look"}
    assert [*shared] == ["look"]


async def test_T4_a_run_may_use_only_the_tools_that_it_allows() -> None:
    said = Scripted([call("put")], "end")
    agent = await create(said, put, look)
    await agent.run("go", allowed_tools=["look"])
    assert said.offered(0) == {"look"}
    assert "did" not in "".join(results(said))
    await agent.run("go")
    assert said.offered(-1) == {"put", "look"}


async def test_T4_a_run_that_allows_an_unknown_tool_is_refused() -> None:
    said = Scripted("end")
    agent = await create(said, put)
    with pytest.raises(ToolNotFound, match=r"'putt'.*put"):
        await agent.run("go", allowed_tools=["put", "putt"])
    assert said.requests == []


@pytest.mark.parametrize(
    ("listed", "allowed", "offered"),
    [
        (None, None, {"put", "look"}),
        (["put"], None, {"put"}),
        (None, ["look"], {"look"}),
        (["put", "look"], ["look"], {"look"}),
        (["put"], [], set()),
        ([], None, set()),
    ],
)
async def test_T5_F6_what_is_offered_is_what_all_lists_have(listed: Any, allowed: Any, offered: set[str]) -> None:
    said = Scripted("end")
    config = {} if listed is None else {"tools_policy": {"allow_list": listed}}
    agent = await create(said, put, look, config=config)
    await agent.run("go", allowed_tools=allowed)
    assert said.offered(0) == offered


async def test_T6_a_hidden_tool_that_is_called_does_not_run() -> None:
    ran: list[int] = []

    async def put() -> str:
        ran.append(1)
        return "did"

    said = Scripted([call("put")], "end")
    agent = await create(said, put, look)
    assert (await agent.run("go", allowed_tools=["look"])).status == "completed"
    assert ran == []


async def test_T7_every_call_ends_in_one_result() -> None:
    said = Scripted([call("put", "a", n=1), call("put", "b", n=2), call("ghost", "c")], "end")
    agent = await create(said, put)
    await agent.run("go")
    answered = [
        part.tool_call_id  # type: ignore[union-attr]
        for message in said.requests[-1][0]
        for part in message.parts
        if part.part_kind in ("tool-return", "retry-prompt")
    ]
    assert sorted(answered) == ["a", "b", "c"]


async def test_T8_a_need_that_is_not_met_fails_that_call_only() -> None:
    said = Scripted([call("use", "a"), call("look", "b")], "end")
    nowhere = plugin("nowhere", backends={"local": lambda context: UnavailableWorkspace("gone")})
    services = Kernel(plugins=[deep_sessions, nowhere], discover=False)
    agent = await DeepAgent.create(deps=AgentDeps(model=said.model, kernel=services), tools=[uses_files(), look])
    assert (await agent.run("go")).status == "completed"
    assert results(said)[1] == "saw"
    assert "needs a workspace" in results(said)[0]


async def test_T9_two_tools_with_one_name_are_refused_and_none_is_registered() -> None:
    with pytest.raises(UsageError, match="two tools 'put'"):
        await create(Scripted("end"), put, Tool(look, name="put"))
    agent = await create(Scripted("end"), put)
    with pytest.raises(UsageError, match="two tools 'put'"):
        agent.register_tools([look, put])
    assert {tool.name for tool in agent.get_tools()} == {"put"}


# -- the agent ---------------------------------------------------------------------------------------------------------


def test_J1_K1_F2_create_is_the_only_constructor() -> None:
    with pytest.raises(TypeError, match=r"await DeepAgent\.create"):
        DeepAgent()


async def test_J2_a_result_says_all_of_a_run() -> None:
    agent = await create(Scripted([call("put")], "end"), put)
    result = await agent.run("go", session_id="s", run_id="r")
    assert (result.session_id, result.run_id, result.status, result.message) == ("s", "r", "completed", "end")
    assert (result.error, result.usage.requests, result.output) == (None, 2, "end")


async def test_J4_a_session_that_never_ran_is_unknown_and_one_that_ended_has_nothing_to_resume() -> None:
    agent = await create(Scripted("end"))
    with pytest.raises(SessionNotFound):
        await agent.resume("s")
    await agent.run("go", session_id="s")
    with pytest.raises(NothingToResume):
        await agent.resume("s")


async def test_J4_an_interrupted_run_is_continued_by_another_agent_with_what_it_was_given(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    inside = asyncio.Event()

    async def hang() -> str:
        inside.set()
        await asyncio.Event().wait()
        return "never"

    said = Scripted([call("hang")], "end")
    first = await create(said, Tool(hang, metadata={"tags": ["read"]}), look, session_store=url)
    running = asyncio.ensure_future(
        first.run("go", session_id="s", allowed_tools=["hang"], system_prompt_override="Override.")
    )
    await inside.wait()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running

    async def ends() -> str:
        return "ended"

    second = await create(said, Tool(ends, name="hang", metadata={"tags": ["read"]}), look, session_store=url)
    result = await second.resume("s")
    assert (result.status, result.message) == ("completed", "end")
    assert said.offered(-1) == {"hang"}
    assert said.instructions(-1) == "Override."
    await first.close()
    await second.close()


async def test_J5_abort_stops_a_run_and_keeps_its_history() -> None:
    store, inside = MemoryStore(), asyncio.Event()

    async def hang() -> str:
        inside.set()
        await asyncio.Event().wait()
        return "never"

    agent = await create(Scripted([call("hang")], "end"), hang, session_store=store)
    running = asyncio.ensure_future(agent.run("go", session_id="s", run_id="r"))
    await inside.wait()
    before = [entry.kind for entry in await store.entries("s")]
    agent.abort("r")
    agent.abort("r")
    agent.abort("nothing runs under this id")
    result = await running
    assert result.status == "aborted"
    assert result.error is not None
    assert result.error.code == "run_aborted"
    assert [entry.kind for entry in await store.entries("s")] == [*before, "run_ended"]
    assert agent.get_state().status == "aborted"
    agent.abort("r")


async def test_J6_step_10_the_state_follows_the_run_and_is_a_copy() -> None:
    seen: list[str] = []

    async def watch() -> str:
        seen.append(agent.get_state().runs["r"])
        return "watched"

    said = Scripted([call("watch")], "end")
    agent = await create(said, watch)
    assert agent.get_state().status == "idle"
    original = said._next

    def noting(messages: Any, info: Any) -> Any:
        seen.append(agent.get_state().status)
        return original(messages, info)

    said._next = noting  # type: ignore[method-assign]
    await agent.run("go", run_id="r")
    assert seen == ["model_running", "tool_running", "model_running"]
    state = agent.get_state()
    assert (state.status, state.runs) == ("completed", {})
    state.runs["forged"] = "tool_running"
    assert agent.get_state().runs == {}


async def test_J7_the_configuration_is_a_snapshot() -> None:
    agent = await create(Scripted("end"), config={"prompt": {"system": "one"}})
    with pytest.raises(ValidationError, match="frozen"):
        agent.get_config().prompt.system = "two"
    assert agent.get_config().prompt.system == "one"


async def test_J8_a_wrong_configuration_leaves_the_old_one() -> None:
    agent = await create(Scripted("end"), config={"prompt": {"system": "one"}})
    with pytest.raises(ConfigError, match=r"agent\.prompt\.sytem"):
        agent.set_config({"prompt": {"sytem": "two"}})
    assert agent.get_config().prompt.system == "one"


async def test_J9_a_summary_of_each_tool() -> None:
    agent = await create(Scripted("end"), Tool(put, metadata={"tags": ["network"]}, requires_approval=True))
    (tool,) = agent.get_tools()
    assert (tool.name, tool.description, tool.tags, tool.plugin, tool.approval) == (
        "put", "Put it there.", ("network",), "app", "always",
    )  # fmt: skip


async def test_J10_K9_registered_tools_are_there_in_the_next_run() -> None:
    async def more() -> str:
        agent.register_tools([look])
        return "more"

    said = Scripted([call("more")], "end")
    agent = await create(said, more)
    await agent.run("go")
    assert [said.offered(0), said.offered(1)] == [{"more"}, {"more"}]
    await agent.run("go")
    assert said.offered(-1) == {"more", "look"}


async def test_J11_close_ends_runs_and_leaves_a_given_store_open(tmp_path: Any) -> None:
    store, inside = SqliteStore(tmp_path / "runs.db"), asyncio.Event()

    async def hang() -> str:
        inside.set()
        await asyncio.Event().wait()
        return "never"

    agent = await create(Scripted([call("hang")], "end"), hang, session_store=store)
    running = asyncio.ensure_future(agent.run("go", session_id="s"))
    await inside.wait()
    await agent.close()
    await agent.close()
    assert (await running).status == "aborted"
    assert (await store.info("s")).status == "aborted"
    for refused in (agent.run("go"), agent.resume("s")):
        with pytest.raises(AgentClosed):
            await refused
    await store.aclose()


async def test_J11_close_closes_a_store_that_the_agent_opened(tmp_path: Any) -> None:
    agent = await create(Scripted("end"), session_store=f"sqlite:///{tmp_path / 'runs.db'}")
    await agent.run("go", session_id="s")
    store = agent._store
    await agent.close()
    with pytest.raises(AgentError, match="was closed"):
        await store.info("s")


async def test_J12_J13_F4_an_id_is_made_or_used_and_stands_on_every_entry_event_message_and_span(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbers, spans, tracers = iter(range(100)), InMemorySpanExporter(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    monkeypatch.setattr("pydantic_ai.models.instrumented.get_tracer_provider", lambda: tracers)
    agent = await create(
        Scripted([call("put")], "end"),
        put,
        id_generator=lambda: f"id-{next(numbers)}",
        config={"observability": {"enable_trace": True}},
    )
    made = await agent.run("go")
    assert (made.session_id, made.run_id) == ("id-0", "id-1")
    spans.clear()
    async with Sessions(agent) as sessions:
        assert await sessions.send("s", "go", run_id="run-42") == "run-42"
        result = await sessions.wait("s")
        assert result is not None
        events = [event async for event in sessions.stream("s", follow=False)]
        messages = await sessions.history("s")
    kinds = {event.kind for event in events}
    assert {"run_started", "tool_started", "tool_ended", "message_added", "run_ended"} <= kinds
    assert {result.run_id, *(event.run_id for event in events)} == {"run-42"}
    assert {entry.run_id for entry in await agent.store.entries("s")} == {"run-42"}
    assert {message.run_id for message in messages} == {"run-42"}
    found = [dict(span.attributes or {}) for span in spans.get_finished_spans()]
    assert len(found) > 3
    assert {span.get("gen_ai.agent.call.id") for span in found} == {"run-42"}
    assert {span.get("gen_ai.conversation.id") for span in found} == {"s"}


async def test_J12_a_run_has_its_id_alone() -> None:
    inside, leave = asyncio.Event(), asyncio.Event()

    async def hang() -> str:
        inside.set()
        await leave.wait()
        return "left"

    agent = await create(Scripted([call("hang")], "end"), hang)
    running = asyncio.ensure_future(agent.run("go", session_id="s", run_id="r"))
    await inside.wait()
    with pytest.raises(UsageError, match="'r' is under way in session s"):
        await agent.run("go", session_id="other", run_id="r")
    leave.set()
    assert (await running).status == "completed"
    entries = [*await agent.store.entries("s")]
    with pytest.raises(UsageError, match="session s has a run 'r' already"):
        await agent.run("go", session_id="s", run_id="r")
    for wrong in ("r~2", "r\ud83d", "r\0"):
        with pytest.raises(UsageError, match="marks the attempts"):
            await agent.run("go", session_id="s", run_id=wrong)
    assert [*await agent.store.entries("s")] == entries
    assert (await agent.run("go", session_id="other", run_id="r")).status == "completed"


async def test_J5_J13_a_resumed_run_is_seen_and_aborted_under_its_id() -> None:
    seen: list[tuple[str, str]] = []
    inside = asyncio.Event()

    class Observer:
        def run_started(self, session_id: str, run_id: str) -> None:
            seen.append(("started", run_id))

        def run_ended(self, result: RunResult) -> None:
            seen.append((result.status, result.run_id))

    async def hang() -> str:
        inside.set()
        await asyncio.Event().wait()
        return "never"

    agent = await create(Scripted([call("hang")], "end"), Tool(hang, metadata={"tags": ["read"]}), observer=Observer())
    running = asyncio.ensure_future(agent.run("go", session_id="s", run_id="r"))
    await inside.wait()
    with pytest.raises(SessionBusy):
        await agent.run("go", session_id="s")
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    inside.clear()
    running = asyncio.ensure_future(agent.resume("s"))
    await inside.wait()
    assert agent.get_state().runs == {"r": "tool_running"}
    agent.abort("r")
    assert (await running).status == "aborted"
    assert seen == [("started", "r"), ("started", "r"), ("aborted", "r")]


def test_J14_F3_no_turn_or_message_ids_in_the_public_api() -> None:
    methods = [value for name, value in vars(DeepAgent).items() if not name.startswith("_") and callable(value)]
    named = {name for method in methods for name in inspect.signature(method).parameters}
    assert not {name for name in named if "turn" in name or "message_id" in name}


async def test_J15_a_session_has_one_run() -> None:
    inside, leave = asyncio.Event(), asyncio.Event()

    async def hang() -> str:
        inside.set()
        await leave.wait()
        return "left"

    agent = await create(Scripted([call("hang")], "end"), hang)
    running = asyncio.ensure_future(agent.run("go", session_id="s"))
    await inside.wait()
    with pytest.raises(SessionBusy):
        await agent.run("go", session_id="s")
    leave.set()
    assert (await running).status == "completed"


@pytest.mark.parametrize("url", ["memory", "sqlite"])
def test_J15_threads_share_an_agent_and_a_session_has_one_run_in_all_of_them(url: str, tmp_path: Any) -> None:
    inside, refused = threading.Event(), threading.Event()
    found: dict[str, list[str]] = {"one": [], "other": []}
    store = MemoryStore() if url == "memory" else SqliteStore(tmp_path / "runs.db")
    take = store.acquire

    async def acquire(session_id: str, **how: Any) -> Any:
        lease = await take(session_id, **how)
        if not inside.is_set():
            inside.set()
            await asyncio.to_thread(refused.wait, 60)
        return lease

    async def use(name: str) -> None:
        try:
            found[name].append((await agent.run("go", session_id="s")).status)
        except SessionBusy:
            found[name].append("busy")

    def other() -> None:
        inside.wait(60)
        asyncio.run(use("other"))
        asyncio.run(use("other"))
        refused.set()

    store.acquire = acquire  # type: ignore[method-assign]
    agent = asyncio.run(create(Scripted([call("put")], "end"), put, session_store=store))
    threads = [threading.Thread(target=lambda: asyncio.run(use("one"))), threading.Thread(target=other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == {"one": ["completed"], "other": ["busy", "busy"]}
    asyncio.run(use("other"))
    assert found["other"][-1] == "completed"
    asyncio.run(store.aclose())


@pytest.mark.parametrize(
    ("answers", "how", "code"),
    [
        pytest.param(
            ([call("put")], "end"), {"usage_limits": UsageLimits(request_limit=1)}, "limit_exceeded", id="limit"
        ),
        pytest.param((ValueError("broken"),), {}, "internal_error", id="exception"),
        pytest.param(([call("boom")], "end"), {}, "internal_error", id="tool of the application"),
        pytest.param(("",), {}, "model_error", id="empty answers"),
    ],
)
async def test_J16_what_fails_a_run_has_a_code(answers: Any, how: Any, code: str) -> None:
    def boom() -> str:
        raise RuntimeError("boom")

    agent = await create(Scripted(*answers), put, boom)
    result = await agent.run("go", **how)
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.code == code, result.error
    assert result.error.cause is not None
    assert agent.get_state().status == "failed"


def test_J16_every_error_is_documented_with_its_code() -> None:
    page = (REPOSITORY / "docs/sessions-resume.md").read_text("utf-8").split("\n## Errors\n")[1].split("\n## ")[0]
    told = set(re.findall(r"^\| `(\w+)` \| `(\w+)` \|", page, re.M))
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, AgentError)]
    assert told == {(kind.code, kind.__name__) for kind in kinds}
    assert len({kind.code for kind in kinds}) == len(kinds)


# -- create ------------------------------------------------------------------------------------------------------------


async def test_create_loads_no_session_and_asks_no_model() -> None:
    class Untouched(MemoryStore):
        def __getattribute__(self, name: str) -> Any:
            if name in ("acquire", "load", "info", "list", "entries", "mail", "commit"):
                raise AssertionError(name)
            return super().__getattribute__(name)

    said = Scripted("end")
    await create(said, put, session_store=Untouched())
    assert said.requests == []


async def test_step_3_4_the_configuration_is_validated_with_its_path() -> None:
    with pytest.raises(ConfigError, match=r"agent\.identity\.name"):
        await create(Scripted("end"), config={"identity": {"name": "../x"}})


async def test_step_4_K5_the_configuration_and_the_services_name_one_model() -> None:
    with pytest.raises(UsageError, match=r"'openai:gpt-5'.*'test'"):
        await DeepAgent.create(config={"model": "openai:gpt-5"}, deps=AgentDeps(model="test", kernel=kernel()))


async def test_step_8_a_failure_leaves_nothing_open(tmp_path: Any) -> None:
    before = set(threading.enumerate())
    with pytest.raises(UsageError):
        await create(Scripted("end"), put, put, session_store=f"sqlite:///{tmp_path / 'runs.db'}")
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
        assert not thread.is_alive()


async def test_steps_1_to_10_what_is_wrong_is_reported_in_this_order_and_nothing_is_left_behind(tmp_path: Any) -> None:
    """Each thing that is wrong hides those after it. Only the last `create` makes something."""
    file = tmp_path / "runs.db"
    services = Kernel(plugins=[deep_sessions], discover=False)
    wrong = [
        ("config", {"loop": {"max_steps": 1}}, ConfigError, r"agent\.loop\.max_steps"),
        ("session_store", None, MissingDependencyError, "no session_store"),
        ("config", {"model": "openai:gpt-5"}, UsageError, "names the model"),
        ("tools", [put, put, uses_files()], UsageError, "two tools 'put'"),
        ("tools", [put, uses_files()], RuntimeUnavailable, "'use' needs a workspace"),
    ]
    right: dict[str, Any] = {"config": None, "session_store": f"sqlite:///{file}", "tools": [put]}
    while wrong:
        given = {**right, **{name: value for name, value, _, _ in reversed(wrong)}}
        _, _, error, told = wrong.pop(0)
        deps = AgentDeps(model=Scripted("end").model, session_store=given["session_store"], kernel=services)
        with pytest.raises(error, match=told):
            await DeepAgent.create(config=given["config"], deps=deps, tools=given["tools"])
        assert [*tmp_path.iterdir()] == []
    deps = AgentDeps(model=Scripted("end").model, session_store=right["session_store"], kernel=services)
    agent = await DeepAgent.create(deps=deps, tools=right["tools"])
    assert agent.get_state().status == "idle"
    assert [*tmp_path.iterdir()] == [], "no session is loaded"
    assert (await agent.run("go")).status == "completed"
    assert file.exists()
    await agent.close()


async def test_step_9_defaults_are_filled() -> None:
    agent = await create(Scripted("end"))
    config = agent.get_config()
    assert (config.identity.name, config.tools_policy.enabled, config.schema_version) == ("agent", True, 1)


# -- the open questions ------------------------------------------------------------------------------------------------


async def test_O1_a_new_configuration_begins_with_the_next_run() -> None:
    async def change() -> str:
        agent.set_config({"prompt": {"system": "two"}})
        return "changed"

    said = Scripted([call("change")], "end")
    agent = await create(said, change, config={"prompt": {"system": "one"}})
    await agent.run("go")
    assert [said.instructions(0), said.instructions(1)] == ["one", "one"]
    await agent.run("go")
    assert said.instructions(-1) == "two"


async def collect(agent: DeepAgent, prompt: str = "go", **how: Any) -> list[Any]:
    return [item async for item in agent.run_stream(prompt, **how)]


async def test_O2_J3_deltas_then_a_message_then_one_result() -> None:
    agent = await create(Scripted([call("put")], "a longer answer"), put)
    items = await collect(agent)
    deltas = [item.text for item in items if isinstance(item, Delta)]
    assert len(deltas) > 2
    assert items[-2] == Message("".join(deltas))
    assert isinstance(items[-1], RunResult)
    assert items[-1].message == "a longer answer" == "".join(deltas)
    assert sum(isinstance(item, RunResult) for item in items) == 1


async def test_O2_a_stream_that_fails_or_is_aborted_ends_with_a_result() -> None:
    failed = await collect(await create(Scripted(ValueError("broken"))))
    assert [type(item) for item in failed] == [RunResult]
    assert failed[-1].status == "failed"

    async def stop() -> str:
        agent.abort("r")
        await asyncio.Event().wait()
        return "never"

    agent = await create(Scripted([call("stop")], "end"), stop)
    aborted = await collect(agent, run_id="r")
    assert [type(item) for item in aborted] == [RunResult]
    assert aborted[-1].status == "aborted"


async def test_O2_what_prevents_a_run_raises_from_the_stream() -> None:
    agent = await create(Scripted("end"), put)
    with pytest.raises(ToolNotFound):
        await collect(agent, allowed_tools=["ghost"])


async def test_O2_a_caller_who_leaves_a_stream_leaves_no_run_behind() -> None:
    agent = await create(Scripted("a longer answer"))
    stream = agent.run_stream("go", session_id="s")
    async for _ in stream:
        break
    await stream.aclose()
    assert agent.get_state().runs == {}
    assert (await agent.resume("s")).status == "completed"


async def test_O3_deltas_are_not_stored() -> None:
    store = MemoryStore()
    agent = await create(Scripted("x" * 3000), session_store=store)
    items = await collect(agent, session_id="s")
    assert sum(isinstance(item, Delta) for item in items) == 1000
    assert [entry.kind for entry in await store.entries("s")] == ["run_started", "messages", "run_ended"]


async def test_O4_an_override_replaces_the_base_prompt_of_one_run() -> None:
    said = Scripted("end")
    notes = plugin("notes", sections=lambda context: [PromptSection.static("rules", "Keep the rules.", locked=True)])
    agent = await create(said, config={"prompt": {"system": "Base."}}, plugins=[notes])
    await agent.run("go", session_id="s", system_prompt_override="Override.")
    await agent.run("go", session_id="s")
    assert "Override." in said.instructions(0)
    assert "Base." not in said.instructions(0)
    assert "Keep the rules." in said.instructions(0)
    assert "Base." in said.instructions(1)
    assert "Override." not in said.instructions(1)


async def test_O4_K8_a_configuration_may_forbid_overrides() -> None:
    said = Scripted("end")
    agent = await create(said, config={"prompt": {"allow_override": False}})
    with pytest.raises(UsageError, match=r"prompt\.allow_override"):
        await agent.run("go", system_prompt_override="Override.")
    assert said.requests == []


async def test_O4_an_override_outlasts_a_change_of_the_tools() -> None:
    async def more() -> str:
        agent.register_tools([look])
        return "more"

    said = Scripted([call("more")], "end")
    agent = await create(said, more, config={"prompt": {"system": "Base."}})
    await agent.run("go", system_prompt_override="Override.")
    assert [said.instructions(0), said.instructions(1)] == ["Override.", "Override."]


async def test_session_auto_create_off_refuses_an_unknown_id() -> None:
    store = MemoryStore()
    first = await create(Scripted("end"), session_store=store)
    await first.run("go", session_id="known")
    agent = await create(Scripted("end"), config={"session": {"auto_create": False}}, session_store=store)
    with pytest.raises(SessionNotFound):
        await agent.run("go", session_id="unknown")
    assert (await agent.run("go", session_id="known")).status == "completed"
    assert (await agent.run("go")).status == "completed"


async def test_prompt_variables_without_a_value_fail_at_create() -> None:
    with pytest.raises(ConfigError, match=r"agent\.prompt.*'x'"):
        await create(Scripted("end"), config={"prompt": {"system": "{{x}}"}})


async def test_G11_variables_are_frozen_too() -> None:
    mine: dict[str, Any] = {"prompt": {"variables": {"a": {"b": [1]}}}}
    agent = await create(Scripted("end"), config=mine)
    before = config_digest(agent.get_config())
    mine["prompt"]["variables"]["a"]["b"].append(2)
    for change in (lambda held: held.update(a=2), lambda held: held["a"]["b"].append(2)):
        with pytest.raises(TypeError, match="frozen"):
            change(agent.get_config().prompt.variables)
    assert config_digest(agent.get_config()) == before


async def test_the_files_of_the_kernel_count_too() -> None:
    """What `DeepAgent` is given wins over the kernel's configuration, key by key."""
    made_by = Kernel(plugins=[deep_sessions], config={"agent": {"loop": {"max_iterations": 7}}}, discover=False)
    deps = AgentDeps(model=Scripted("end").model, kernel=made_by)
    agent = await DeepAgent.create(config={"identity": {"name": "ada"}}, deps=deps)
    assert (agent.get_config().loop.max_iterations, agent.get_config().identity.name) == (7, "ada")


def test_J2_sync() -> None:
    said = Scripted("end")
    agent = asyncio.run(create(said))
    assert agent.run_sync("go", session_id="s").message == "end"
    assert agent.run_sync("go", session_id="s").message == "end"
    assert len([m for m in said.requests[-1][0] if isinstance(m, ModelRequest)]) == 2
