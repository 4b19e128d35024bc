"""`task`: what it costs, which types there are, what a subagent has from its caller, and what it has not."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from typing import Any, SupportsIndex

import pytest
from deep_subagents import SUBAGENTS, SubAgentConfig, SubagentsOptions, create_subagent_toolset
from deep_todo import TODOS, Todo
from pydantic import BaseModel, ValidationError
from pydantic_ai import Agent, DeferredToolRequests, RunContext, Tool
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import UserPromptPart

from deep_core import (
    ConfigError,
    DeepAgentDeps,
    Deny,
    Kernel,
    PluginError,
    Tag,
    ToolExpression,
    ToolName,
    create_default_deps,
    hookimpl,
    tool_facts,
)
from plugins.subagents.tests.actors import Cast, Request, call, outcomes, say_results, task
from tests.plugins_by_hand import Tools, plugin

pytestmark = pytest.mark.anyio
MakeAgent = Callable[..., Agent[Any, Any]]

REVIEWER = SubAgentConfig(name="reviewer", description="Reads and judges.", instructions="You review.", tools="read")


def contributing(*types: SubAgentConfig, name: str = "reviews") -> object:
    made: Any = type(name, (), {})()
    made.deep_subagents = hookimpl(of="subagents")(lambda context: list(types))
    return made


def delegate(*child: Any, **more: Any) -> Cast:
    """A caller that gives one task and repeats the report, and the subagent that does the task."""
    return Cast({"go": [task("work", "t1", **more), say_results], "work": child})


# -- the tool --------------------------------------------------------------------------------------------------------


async def test_the_report_of_a_subagent_is_the_result_of_the_call(make_agent: MakeAgent, deps: Any) -> None:
    cast = delegate("the answer is 4")
    result = await make_agent(cast.model).run("go", deps=deps)
    assert result.output == "success:the answer is 4"
    assert [request.prompt for request in cast.seen] == ["go", "work", "go"]


async def test_the_tool_costs_at_most_330_characters_and_asks_for_nothing(make_agent: MakeAgent, deps: Any) -> None:
    cast = Cast({"go": ["hello"]})
    await make_agent(cast.model).run("go", deps=deps)
    (definition,) = [tool for tool in cast.seen[0].info.function_tools if tool.name == "task"]
    sent = {"name": "task", "description": definition.description, "parameters": definition.parameters_json_schema}
    assert len(json.dumps(sent, separators=(",", ":"), ensure_ascii=False)) <= 330
    known = tool_facts(definition)
    assert (known.asks, known.tags[:2]) == (False, ("read", "subagent"))
    others = [tool_facts(tool).tags for tool in cast.seen[0].info.function_tools if tool.name != "task"]
    assert {*known.tags} == {"read", "subagent", *(tag for tags in others for tag in tags)}
    assert "subagent" not in (cast.seen[0].info.instructions or "")  # no section where there is only general-purpose


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"subagent_type": "revewer"}, "no subagent type 'revewer'. Did you mean 'reviewer'? Types: reviewer, general"),
        ({"subagent_type": 3}, "no subagent type 3"),
        ({"description": "  "}, "description is missing"),
        ({"description": None}, "description is missing"),
    ],
)
async def test_a_slip_of_the_model_is_a_result_that_it_can_act_on(
    make_agent: MakeAgent, deps: Any, arguments: dict[str, Any], says: str
) -> None:
    cast = Cast({"go": [call("task", "t1", **{"description": "work", **arguments}), say_results]})
    result = await make_agent(cast.model, plugins=[SubagentsOptions(types=(REVIEWER,))]).run("go", deps=deps)
    assert result.output.startswith("failed:")
    assert says in result.output


async def test_a_report_is_bounded_and_says_so(make_agent: MakeAgent, deps: Any) -> None:
    agent = make_agent(delegate("x" * 1000).model, subagents={"max_result_chars": 300})
    result = await agent.run("go", deps=deps)
    assert result.output == f"success:{'x' * 300}\n[700 more characters of the report omitted]"


async def test_calls_made_together_run_at_the_same_time(make_agent: MakeAgent, deps: Any) -> None:
    import anyio

    both = anyio.Event()
    working: list[str] = []

    async def meet(request: Request) -> str:
        working.append(request.prompt)
        if len(working) == 2:
            both.set()
        await both.wait()  # hangs for ever if the other one waits for this one
        return f"{request.prompt} is done"

    cast = Cast({"go": [[task("a", "t1"), task("b", "t2")], say_results], "a": [meet], "b": [meet]})
    result = await make_agent(cast.model).run("go", deps=deps)
    assert result.output == "success:a is done | success:b is done"


# -- types -----------------------------------------------------------------------------------------------------------


async def test_configured_types_are_listed_once_and_have_their_instructions(make_agent: MakeAgent, deps: Any) -> None:
    cast = delegate("ok", subagent_type="reviewer")
    result = await make_agent(cast.model, plugins=[SubagentsOptions(types=(REVIEWER,))]).run("go", deps=deps)
    assert result.output == "success:ok"
    section = "Subagent types for task:\n- reviewer: Reads and judges."
    assert section in (cast.of("go")[0].info.instructions or "")
    told = cast.of("work")[0].info.instructions or ""
    assert "You review." in told
    assert section not in told


async def test_functions_in_the_tools_of_a_type_are_its_own(make_agent: MakeAgent, deps: Any, tools: Tools) -> None:
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    asked = Tool(double, name="triple", requires_approval=True)
    for given, expected in (
        ([double], {"double", "look", "put", "run", "read_todos", "write_todos"}),
        ([double, "look"], {"double", "look"}),
        ([asked, "look"], {"triple", "look"}),
    ):
        kind = {"name": "math", "description": "Counts.", "instructions": "Count.", "tools": given}
        cast = delegate(call("double", "d1", number=21), say_results, subagent_type="math")
        agent = make_agent(cast.model, subagents=[kind])
        result = await agent.run("go", deps=create_default_deps(kernel=deps.state.kernel))
        (first, *_) = [request for request in cast.seen if request.prompt == "work"]
        assert set(first.tools) == expected
        if double in given:
            assert result.output == "success:success:42"
        assert not {"double", "triple"} & set(cast.seen[0].tools), "the caller does not have them"


async def test_an_own_function_that_asks_surfaces_in_the_parent(make_agent: MakeAgent, deps: Any) -> None:
    asked = Tool(lambda: "done", name="launch", description="Launch.", requires_approval=True)
    kind = {"name": "pad", "description": "Launches.", "instructions": "Launch.", "tools": [asked]}
    cast = delegate(call("launch", "l1"), say_results, subagent_type="pad")
    result = await make_agent(cast.model, subagents=[kind]).run("go", deps=deps)
    assert isinstance(result.output, DeferredToolRequests)
    assert "launch" in json.dumps(result.output.metadata)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tools": [3]}, "ToolName takes a string, not int 3; give names of tools, functions, or a tool expression"),
        ({"functions": ["look"]}, "'look' is not a function; names of tools go into `tools`"),
    ],
)
def test_what_is_neither_a_name_nor_a_function_is_one_clear_error(
    make_agent: MakeAgent, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        make_agent("test", subagents=[{"name": "a", "description": "b", "instructions": "c", **given}])


async def test_a_type_narrows_the_tools_and_never_widens_them(make_agent: MakeAgent, deps: Any) -> None:
    both = SubAgentConfig(name="all", description="All.", instructions="x", tools="read | write")
    cast = Cast(
        {"go": [[task("a", "t1", subagent_type="reviewer"), task("b", "t2", subagent_type="all")]], "a": [], "b": []}
    )
    types = SubagentsOptions(types=(REVIEWER, both))
    await make_agent(cast.model, plugins=[types], tool_filter="~name:put").run("go", deps=deps)
    assert set(cast.of("go")[0].tools) >= {"look", "run", "task"}
    assert set(cast.of("a")[0].tools) == {"look", "read_todos", "write_todos"}
    assert set(cast.of("b")[0].tools) == {"look", "read_todos", "write_todos"}


async def test_other_plugins_add_types_and_the_application_replaces_them(make_kernel: Any) -> None:
    kernel = make_kernel(contributing(REVIEWER), strict=True)
    own = REVIEWER.model_copy(update={"instructions": "You are ours.", "description": "Ours."})
    for types, expected in (((), "You review."), ((own,), "You are ours.")):
        cast = delegate("ok", subagent_type="reviewer")
        agent = kernel.create_agent(cast.model, backend="memory", plugins=[SubagentsOptions(types=types)])
        assert (await agent.run("go", deps=create_default_deps(kernel=kernel))).output == "success:ok"
        assert expected in (cast.of("work")[0].info.instructions or "")


def test_two_plugins_with_one_type_are_both_named(make_kernel: Any) -> None:
    kernel = make_kernel(contributing(REVIEWER), contributing(REVIEWER, name="judges"))
    with pytest.raises(PluginError, match=r"subagent type 'reviewer': (judges and reviews|reviews and judges)"):
        kernel.create_agent("test", subagents=True)


def test_what_is_no_type_is_an_error_of_the_plugin_that_contributed_it(make_kernel: Any) -> None:
    bad: Any = type("bad", (), {})()
    bad.deep_subagents = hookimpl(of="subagents")(lambda context: [{"name": "x"}])
    with pytest.raises(PluginError, match=r"plugin bad .*hook deep_subagents: expected SubAgentConfigs, got dict"):
        make_kernel(bad).create_agent("test")


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "no spaces"},
        {"description": ""},
        {"tools": "read &"},
        {"colour": "red"},
        {"model": 3},
    ],
)
def test_a_type_checks_itself(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SubAgentConfig.model_validate({"name": "x", "description": "x", "instructions": "x", **wrong})


def test_two_configured_types_of_one_name_are_refused(kernel: Kernel) -> None:
    with pytest.raises(ConfigError, match="two types are named 'reviewer'"):
        kernel.create_agent("test", subagents={"types": [REVIEWER, REVIEWER]})


async def test_without_general_purpose_a_type_must_be_named(make_agent: MakeAgent, deps: Any) -> None:
    cast = delegate("ok")
    options = SubagentsOptions(types=(REVIEWER,), include_general_purpose=False)
    result = await make_agent(cast.model, plugins=[options]).run("go", deps=deps)
    assert "no subagent type 'general-purpose'. Types: reviewer" in result.output
    (definition,) = [tool for tool in cast.seen[0].info.function_tools if tool.name == "task"]
    assert definition.parameters_json_schema["required"] == ["description", "subagent_type"]


async def test_a_type_that_cannot_be_made_is_a_failed_result(make_agent: MakeAgent, deps: Any) -> None:
    wrong = SubAgentConfig(name="wrong", description="x", instructions="x", model="nonsense:model")
    result = await make_agent(
        delegate("ok", subagent_type="wrong").model, plugins=[SubagentsOptions(types=(wrong,))]
    ).run("go", deps=deps)
    assert result.output.startswith("failed:Subagent")
    assert "nonsense" in result.output


# -- prepared agents -------------------------------------------------------------------------------------------------


async def test_an_agent_put_into_the_session_is_used_without_a_type_of_its_name(
    make_agent: MakeAgent, deps: Any
) -> None:
    oracle = Agent(Cast({"work": ["42"]}).model, description="Knows it all.")
    deps.subagents["oracle"] = oracle
    cast = delegate(subagent_type="oracle")
    assert (await make_agent(cast.model).run("go", deps=deps)).output == "success:42"
    said = [p.content for m in cast.seen[0].messages for p in m.parts if isinstance(p, UserPromptPart)]
    assert any("- oracle: Knows it all." in str(text) for text in said)  # or the model would never call it


async def test_a_prepared_agent_without_a_model_uses_its_callers(make_agent: MakeAgent, deps: Any) -> None:
    deps.state[SUBAGENTS]["oracle"] = Agent(instructions="I am the oracle.")
    cast = delegate("hm", subagent_type="oracle")
    assert (await make_agent(cast.model).run("go", deps=deps)).output == "success:hm"
    assert cast.of("work")[0].info.instructions == "I am the oracle."


async def test_a_structured_report_is_json(make_agent: MakeAgent, deps: Any) -> None:
    class Verdict(BaseModel):
        good: bool

    deps.subagents["judge"] = Agent(Cast({"work": [call("final_result", "f", good=True)]}).model, output_type=Verdict)
    cast = delegate(subagent_type="judge")
    assert (await make_agent(cast.model).run("go", deps=deps)).output == 'success:{"good":true}'


async def test_the_callers_policy_holds_for_a_prepared_agent_that_has_none(make_agent: MakeAgent, deps: Any) -> None:
    ran: list[str] = []
    plain = Agent(Cast({"work": [[call("put", "p"), call("peek", "q")], say_results]}).model, deps_type=DeepAgentDeps)

    @plain.tool_plain
    def put() -> str:
        ran.append("put")
        return "put it"

    @plain.tool
    def peek(ctx: RunContext[Any]) -> str:
        return f"depth {ctx.deps.depth}"

    deps.subagents["plain"] = plain
    cast = delegate(subagent_type="plain")
    agent = make_agent(cast.model, interrupt_on={"put": True})
    asked = await agent.run("go", deps=deps)
    assert isinstance(asked.output, DeferredToolRequests)
    assert asked.output.metadata["t1"]["calls"][0]["tool"] == "put"
    assert ran == []
    done = await agent.run(
        None,
        deps=deps,
        message_history=asked.all_messages(),
        deferred_tool_results=asked.output.build_results(approve_all=True),
    )
    assert (done.output, ran) == ("success:success:put it | success:depth 1", ["put"])


def plain_agent(ran: list[str], *steps: Any) -> Agent[Any, Any]:
    """An agent that deep-agent-core did not create, with one tool without tags and one tagged `execute`."""
    plain = Agent(Cast({"work": [*steps, say_results]}).model, deps_type=DeepAgentDeps)

    @plain.tool_plain
    def put() -> str:
        ran.append("put")
        return "put it"

    @plain.tool_plain(metadata={"tags": ["execute"]})
    def run() -> str:
        ran.append("run")
        return "ran it"

    return plain


async def test_a_tool_of_a_prepared_agent_that_says_that_it_executes_asks(make_agent: MakeAgent, deps: Any) -> None:
    ran: list[str] = []
    deps.subagents["plain"] = plain_agent(ran, call("run", "p"))
    asked = await make_agent(delegate(subagent_type="plain").model).run("go", deps=deps)
    assert isinstance(asked.output, DeferredToolRequests)
    assert asked.output.metadata["t1"]["calls"][0]["plugin"] == "app"
    assert ran == []


@pytest.mark.parametrize("rules", [{"interrupt_on": "write"}, {"tool_filter": "~write"}])
async def test_an_untagged_tool_of_a_prepared_agent_counts_as_one_that_writes(
    make_agent: MakeAgent, deps: Any, rules: dict[str, Any]
) -> None:
    ran: list[str] = []
    deps.subagents["plain"] = plain_agent(ran, call("put", "p"))
    await make_agent(delegate(subagent_type="plain").model, **rules).run("go", deps=deps)
    assert ran == []


async def test_the_policy_reaches_a_prepared_agent_that_a_prepared_agent_starts(make_kernel: Any) -> None:
    ran: list[str] = []
    kernel = make_kernel(strict=True, config={"plugins": {"subagents": {"options": {"max_depth": 2}}}})
    deps = create_default_deps(kernel=kernel)
    steps = [call("ready", "r"), task("work", "t2", subagent_type="inner"), say_results]
    toolset = create_subagent_toolset(options=SubagentsOptions(max_depth=2))
    outer = Agent(Cast({"work": steps}).model, deps_type=DeepAgentDeps, toolsets=[toolset])

    @outer.tool(metadata={"tags": ["read"]})
    def ready(ctx: RunContext[Any]) -> None:
        ctx.deps.subagents["inner"] = plain_agent(ran, call("put", "p"))

    deps.subagents["outer"] = outer
    agent = kernel.create_agent(delegate(subagent_type="outer").model, tool_filter="read", backend="memory")
    assert (await agent.run("go", deps=deps)).output.startswith("success:success:")
    assert ran == []


@pytest.mark.parametrize(
    "rules", [{"interrupt_on": {"put": True}}, {"tool_filter": "read | subagent"}, {"guard": True}]
)
@pytest.mark.parametrize("starts_another", [False, True])
async def test_the_callers_rules_hold_for_a_prepared_deep_agent_that_asks_no_person(
    make_kernel: Any, tools: Tools, rules: dict[str, Any], starts_another: bool
) -> None:
    """Its own rules apply too, at every depth: to what it does, and to the subagents that its kernel makes."""

    def check(call: Any, context: Any) -> Deny | None:
        return Deny("no") if call.tool == "put" else None

    guards = [plugin("guard", check_call=check)] if rules.get("guard") else []
    caller = make_kernel(*guards, strict=True, config={"plugins": {"subagents": {"options": {"max_depth": 3}}}})
    other = make_kernel(strict=True, config={"plugins": {"subagents": {"options": {"max_depth": 3}}}})
    puts = [call("put", "p"), say_results]
    roles = {"work": [task("deeper", "t2"), say_results], "deeper": puts} if starts_another else {"work": puts}
    made = other.create_agent(Cast(roles).model, interrupt_on=False, backend="memory")
    deps = create_default_deps(kernel=caller)
    deps.subagents["prepared"] = made
    how = {key: value for key, value in rules.items() if key != "guard"}
    agent = caller.create_agent(delegate(subagent_type="prepared").model, backend="memory", **how)
    result = await agent.run("go", deps=deps)
    assert tools.ran == []
    if "interrupt_on" in rules:
        assert isinstance(result.output, DeferredToolRequests)
        result = await agent.run(
            None,
            deps=deps,
            message_history=result.all_messages(),
            deferred_tool_results=result.output.build_results(approve_all=True),
        )
        assert tools.names == ["put"]
    assert isinstance(result.output, str)


async def test_a_prepared_agent_gets_the_policy_and_no_plugins_capability(make_kernel: Any) -> None:
    seen: list[int] = []

    class Sees(AbstractCapability[Any]):
        async def before_run(self, ctx: RunContext[Any]) -> None:
            seen.append(ctx.deps.depth)

    kernel = make_kernel(plugin("sees", capabilities=[Sees()]), strict=True)
    deps = create_default_deps(kernel=kernel)
    deps.subagents["plain"] = plain_agent([])
    for kind in ("plain", "general-purpose"):
        await kernel.create_agent(delegate("ok", subagent_type=kind).model, backend="memory").run("go", deps=deps)
    assert seen == [0, 0, 1]


# -- inheritance and isolation ---------------------------------------------------------------------------------------


async def test_a_subagent_uses_the_model_of_its_callers_run(make_agent: MakeAgent, deps: Any) -> None:
    first, second = delegate("from the first"), delegate("from the second")
    agent = make_agent(first.model)
    assert (await agent.run("go", deps=deps)).output == "success:from the first"  # an instance is inherited too
    assert (await agent.run("go", deps=deps, model=second.model)).output == "success:from the second"
    assert len(first.seen) == len(second.seen) == 3


async def test_a_type_can_have_a_model_of_its_own(make_agent: MakeAgent, deps: Any) -> None:
    own = Cast({"work": ["by my own model"]})
    kind = SubAgentConfig(name="own", description="x", instructions="x", model=own.model)
    agent = make_agent(delegate(subagent_type="own").model, plugins=[SubagentsOptions(types=(kind,))])
    assert (await agent.run("go", deps=deps)).output == "success:by my own model"


async def test_a_subagent_knows_nothing_of_the_conversation_and_shares_the_workspace(
    make_agent: MakeAgent, deps: Any
) -> None:
    sessions: list[DeepAgentDeps[Any]] = []

    async def note(ctx: RunContext[DeepAgentDeps[Any]]) -> str:
        sessions.append(ctx.deps)
        await ctx.workspace.write_text("/from-child.txt", "hello")
        return "noted"

    cast = delegate(call("note", "n"), call("write_todos", "w", todos=[{"content": "mine", "status": "pending"}]), "ok")
    deps.state[TODOS] = [Todo(content="theirs", status="pending", active_form="theirs")]
    await make_agent(cast.model, tools=[note]).run("go", deps=deps)
    child = sessions[0]
    assert child.backend is deps.backend is not None
    assert (deps.depth, child.depth) == (0, 1)
    assert [todo.content for todo in child.state[TODOS]] == ["mine"]
    assert [todo.content for todo in deps.state[TODOS]] == ["theirs"]
    assert child.state[SUBAGENTS] == {}
    assert len(cast.of("work")[0].messages) == 1
    assert await deps.backend.read_bytes("/from-child.txt") == b"hello"


async def test_options_and_the_applications_tools_are_inherited(make_agent: MakeAgent, deps: Any) -> None:
    def weather(city: str) -> str:
        return f"rain in {city}"

    cast = delegate(call("weather", "w", city="Rome"), say_results)
    result = await make_agent(cast.model, tools=[weather], todo={"max_todos": 3}).run("go", deps=deps)
    assert result.output == "success:success:rain in Rome"


async def test_a_subagent_is_made_once_an_agent_and_type(make_kernel: Any) -> None:
    made: list[int] = []
    kernel = make_kernel(plugin("watch", agent_created=lambda agent, context: made.append(context.depth)), strict=True)
    cast = Cast({"go": [task("work", "t1"), task("work", "t2"), say_results], "work": ["ok"]})
    agent = kernel.create_agent(cast.model, backend="memory")
    for _ in range(2):  # two sessions
        await agent.run("go", deps=create_default_deps(kernel=kernel))
    assert made == [0, 1]


# -- depth -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 2, 3])
async def test_nesting_is_off_by_default_and_bounded(make_agent: MakeAgent, deps: Any, depth: int) -> None:
    cast = Cast(
        {
            "go": [task("level 1", "t1"), say_results],
            "level 1": [task("level 2", "t2"), say_results],
            "level 2": [task("level 3", "t3"), say_results],
            "level 3": [task("level 4", "t4"), say_results],
        }
    )
    how = {} if depth == 1 else {"subagents": {"max_depth": depth}}
    await make_agent(cast.model, **how).run("go", deps=deps)
    assert {request.prompt for request in cast.seen} == {"go", *(f"level {n}" for n in range(1, depth + 1))}
    for n in range(1, depth + 1):
        assert ("task" in cast.of(f"level {n}")[0].tools) is (n < depth)


async def test_a_rule_about_task_does_not_break_the_subagents_that_have_no_task(
    make_agent: MakeAgent, deps: Any
) -> None:
    cast = delegate("ok")
    result = await make_agent(cast.model, interrupt_on={"task": False, "run": True}).run("go", deps=deps)
    assert result.output == "success:ok"


async def test_a_prepared_deep_agent_starts_no_subagents_either(make_agent: MakeAgent, deps: Any) -> None:
    inner = Cast({"work": [task("more", "t2"), say_results]})
    deps.subagents["deep"] = make_agent(inner.model)
    await make_agent(delegate(subagent_type="deep").model).run("go", deps=deps)
    assert "task" not in inner.seen[0].tools


# -- in an agent of another make -------------------------------------------------------------------------------------


async def test_the_toolset_works_in_an_agent_that_deep_core_did_not_make(kernel: Kernel, tools: Tools) -> None:
    cast = delegate(call("run", "c1", path="x"), say_results, subagent_type="helper")
    helper = SubAgentConfig(name="helper", description="Helps.", instructions="You help.")
    agent = Agent(
        cast.model,
        deps_type=DeepAgentDeps,
        output_type=[str, DeferredToolRequests],
        toolsets=[create_subagent_toolset([helper])],
    )
    deps = create_default_deps(kernel=kernel, backend=None)
    asked = await agent.run("go", deps=deps)
    assert isinstance(asked.output, DeferredToolRequests)
    assert tools.ran == []
    done = await agent.run(
        None,
        deps=deps,
        message_history=asked.all_messages(),
        deferred_tool_results=asked.output.build_results(approve_all=True),
    )
    assert done.output == "success:success:run x"
    assert outcomes(done.all_messages())["t1"][0] == "success"


@pytest.mark.parametrize("written", ["read", ["look"], ("look",), ToolName("look"), Tag("read")])
def test_a_types_tools_may_be_written_in_every_form(written: Any) -> None:
    kind = SubAgentConfig(name="x", description="x", instructions="x", tools=written)
    assert isinstance(kind.tools, ToolExpression)
    stored = SubagentsOptions(types=(kind,)).model_dump(mode="json")
    assert SubagentsOptions.model_validate(stored).types == (kind,)
    assert SubagentsOptions.model_json_schema()["properties"]["types"]


async def test_a_misspelt_tool_of_a_type_is_reported_and_nothing_wider_runs(make_agent: MakeAgent, deps: Any) -> None:
    wrong = SubAgentConfig(name="wrong", description="x", instructions="x", tools=["lokk"])
    cast = delegate("ok", subagent_type="wrong")
    result = await make_agent(cast.model, plugins=[SubagentsOptions(types=(wrong,))]).run("go", deps=deps)
    assert "cannot be made" in result.output
    assert "lokk" in result.output
    assert cast.of("work") == []


class User:
    name = "Ann"


class Tenant(DeepAgentDeps[User]):
    pass


@pytest.mark.parametrize("kind", [None, object, Any, DeepAgentDeps, DeepAgentDeps[User], Tenant, SupportsIndex])
def test_an_agent_of_sessions_or_of_no_deps_can_be_prepared(deps: Any, kind: Any) -> None:
    deps.subagents["mine"] = Agent(deps_type=kind)
    assert deps.subagents.keys() == {"mine"}


@pytest.mark.parametrize("add", ["setitem", "update", "keyword"])
def test_an_agent_with_deps_of_its_own_is_refused_where_it_is_added(deps: Any, add: str) -> None:
    mine = Agent(deps_type=User)
    ways: dict[str, Callable[[], object]] = {
        "setitem": lambda: operator.setitem(deps.subagents, "mine", mine),
        "update": lambda: deps.subagents.update({"fine": Agent(), "mine": mine}),
        "keyword": lambda: deps.state[SUBAGENTS].update(mine=mine),
    }
    with pytest.raises(
        TypeError, match=r"deps.subagents\['mine'\] has deps_type=User.*deps_type=DeepAgentDeps\[User\]"
    ):
        ways[add]()
    assert deps.subagents == {}


async def test_an_agent_with_deps_of_its_own_in_a_dict_of_ones_own_does_not_run(make_agent: MakeAgent) -> None:
    deps = create_default_deps(app=User())
    deps.subagents = {"mine": Agent(deps_type=User)}
    with pytest.raises(TypeError, match="has deps_type=User"):
        await make_agent(delegate(subagent_type="mine").model).run("go", deps=deps)


async def test_what_is_no_agent_is_the_applications_error(make_agent: MakeAgent, deps: Any) -> None:
    with pytest.raises(TypeError, match=r"'oracle'\] is a str; use a Pydantic AI agent"):
        deps.state[SUBAGENTS]["oracle"] = "an oracle"
    deps.subagents = {"oracle": "an oracle"}
    with pytest.raises(Exception, match=r"use a Pydantic AI agent|no attribute 'description'"):
        await make_agent(delegate(subagent_type="oracle").model).run("go", deps=deps)
