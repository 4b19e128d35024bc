"""`create_deep_agent`: the agent that it returns, its output types and its model."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel, Field
from pydantic_ai import Agent, DeferredToolRequests, FunctionToolset
from pydantic_ai.exceptions import UnexpectedModelBehavior, UserError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, WorkspaceRef
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from deep_core import AgentConfig, PluginError, PluginOptions, PromptSection, create_default_deps
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


def test_a_capability_class_instead_of_an_instance_is_reported() -> None:
    from pydantic_ai.capabilities import Capability

    with pytest.raises(TypeError, match=r"Capability\(…\)"):
        agent_of(capabilities=[Capability])


def test_what_is_no_capability_is_reported() -> None:
    with pytest.raises(TypeError, match="int is no capability"):
        agent_of(capabilities=[1])


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
