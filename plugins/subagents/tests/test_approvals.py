"""Approvals inside subagents: they appear at the top, and the subagent gets the decision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import ANY

import pytest
from deep_subagents import SubAgentConfig, SubagentsOptions, decide
from deep_subagents.slots import PAUSED
from deep_todo import TODOS
from pydantic import TypeAdapter
from pydantic_ai import (
    Agent,
    ConversationTypeAdapter,
    DeferredToolRequests,
    DeferredToolResults,
    RunContext,
    ToolApproved,
    ToolDenied,
)
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.exceptions import ApprovalRequired

from deep_core import Ask, DeepAgentDeps, Kernel, ToolCall, create_default_deps
from plugins.subagents.tests.actors import Cast, Request, call, outcomes, say_results, task
from tests.plugins_by_hand import Tools, plugin

pytestmark = pytest.mark.anyio
MakeAgent = Callable[..., Agent[Any, Any]]


def asked(result: Any) -> DeferredToolRequests:
    assert isinstance(result.output, DeferredToolRequests), result.output
    return result.output


async def go_on(agent: Agent[Any, Any], result: Any, deps: Any, answers: DeferredToolResults | None = None) -> Any:
    """Resume with these answers; without answers, approve everything."""
    answers = answers or asked(result).build_results(approve_all=True)
    return await agent.run(None, deps=deps, message_history=result.all_messages(), deferred_tool_results=answers)


def child(*steps: Any) -> Cast:
    return Cast({"go": [task("work", "t1"), say_results], "work": steps})


# -- up --------------------------------------------------------------------------------------------------------------


async def test_what_surfaces_is_enough_to_decide(make_kernel: Any, tools: Tools) -> None:
    def check(tool_call: ToolCall) -> Ask | None:
        return Ask("late hours") if tool_call.tool == "put" else None

    kernel = make_kernel(plugin("guard", check_call=check), strict=True)
    cast = child([call("run", "c1", path="x"), call("put", "c2", path="y", text="z"), call("look", "c3")])
    agent = kernel.create_agent(cast.model, backend="memory")
    requests = asked(await agent.run("go", deps=create_default_deps(kernel=kernel)))
    assert [(part.tool_name, part.tool_call_id) for part in requests.approvals] == [("task", "t1")]
    assert requests.metadata["t1"] == {
        "subagent": "general-purpose",
        "calls": [
            {
                "id": "c1",
                "path": "t1/c1",
                "tool": "run",
                "args": {"path": "x"},
                "plugin": "things",
                "identity": ANY,
                "reason": "it runs a command",
                "reasons": [{"kind": "command", "text": "it runs a command", "plugin": "things"}],
            },
            {
                "id": "c2",
                "path": "t1/c2",
                "tool": "put",
                "args": {"path": "y", "text": "z"},
                "plugin": "things",
                "identity": ANY,
                "reason": "late hours",
                "reasons": [{"kind": "guard", "text": "late hours", "plugin": "guard"}],
            },
        ],
    }
    assert tools.names == ["look"]


async def test_predicates_see_the_depth_of_the_call(make_agent: MakeAgent, deps: Any, tools: Tools) -> None:
    depths: list[int] = []

    def deep_only(tool_call: ToolCall) -> bool:
        depths.append(tool_call.depth)
        return tool_call.depth > 0

    cast = Cast({"go": [call("put", "c1"), task("work", "t1"), say_results], "work": [call("put", "c2"), say_results]})
    agent = make_agent(cast.model, interrupt_on={"put": deep_only})
    result = await agent.run("go", deps=deps)
    assert asked(result).metadata["t1"]["calls"][0]["id"] == "c2"
    assert tools.names == ["put"]
    assert (await go_on(agent, result, deps)).output == "success:success:put"
    assert set(depths) == {0, 1}


# -- down ------------------------------------------------------------------------------------------------------------


async def test_an_approved_child_continues_where_it_stopped(make_agent: MakeAgent, deps: Any, tools: Tools) -> None:
    todo = call("write_todos", "w", todos=[{"content": "finish", "status": "pending"}])
    cast = child(
        call("put", "c0", path="once"), todo, call("run", "c1", path="x"), call("read_todos", "r"), say_results
    )
    agent = make_agent(cast.model)
    first = await agent.run("go", deps=deps)
    assert tools.names == ["put"]
    done = await go_on(agent, first, deps)
    assert "[ ] finish" in done.output  # its own session was kept too
    assert tools.names == ["put", "run"]
    assert len(cast.of("work")) == 5  # nothing was asked of the model twice
    assert deps.state[PAUSED] == {}
    assert deps.state[TODOS] == []


async def test_each_waiting_call_is_decided_on_its_own(make_agent: MakeAgent, deps: Any, tools: Tools) -> None:
    calls = [call("run", "c1", path="a"), call("run", "c2", path="b"), call("run", "c3", path="c"), call("run", "c4")]
    agent = make_agent(child(calls, say_results).model)
    first = await agent.run("go", deps=deps)
    answers = decide(
        asked(first),
        {
            "c1": True,
            "c2": ToolDenied("not b"),
            "t1/c3": ToolApproved(override_args={"path": "other"}),
            "c4": False,
        },
    )
    done = await go_on(agent, first, deps, answers)
    assert done.output == "success:success:run a | denied:not b | success:run other | denied:The tool call was denied."
    assert sorted(args["path"] for _, args in tools.ran) == ["a", "other"]  # side by side, in any order


async def test_denying_the_task_tells_the_caller_and_ends_the_child(
    make_agent: MakeAgent, deps: Any, tools: Tools
) -> None:
    cast = child(call("run", "c1"), say_results)
    agent = make_agent(cast.model)
    first = await agent.run("go", deps=deps)
    assert [child.call_id for child in deps.state[PAUSED].values()] == ["t1"]
    done = await go_on(agent, first, deps, decide(asked(first), {"t1": ToolDenied("no delegation")}))
    assert done.output == "denied:no delegation"
    assert (tools.ran, deps.state[PAUSED], len(cast.of("work"))) == ([], {}, 1)


async def test_a_child_may_ask_again_and_again(make_agent: MakeAgent, deps: Any, tools: Tools) -> None:
    cast = child(*(call("run", f"c{n}", path=str(n)) for n in range(3)), say_results)
    agent = make_agent(cast.model)
    result = await agent.run("go", deps=deps)
    for n in range(3):
        assert asked(result).metadata["t1"]["calls"][0]["args"] == {"path": str(n)}
        assert len(tools.ran) == n
        result = await go_on(agent, result, deps)
    assert result.output == "success:success:run 2"


async def test_the_task_itself_can_ask_first(make_agent: MakeAgent, deps: Any, tools: Tools) -> None:
    cast = child(call("run", "c1", path="x"), say_results)
    agent = make_agent(cast.model, interrupt_on={"task": True})
    first = await agent.run("go", deps=deps)
    assert "subagent" not in asked(first).metadata["t1"]
    assert cast.of("work") == []
    second = await go_on(agent, first, deps)
    assert asked(second).metadata["t1"]["calls"][0]["id"] == "c1"
    assert tools.ran == []
    assert (await go_on(agent, second, deps, decide(asked(second), {"c1": True}))).output == "success:success:run x"


# -- several children, several levels --------------------------------------------------------------------------------


async def test_children_side_by_side_with_one_call_id_are_distinguished_by_path(
    make_agent: MakeAgent, deps: Any, tools: Tools
) -> None:
    cast = Cast({"go": [[task("a", "t1"), task("b", "t2"), call("run", "c1", path="own")], say_results]})
    cast.roles |= {"a": [call("run", "c1", path="a"), say_results], "b": [call("run", "c1", path="b"), say_results]}
    agent = make_agent(cast.model)
    first = await agent.run("go", deps=deps)
    with pytest.raises(ValueError, match=r"'c1' is the id of several calls; name one by its path: 't1/c1', 't2/c1'"):
        decide(asked(first), {"c1": True})
    answers = decide(asked(first), {"t1/c1": True, "t2/c1": ToolDenied("not b")})
    answers.approvals["c1"] = False
    done = await go_on(agent, first, deps, answers)
    found = outcomes(done.all_messages())
    assert found["t1"][1] == "success:run a"
    assert found["t2"][1] == "denied:not b"
    assert found["c1"][0] == "denied"
    assert [args["path"] for _, args in tools.ran] == ["a"]


@pytest.mark.parametrize(
    ("decisions", "output"),
    [
        (None, "success:success:success:run deep"),
        ({"c1": True}, "success:success:success:run deep"),
        ({"t1/t2/c1": ToolDenied("never")}, "success:success:denied:never"),
        ({"t2": ToolDenied("no grandchildren")}, "success:denied:no grandchildren"),
        ({"t1": ToolDenied("no children")}, "denied:no children"),
    ],
)
async def test_a_childs_child_surfaces_at_the_top_and_hears_what_was_decided(
    make_kernel: Any, tools: Tools, decisions: Any, output: str
) -> None:
    cast = Cast(
        {
            "go": [task("level 1", "t1"), say_results],
            "level 1": [task("level 2", "t2"), say_results],
            "level 2": [call("run", "c1", path="deep"), say_results],
        }
    )

    def fresh() -> tuple[Kernel, Agent[Any, Any]]:
        kernel = make_kernel(strict=True)
        return kernel, kernel.create_agent(cast.model, backend="memory", subagents={"max_depth": 2})

    kernel, agent = fresh()
    deps = create_default_deps(kernel=kernel)
    first = await agent.run("go", deps=deps)
    (inner,) = asked(first).metadata["t1"]["calls"]
    assert (inner["tool"], inner["subagent"], inner["path"]) == ("task", "general-purpose", "t1/t2")
    assert [(c["path"], c["tool"], c["args"]) for c in inner["calls"]] == [("t1/t2/c1", "run", {"path": "deep"})]
    assert tools.ran == []
    # Everything through JSON, into another kernel's agent.
    stored, session = ConversationTypeAdapter.dump_json(first.conversation), deps.dump()
    conversation = ConversationTypeAdapter.validate_json(stored)
    requests = conversation.deferred_tool_requests
    assert requests is not None
    answers = requests.build_results(approve_all=True) if decisions is None else decide(requests, decisions)
    adapter = TypeAdapter(DeferredToolResults)
    answers = adapter.validate_json(adapter.dump_json(answers))
    kernel, agent = fresh()
    deps = kernel.load_deps(session)
    done = await agent.run(None, deps=deps, conversation=conversation, deferred_tool_results=answers)
    assert done.output == output
    assert tools.ran == ([("run", {"path": "deep", "text": ""})] if "run deep" in output else [])
    assert deps.state[PAUSED] == {}


# -- what must not happen --------------------------------------------------------------------------------------------


async def test_decisions_in_a_session_that_was_not_asked_run_nothing(
    make_agent: MakeAgent, deps: Any, kernel: Kernel, tools: Tools
) -> None:
    agent = make_agent(child(call("run", "c1"), say_results).model)
    first = await agent.run("go", deps=deps)
    other = create_default_deps(kernel=kernel)
    second = await go_on(agent, first, other, decide(asked(first), {"c1": True}))
    assert asked(second).metadata["t1"]["calls"][0]["id"] == "c1"
    assert tools.ran == []


async def test_a_blanket_approval_of_a_child_that_the_session_lost_approves_nothing_it_asks_anew(
    make_agent: MakeAgent, deps: Any, kernel: Kernel, tools: Tools
) -> None:
    agent = make_agent(child(call("run", "c1"), say_results).model)
    first = await agent.run("go", deps=deps)
    second = await go_on(agent, first, create_default_deps(kernel=kernel))
    assert asked(second).metadata["t1"]["calls"][0]["id"] == "c1"
    assert tools.ran == []


@pytest.mark.parametrize("way", ["two conversations", "two forks", "stored between"])
async def test_what_one_conversation_was_shown_lets_no_other_child_continue(
    make_agent: MakeAgent, kernel: Kernel, tools: Tools, way: str
) -> None:
    """Two conversations of one session wait with one call id and one task: models number their calls."""
    paths = iter(["first", "second"])
    role = [task("work", "t1"), say_results]
    steps = [lambda request: call("run", "c1", path=next(paths)), say_results]  # type: ignore[misc]
    agent = make_agent(Cast({"hello": ["hello", *role], "go": role, "work": steps}).model)
    deps = create_default_deps(kernel=kernel)
    history = (await agent.run("hello", deps=deps)).all_messages() if way == "two forks" else []
    waiting = [await agent.run("go", deps=deps, message_history=history) for _ in range(2)]
    if way == "stored between":
        deps = kernel.load_deps(deps.dump())
    for result, path in zip(waiting, ("first", "second"), strict=True):
        assert asked(result).metadata["t1"]["calls"][0]["args"]["path"] == path
        if way != "two forks" or path == "first":
            done = await go_on(agent, result, deps)
            assert done.output == f"success:success:run {path}"
            assert tools.ran[-1][1]["path"] == path
    assert len(tools.ran) == (1 if way == "two forks" else 2)


async def test_a_child_continues_where_the_history_was_rebuilt(make_agent: MakeAgent, deps: Any, tools: Tools) -> None:
    """Drop the run ids from messages, like an interface that stores the conversation in its own form."""
    agent = make_agent(child(call("run", "c1"), say_results).model)
    first = await agent.run("go", deps=deps)
    answers = asked(first).build_results(approve_all=True)
    messages = [replace(message, run_id=None, conversation_id=None) for message in first.all_messages()]
    done = await agent.run(None, deps=deps, message_history=messages, deferred_tool_results=answers)
    assert done.output == "success:success:run"
    assert tools.names == ["run"]


async def test_what_is_stored_and_does_not_load_is_a_failed_result(
    make_agent: MakeAgent, deps: Any, tools: Tools
) -> None:
    agent = make_agent(child(call("run", "c1"), say_results).model)
    first = await agent.run("go", deps=deps)
    next(iter(deps.state[PAUSED].values())).conversation = '{"messages": 3}'
    done = await go_on(agent, first, deps)
    assert "its stored state is not readable" in done.output
    assert (tools.ran, deps.state[PAUSED]) == ([], {})


async def test_a_type_that_is_gone_when_the_child_should_continue_is_a_failed_result(
    make_agent: MakeAgent, deps: Any, tools: Tools
) -> None:
    kind = SubAgentConfig(name="helper", description="x", instructions="x")
    cast = Cast({"go": [task("work", "t1", subagent_type="helper"), say_results], "work": [call("run", "c1")]})
    first = await make_agent(cast.model, plugins=[SubagentsOptions(types=(kind,))]).run("go", deps=deps)
    done = await go_on(make_agent(cast.model), first, deps)
    assert "no subagent type 'helper'" in done.output
    assert (tools.ran, deps.state[PAUSED]) == ([], {})


async def test_who_changes_the_task_starts_another_one(make_agent: MakeAgent, deps: Any, tools: Tools) -> None:
    cast = child(call("run", "c1"), say_results)
    cast.roles["other work"] = ["did the other work"]
    agent = make_agent(cast.model)
    first = await agent.run("go", deps=deps)
    changed = {"t1": ToolApproved(override_args={"description": "other work"})}
    done = await go_on(agent, first, deps, asked(first).build_results(approvals=changed))
    assert done.output == "success:did the other work"
    assert (tools.ran, deps.state[PAUSED]) == ([], {})


async def test_a_new_call_with_the_id_of_a_waiting_one_is_a_new_child(
    make_agent: MakeAgent, deps: Any, tools: Tools
) -> None:
    cast = child(call("run", "c1", path="first"))
    cast.roles["again"] = [task("calm", "t1"), say_results]
    cast.roles["calm"] = ["nothing to run"]
    agent = make_agent(cast.model)
    await agent.run("go", deps=deps)
    assert (await agent.run("again", deps=deps)).output == "success:nothing to run"
    assert tools.ran == []


async def test_another_conversation_of_the_session_forgets_no_subagent(
    make_agent: MakeAgent, deps: Any, tools: Tools
) -> None:
    cast = child(call("run", "c1", path="x"), say_results)
    cast.roles["hello"] = ["hi"]
    agent = make_agent(cast.model)
    first = await agent.run("go", deps=deps)
    await agent.run("hello", deps=deps)
    assert (await go_on(agent, first, deps)).output == "success:success:run x"


async def test_a_decision_that_speaks_of_one_call_only_denies_the_other(
    make_agent: MakeAgent, deps: Any, tools: Tools
) -> None:
    agent = make_agent(child([call("run", "c1", path="a"), call("run", "c2", path="b")], say_results).model)
    first = await agent.run("go", deps=deps)
    answers = decide(asked(first), {"c1": True, "c2": True})
    del answers.metadata["t1"]["subagent_decisions"]["c2"]
    done = await go_on(agent, first, deps, answers)
    assert "denied:This call got no decision" in done.output
    assert [args["path"] for _, args in tools.ran] == ["a"]


@pytest.mark.parametrize("junk", [3, "yes", [], None, {"c1": "yes"}, {"c1": {"approve": "true"}}, {"c1": 1}])
async def test_unreadable_decisions_deny(make_agent: MakeAgent, deps: Any, tools: Tools, junk: Any) -> None:
    agent = make_agent(child(call("run", "c1"), say_results).model)
    first = await agent.run("go", deps=deps)
    answers = asked(first).build_results(approve_all=True, metadata={"t1": {"subagent_decisions": junk}})
    done = await go_on(agent, first, deps, answers)
    assert "denied:" in done.output
    assert tools.ran == []


async def test_metadata_of_the_applications_own_is_not_taken_for_decisions(
    make_agent: MakeAgent, deps: Any, tools: Tools
) -> None:
    agent = make_agent(child(call("run", "c1", path="x"), say_results).model)
    first = await agent.run("go", deps=deps)
    answers = asked(first).build_results(approve_all=True, metadata={"t1": {"by": "ann"}})
    assert (await go_on(agent, first, deps, answers)).output == "success:success:run x"


# -- other ways to be asked ------------------------------------------------------------------------------------------


async def test_a_handler_of_the_application_decides_while_the_run_continues(
    make_agent: MakeAgent, deps: Any, tools: Tools
) -> None:
    levels: list[int] = []

    async def answer(ctx: RunContext[DeepAgentDeps[Any]], requests: DeferredToolRequests) -> DeferredToolResults | None:
        levels.append(ctx.deps.depth)
        if ctx.deps.depth:
            return None  # let it surface, and decide at the top
        return decide(requests, {"c1": ToolDenied("the handler says no")})

    agent = make_agent(
        child(call("run", "c1"), say_results).model, capabilities=[HandleDeferredToolCalls(handler=answer)]
    )
    assert (await agent.run("go", deps=deps)).output == "success:denied:the handler says no"
    assert (levels, tools.ran) == ([1, 0], [])


async def test_a_tool_that_raises_approval_required_itself_surfaces_with_its_metadata(
    make_agent: MakeAgent, deps: Any
) -> None:
    def pay(ctx: RunContext[Any], euros: int) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"reason": f"{euros} is a lot"})
        return f"paid {euros}"

    agent = make_agent(child(call("pay", "p", euros=9), say_results).model, tools=[pay])
    first = await agent.run("go", deps=deps)
    assert asked(first).metadata["t1"]["calls"][0]["reason"] == "9 is a lot"
    assert (await go_on(agent, first, deps)).output == "success:success:paid 9"


async def test_no_person_is_asked_where_all_is_unasked(make_agent: MakeAgent, deps: Any, tools: Tools) -> None:
    agent = make_agent(child(call("run", "c1", path="x"), say_results).model, interrupt_on=False)
    assert (await agent.run("go", deps=deps)).output == "success:success:run x"


async def test_streaming_asks_and_resumes_alike(make_agent: MakeAgent, deps: Any, tools: Tools) -> None:
    def prompt(request: Request) -> str:
        return say_results(request)

    agent = make_agent(child(call("run", "c1", path="x"), prompt).model)
    async with agent.run_stream_events("go", deps=deps) as events:
        async for _ in events:
            pass
        first: Any = events.result
    assert asked(first).metadata["t1"]["calls"][0]["tool"] == "run"
    assert tools.ran == []
    async with agent.run_stream_events(
        None,
        deps=deps,
        message_history=first.all_messages(),
        deferred_tool_results=decide(asked(first), {"c1": True}),
    ) as events:
        async for _ in events:
            pass
        done: Any = events.result
    assert done.output == "success:success:run x"


async def test_a_child_that_asks_beside_its_callers_result_is_let_go_and_the_conversation_continues(
    make_agent: MakeAgent, deps: Any, tools: Tools
) -> None:
    both = [task("kid", "t1"), call("final_result", "f1", response=1)]
    cast = Cast({"go": [both, call("final_result", "f2", response=2)], "kid": [call("run", "c1", path="x")]})
    agent = make_agent(cast.model, output_type=int)
    result = await agent.run("go", deps=deps)
    assert (result.output, deps.state[PAUSED], tools.ran) == (1, {}, [])
    assert "not executed" in outcomes(result.all_messages())["t1"][1]
    again = await agent.run("and now?", deps=deps, message_history=result.all_messages())
    assert (again.output, tools.ran) == (2, [])
