"""`create_deep_agent`: the typed and the short way, what is passed on, and what a caller did wrong."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic import BaseModel, Field
from pydantic_ai import Agent, ConversationTypeAdapter, DeferredToolRequests, FunctionToolset, RunContext
from pydantic_ai.exceptions import UnexpectedModelBehavior, UserError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, WorkspaceRef
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from deep_core import (
    AgentConfig,
    ConfigError,
    Kernel,
    PluginError,
    PluginOptions,
    PromptSection,
    Without,
    create_deep_agent,
    create_default_deps,
)
from tests import another_process
from tests.environments import REPOSITORY
from tests.plugins_by_hand import Tools, agent_of, kernel_of, pending, plugin, run, scripted
from tests.stubs import Call


class SkillsOptions(PluginOptions):
    directories: list[str] = Field(default_factory=list)
    """Where skills are."""
    limit: int = 5
    """How many at most."""


class Skills:
    """A plugin `skills` that keeps the options it was given."""

    def __init__(self) -> None:
        self.seen: list[SkillsOptions] = []
        self.plugin = plugin("skills", options=SkillsOptions, toolsets=self.toolsets)

    def toolsets(self, context: Any) -> list[FunctionToolset[Any]]:
        self.seen.append(context.options(SkillsOptions))
        return [Tools("load_skill").toolset]


def other() -> object:
    return plugin("todo", toolsets=[Tools("write_todos").toolset], sections=[PromptSection.static("todo", "TODO")])


def shown(kernel: Kernel, **how: Any) -> list[str]:
    model = scripted()
    run(kernel.create_agent(model, **how))
    return sorted(model.player.views[0].tools)


# -- plugins ---------------------------------------------------------------------------------------------------------


def test_the_typed_way_and_the_short_way_are_one() -> None:
    skills = Skills()
    kernel = kernel_of(skills.plugin, other())
    ways: list[dict[str, Any]] = [
        {"plugins": [SkillsOptions(directories=["./s"]), Without("todo")]},
        {"skills": {"directories": ["./s"]}, "todo": False},
        {"skills": SkillsOptions(directories=["./s"]), "include_todo": False},
        {"config": {"plugins": {"skills": {"options": {"directories": ["./s"]}}, "todo": {"enabled": False}}}},
    ]
    for way in ways:
        assert shown(kernel, **way) == ["load_skill"]
    assert skills.seen == [SkillsOptions(directories=["./s"])] * len(ways)


def test_true_and_include_true_and_nothing_are_the_defaults() -> None:
    skills = Skills()
    kernel = kernel_of(skills.plugin, other())
    for way in ({}, {"skills": True}, {"include_skills": True}, {"skills": {}}):
        assert shown(kernel, **way) == ["load_skill", "write_todos"]
    assert skills.seen == [SkillsOptions()] * 4


def test_leaving_one_out_of_an_agent_leaves_it_in_the_kernel() -> None:
    kernel = kernel_of(Skills().plugin, other())
    assert shown(kernel, todo=False) == ["load_skill"]
    assert shown(kernel) == ["load_skill", "write_todos"]


def test_options_of_code_go_over_those_of_the_configuration_key_by_key() -> None:
    skills = Skills()
    kernel = kernel_of(skills.plugin, config={"plugins": {"skills": {"options": {"limit": 7, "directories": ["a"]}}}})
    kernel.create_agent(scripted(), skills={"limit": 9})
    kernel.create_agent(scripted(), plugins=[SkillsOptions(limit=5)])
    assert skills.seen == [SkillsOptions(limit=9, directories=["a"]), SkillsOptions(limit=5, directories=["a"])]


@pytest.mark.parametrize(
    ("keyword", "near"),
    [
        ("skils", "skills"),
        ("interupt_on", "interrupt_on"),
        ("include_tood", "include_todo"),
        ("instruction", "instructions"),
    ],
)
def test_an_unknown_keyword_is_an_error_with_a_suggestion(keyword: str, near: str) -> None:
    with pytest.raises(TypeError, match=rf"{keyword}.*Did you mean '{near}'"):
        kernel_of(Skills().plugin, other()).create_agent(scripted(), **{keyword: {}})


@pytest.mark.parametrize("keyword", ["deps_type", "deps", "app"])
def test_what_belongs_to_the_session_is_told_where_it_goes(keyword: str) -> None:
    with pytest.raises(TypeError, match=rf"takes no {keyword}: .*create_default_deps\(app=…\)"):
        kernel_of().create_agent(scripted(), **{keyword: dict})


@pytest.mark.parametrize(
    "keyword", ["tools", "toolsets", "history_processors", "capabilities", "plugins", "approvers", "native_tools"]
)
@pytest.mark.parametrize("value", ["todo", SkillsOptions(), FunctionToolset(), (name for name in ["todo"]), print])
def test_a_list_is_not_one_thing_alone(keyword: str, value: Any) -> None:
    with pytest.raises(TypeError, match=rf"{keyword}= takes a list, not .*{keyword}=\[…\]"):
        kernel_of(other()).create_agent(scripted(), **{keyword: value})


@pytest.mark.parametrize("value", [3, "x", ["a"], None])
def test_a_plugins_keyword_takes_options_or_a_bool(value: Any) -> None:
    with pytest.raises(TypeError, match="skills="):
        kernel_of(Skills().plugin).create_agent(scripted(), skills=value)
    with pytest.raises(TypeError, match="include_skills"):
        kernel_of(Skills().plugin).create_agent(scripted(), include_skills=value)


def test_wrong_options_are_one_clear_error() -> None:
    kernel = kernel_of(Skills().plugin)
    with pytest.raises(ConfigError, match=r"plugins\.skills\.options\.limt.*Did you mean 'limit'"):
        kernel.create_agent(scripted(), skills={"limt": 3})
    with pytest.raises(ConfigError, match=r"code: plugins\.skills\.options\.limit"):
        kernel.create_agent(scripted(), skills={"limit": "many"})


def test_plugins_takes_options_and_without_only() -> None:
    kernel = kernel_of(Skills().plugin)
    for wrong in (Skills(), "skills", SkillsOptions, Without):
        with pytest.raises(TypeError, match="options instances"):
            kernel.create_agent(scripted(), plugins=[wrong])
    with pytest.raises(PluginError, match="Did you mean 'skills'"):
        kernel.create_agent(scripted(), plugins=[Without("skils")])

    class Strange(PluginOptions):
        pass

    with pytest.raises(PluginError, match=r"Strange.*no active plugin"):
        kernel.create_agent(scripted(), plugins=[Strange()])


def test_options_asked_for_by_another_model_are_that_plugins_mistake() -> None:
    class Strange(PluginOptions):
        pass

    wrong = plugin("skills", options=SkillsOptions, toolsets=lambda context: [context.options(Strange)])
    with pytest.raises(PluginError, match=r"Strange.*SkillsOptions"):
        agent_of(wrong)


def test_a_context_tells_what_it_promises(own_home: Any) -> None:
    seen: list[Any] = []

    def sections(context: Any) -> list[PromptSection]:
        seen.append(context)
        assert [c.plugin for c in context.collect("deep_toolsets")] == ["skills"]
        with pytest.raises(PluginError, match="later phase"):
            context.collect("deep_capabilities")
        with pytest.raises(PluginError, match="not a hook"):
            context.collect("deep_nonsense")
        return []

    agent_of(Skills().plugin, plugin("looks", sections=sections), config={"agent": {"identity": {"name": "ada"}}})
    (context,) = seen
    assert (context.plugin, context.depth, context.config.identity.name) == ("looks", 0, "ada")
    assert context.logger.name == "deep.looks"
    assert context.data_dir.is_dir()
    assert context.cache_dir.is_dir()
    assert str(context.data_dir).startswith(str(own_home))


# -- output types ----------------------------------------------------------------------------------------------------


class City(BaseModel):
    name: str
    people: int


def answering(*tools: str) -> FunctionModel:
    """Calls the tools in turn, then gives a city through the output tool."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        calls = sum(isinstance(part, ToolCallPart) for message in messages for part in message.parts)
        if calls < len(tools):
            return ModelResponse(parts=[ToolCallPart(tools[calls], {}, tool_call_id=f"c{calls}")])
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, {"name": "Oslo", "people": 7})])

    return FunctionModel(answer)


def test_an_output_model_stands_beside_what_waits_for_a_person() -> None:
    tools, deps = Tools("launch", requires_approval=True), create_default_deps()
    agent = agent_of(plugin("pad", toolsets=[tools.toolset]), model=answering("launch"), output_type=City)
    asked = run(agent, deps=deps)
    answers = pending(asked).build_results(approve_all=True)
    done = run(agent, None, deps, message_history=asked.all_messages(), deferred_tool_results=answers)
    assert (done.output, tools.names) == (City(name="Oslo", people=7), ["launch"])


@pytest.mark.parametrize("output_type", [City, [City], [City, DeferredToolRequests], [City, str]])
def test_the_request_for_a_person_is_added_once(output_type: Any) -> None:
    given: Any = agent_of(output_type=output_type).output_type
    assert list(given).count(DeferredToolRequests) == 1
    assert City in given


def test_with_interrupt_on_false_the_output_type_is_the_callers() -> None:
    assert agent_of(output_type=City, interrupt_on=False).output_type is City
    assert agent_of(interrupt_on=False).output_type is str
    assert set(agent_of().output_type) == {str, DeferredToolRequests}  # type: ignore[call-overload]


def test_an_output_model_reserves_its_tool_name() -> None:
    with pytest.raises(PluginError, match="final_result"):
        run(agent_of(plugin("greedy", toolsets=[Tools("final_result").toolset]), model=answering(), output_type=City))


# -- what is passed on -----------------------------------------------------------------------------------------------


def test_the_result_is_a_plain_agent_with_every_parameter_of_it() -> None:
    agent = agent_of(
        name="ada",
        description="Counts.",
        model_settings={"temperature": 0.5},
        metadata={"team": "a"},
        tool_timeout=3.0,
        end_strategy="early",
        system_prompt="SYSTEM",
        validation_context={"a": 1},
        max_concurrency=2,
        defer_model_check=True,
        retries={"tools": 4},
    )
    assert type(agent) is Agent
    assert (agent.name, agent.description, agent.end_strategy) == ("ada", "Counts.", "early")
    assert agent.model_settings == {"temperature": 0.5}
    result = run(agent)
    assert result.metadata == {"team": "a"}
    assert "SYSTEM" in str(result.all_messages())


@pytest.mark.parametrize("config", [{}, {"agent": {"model": {"temperature": 0.5, "max_tokens": 9}}}])
def test_model_settings_may_be_a_function_that_is_asked_at_each_request(config: dict[str, Any]) -> None:
    settings: list[Any] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        settings.append(info.model_settings)
        return ModelResponse(parts=[TextPart("done")])

    kernel = kernel_of(config=config)
    agent = kernel.create_agent(FunctionModel(answer), model_settings=lambda ctx: {"temperature": ctx.deps.app})
    for temperature in (0.1, 0.2):
        run(agent, deps=create_default_deps(app=temperature))
    configured = {"max_tokens": 9} if config else {}
    assert settings == [{**configured, "temperature": 0.1}, {**configured, "temperature": 0.2}]


def test_a_tool_timeout_holds_for_the_applications_tools() -> None:
    async def forever() -> str:
        await asyncio.Event().wait()
        return "never"

    result = run(agent_of(model=scripted(Call("forever", {})), tools=[forever], tool_timeout=0.01))
    assert "Timed out" in str(result.all_messages())


def test_retries_reach_plugins_tools() -> None:
    from pydantic_ai import ModelRetry

    toolset = FunctionToolset[Any](id="moody")

    @toolset.tool_plain
    def again() -> str:
        raise ModelRetry("again")

    moody = plugin("moody", toolsets=[toolset])
    calls = [Call("again", {})] * 3
    assert run(agent_of(moody, model=scripted(*calls), retries=3)).output == "done"
    with pytest.raises(UnexpectedModelBehavior):
        run(agent_of(moody, model=scripted(*calls), retries=1))
    for of_output in (None, {"output": 1}):  # what is not said stays as it is without saying anything
        assert run(agent_of(moody, model=scripted(*calls), retries=of_output)).output == "done"


def test_the_applications_own_things_stand_beside_the_plugins() -> None:
    from pydantic_ai.capabilities import Capability

    def mine() -> str:
        return "mine"

    model = scripted()
    run(
        agent_of(
            other(),
            model=model,
            instructions="MINE",
            tools=[mine],
            toolsets=[Tools("second").toolset, lambda ctx: Tools("third").toolset],
            capabilities=[Capability(instructions="CAPABLE")],
        )
    )
    view = model.player.views[0]
    assert set(view.tools) == {"mine", "second", "third", "write_todos"}
    assert all(text in view.system for text in ("MINE", "CAPABLE", "TODO"))


def test_a_capability_class_instead_of_an_instance_is_told() -> None:
    from pydantic_ai.capabilities import Capability

    with pytest.raises(TypeError, match=r"Capability\(…\)"):
        agent_of(capabilities=[Capability])


def test_a_model_may_be_a_name_an_object_or_the_configurations() -> None:
    assert isinstance(kernel_of().create_agent("test").model, TestModel)
    model = TestModel()
    assert kernel_of().create_agent(model).model is model
    assert isinstance(kernel_of(config={"agent": {"model": "test"}}).create_agent().model, TestModel)
    assert kernel_of().create_agent().model is None
    with pytest.raises(UserError, match="model"):
        run(kernel_of().create_agent())


def test_config_may_be_an_object_a_mapping_or_a_file(tmp_path: Any) -> None:
    file = tmp_path / "deep.toml"
    file.write_text("[agent.identity]\nname = 'ada'")
    for config in (
        AgentConfig.model_validate({"identity": {"name": "ada"}}),
        {"agent": {"identity": {"name": "ada"}}},
        file,
        str(file),
    ):
        assert kernel_of().create_agent(scripted(), config=config).name == "ada"
    assert kernel_of().create_agent(scripted(), config=file, name="eve").name == "eve"


def test_create_deep_agent_takes_a_kernel_or_makes_the_default_one(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernel_of(other())
    model = scripted()
    run(create_deep_agent(model, kernel=kernel, todo=True))
    assert list(model.player.views[0].tools) == ["write_todos"]
    monkeypatch.setattr("deep_core.plugins.kernel._default", kernel)
    model = scripted()
    run(create_deep_agent(model, config=AgentConfig.model_validate({"identity": {"name": "ada"}})))
    assert list(model.player.views[0].tools) == ["write_todos"]


# -- sessions and backends -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deps", [None, {"a": 1}, "deps"])
@pytest.mark.parametrize("backend", [False, True])
@pytest.mark.parametrize("listening", [False, True])
def test_a_run_without_deps_gets_one_clear_error_with_the_line_to_add(
    deps: Any, backend: bool, listening: bool
) -> None:
    plugins = [other(), plugin("guard", check_call=lambda call: None)]
    plugins += [plugin("disk", backends={"memory": lambda context: Memory()})] if backend else []
    plugins += [plugin("ear", run_event=lambda event: None)] if listening else []
    agent = agent_of(*plugins, model=scripted(Call("write_todos", {})))
    with pytest.raises(UserError, match=r"deps=deep_core\.create_default_deps\(\)") as caught:
        asyncio.run(agent.run("go", **({"deps": deps} if deps else {})))
    assert "\n" not in str(caught.value)


class Memory:
    """A workspace that remembers how it is called."""

    def __init__(self, name: str = "memory") -> None:
        self.name = name

    @property
    def ref(self) -> WorkspaceRef | None:
        return WorkspaceRef(provider="test-memory", id=self.name)

    async def working_dir(self) -> str:
        return f"/{self.name}"


@pytest.mark.parametrize("wrong", ["memory", REPOSITORY, agent_of, 3])
def test_a_sessions_backend_is_an_instance(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"a session's backend is an instance, such as .*memory_backend\(\), not "):
        run(agent_of(), deps=create_default_deps(wrong))


@pytest.mark.parametrize("wrong", [REPOSITORY, 3, True])
def test_an_agents_backend_is_a_name_an_instance_or_a_factory(wrong: Any) -> None:
    with pytest.raises(TypeError, match="backend= is a name, an instance or a factory, not "):
        agent_of(backend=wrong)


def asking_where() -> object:
    toolset = FunctionToolset[Any](id="where")

    @toolset.tool
    async def where(ctx: RunContext[Any]) -> str:
        return str(await ctx.workspace.working_dir())

    return plugin("where", toolsets=[toolset])


def answer_of(agent: Any, deps: Any, **how: Any) -> tuple[str, Any]:
    result = run(agent, deps=deps, **how)
    (part,) = [p for m in result.new_messages() for p in m.parts if p.part_kind == "tool-return"]
    return str(part.content), result


def where_model() -> Any:
    return scripted(then=lambda view: "done" if view.results else Call("where", {}))


def test_the_sessions_backend_wins_over_the_agents_and_that_over_memory() -> None:
    made: list[str] = []

    def factory(context: Any) -> Memory:
        made.append(context.plugin)
        return Memory(f"made{len(made)}")

    disk = plugin("disk", backends={"memory": factory, "big": lambda context: Memory("big")})

    def agent(**how: Any) -> Any:
        return agent_of(asking_where(), disk, model=where_model(), **how)

    assert answer_of(agent(backend="big"), create_default_deps(backend=Memory("own")))[0] == "/own"  # type: ignore[arg-type]
    assert answer_of(agent(backend="big"), create_default_deps())[0] == "/big"
    assert answer_of(agent(backend=Memory("given")), create_default_deps())[0] == "/given"
    assert answer_of(agent(backend=lambda context: Memory("lazy")), create_default_deps())[0] == "/lazy"
    deps = create_default_deps()
    one = agent()
    assert (answer_of(one, deps)[0], answer_of(one, deps)[0]) == ("/made1", "/made1")
    assert answer_of(one, create_default_deps())[0] == "/made2"
    assert made == ["disk", "disk"]


def test_a_backend_that_nobody_provides_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(PluginError, match=r"'memry'.*Did you mean 'memory'"):
        agent_of(plugin("disk", backends={"memory": lambda context: Memory()}), backend="memry")
    with pytest.raises(PluginError, match="pip install deep-backends"):
        agent_of(backend="memory")
    told, result = answer_of(agent_of(asking_where(), model=where_model()), create_default_deps())
    assert "pip install deep-backends" in told
    assert result.output == "done"


def test_a_factory_that_makes_no_backend_is_named() -> None:
    agent = agent_of(
        asking_where(), plugin("disk", backends={"odd": lambda context: 3}), model=where_model(), backend="odd"
    )
    with pytest.raises(PluginError, match=r"backend 'odd'.*int"):
        run(agent)


def test_a_continued_history_works_in_the_backend_that_the_session_names() -> None:
    agent = agent_of(asking_where(), model=where_model())
    place, first = answer_of(agent, create_default_deps(backend=Memory("one")))  # type: ignore[arg-type]
    assert place == "/one"
    place, _ = answer_of(agent, create_default_deps(backend=Memory("two")), message_history=first.all_messages())  # type: ignore[arg-type]
    assert place == "/two"


MEMORY = """
import asyncio, json, sys
from pydantic_ai import ConversationTypeAdapter
from deep_core import create_default_deps
from deep_backends import memory_backend
from tests.plugins_by_hand import agent_of, scripted

deps = create_default_deps(backend=memory_backend())
agent = agent_of(model=scripted("{answer}"))
given = json.loads(sys.stdin.read() or "null")
how = dict(conversation=ConversationTypeAdapter.validate_json(given)) if given else dict()
result = asyncio.run(agent.run("go", deps=deps, **how))
stored = ConversationTypeAdapter.dump_json(result.conversation).decode()
print(json.dumps([result.output, len(result.all_messages()), stored]))
"""


def test_a_conversation_stored_with_the_memory_backend_continues_in_another_process() -> None:
    stored = ""
    for number, answer in enumerate(("one", "two", "three"), 1):
        program = MEMORY.replace("{answer}", answer)
        done = another_process.run(program, stdin=json.dumps(stored) if stored else "", cwd=REPOSITORY)
        assert done.returncode == 0, done.stderr
        output, messages, stored = json.loads(done.stdout)
        assert (output, messages) == (answer, 2 * number)
        assert ConversationTypeAdapter.validate_json(stored).messages


def test_an_overrides_tools_stand_beside_and_its_toolsets_in_the_place_of_all() -> None:
    def mine() -> str:
        return "mine"

    def fake() -> str:
        return "fake"

    model = scripted()
    agent = agent_of(other(), model=model, tools=[mine])
    for overridden in ({"tools": [fake]}, {"toolsets": [FunctionToolset[Any]([fake])]}):
        with agent.override(**overridden):  # type: ignore[arg-type]
            run(agent)
    assert [set(view.tools) for view in model.player.views] == [{"mine", "fake", "write_todos"}, {"fake"}]
