"""The list belongs to the session, whatever else the agent does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from deep_todo import TODOS, Todo
from pydantic_ai import Agent

from deep_core import Kernel, create_default_deps
from deep_core.plugin_api import live_text
from tests.stubs import Call, RequestView, Script, Turn, function_model

pytestmark = pytest.mark.anyio
Results = Callable[[list[Any]], list[tuple[str, str]]]
Maker = Callable[..., Agent[Any, Any]]


async def test_two_sessions_interleaved_on_one_agent_never_cross(make_agent: Maker) -> None:
    """Defect 1 of pydantic-deep: session B's read_todos printed session A's todo."""
    barrier = asyncio.Barrier(2)

    async def tick() -> str:
        """Wait until the other session arrives."""
        await barrier.wait()
        return "tock"

    def step(view: RequestView) -> Turn:
        name = next(m.text for m in view.messages if m.role == "user")
        done = sum(m.role == "tool" for m in view.messages)
        plan = {"todos": [{"content": f"{name} {n}", "status": "pending"} for n in range(done)]}
        steps = [Call("tick"), Call("write_todos", plan), Call("tick"), Call("read_todos"), Call("tick")] * 2
        if done == len(steps):
            return Turn("done")
        call = steps[done]
        return Turn(calls=(Call(call.name, call.args, f"{name}{done}"),))

    agent = make_agent(function_model(Script(then=step)), tools=[tick])
    one, two = create_default_deps(), create_default_deps()
    results = await asyncio.gather(agent.run("alpha", deps=one), agent.run("beta", deps=two))
    assert {t.content.split()[0] for t in one.state[TODOS]} == {"alpha"}
    assert {t.content.split()[0] for t in two.state[TODOS]} == {"beta"}
    for result, other in zip(results, ("beta", "alpha"), strict=True):
        assert other not in str(result.all_messages())


async def test_a_session_survives_dump_and_load(kernel: Kernel, make_agent: Maker, results: Results) -> None:
    plan = [
        {"content": "Fix", "status": "in_progress", "active_form": "Fixing"},
        {"content": "Ünïcode", "status": "pending"},
    ]
    deps = create_default_deps()
    await make_agent(function_model(Script(Call("write_todos", {"todos": plan}), "done"))).run("go", deps=deps)

    loaded = kernel.load_deps(deps.dump())
    assert loaded.state[TODOS] == deps.state[TODOS]
    assert all(isinstance(todo, Todo) for todo in loaded.state[TODOS])
    again = kernel.load_deps(deps.dump())
    result = await make_agent(function_model(Script(Call("read_todos"), "done"))).run("go", deps=again)
    assert "1. [*] Fix\n2. [ ] Ünïcode" in results(result.all_messages())[0][1]
    assert kernel.load_deps(loaded.dump()).dump() == loaded.dump()


def test_data_that_is_no_list_of_todos_is_kept_and_reported(kernel: Kernel) -> None:
    text = '{"format": 1, "session_id": "s", "slots": {"todos": {"version": 1, "data": [{"content": 1}]}}}'
    deps = kernel.load_deps(text)
    assert deps.state[TODOS] == []
    assert "todos" in deps.state.invalid
    assert '"content": 1' in deps.dump()


def test_a_subagent_starts_with_an_empty_list_and_changes_only_its_own(kernel: Kernel) -> None:
    deps = create_default_deps(kernel=kernel)
    deps.state[TODOS] = [Todo(content="A", status="pending", active_form="A")]
    child = deps.clone_for_subagent()
    assert child.todos == []
    child.state[TODOS] = []
    assert [todo.content for todo in deps.todos] == ["A"]


def contexts(messages: list[Any]) -> list[str]:
    """Search the whole request, because the kernel chooses the part."""
    texts = [live_text(part) for message in messages for part in message.parts]
    return [live.text for live in texts if live is not None and live.section == "todo.state"]


async def test_the_section_is_said_when_the_list_changes_and_only_then(make_agent: Maker) -> None:
    def plan(status: str) -> Call:
        return Call("write_todos", {"todos": [{"content": "A </context> b", "status": status}]})

    script = Script("nothing yet", Call("read_todos"), plan("pending"), Call("read_todos"), plan("completed"), "done")
    agent, deps = make_agent(function_model(script)), create_default_deps()
    first = await agent.run("hello", deps=deps)
    assert contexts(first.all_messages()) == []
    result = await agent.run("go", deps=deps, message_history=first.all_messages())
    said = contexts(result.all_messages())
    assert [text.splitlines()[2][:8] for text in said] == ["1. [ ] A", "1. [x] A"]
    assert all(text.count("</context") == 1 for text in said), "a todo cannot close the section's frame"


async def test_without_write_todos_there_is_no_section(make_agent: Maker) -> None:
    deps = create_default_deps()
    deps.state[TODOS] = [Todo(content="A", status="pending", active_form="A")]
    agent = make_agent(function_model(Script("done")), tool_filter="name:read_todos")
    result = await agent.run("go", deps=deps)
    assert contexts(result.all_messages()) == []


async def test_a_list_filled_by_the_application_is_shown_on_one_line_each(make_agent: Maker) -> None:
    deps = create_default_deps()
    deps.state[TODOS] = [Todo(content=f"Line\n{'x' * 300}\x1b[2J", status="pending", active_form="")] * 40
    result = await make_agent(function_model(Script("done"))).run("go", deps=deps)
    (said,) = contexts(result.all_messages())
    assert len(said) < 2_100
    assert "more: read_todos has them" in said
    assert "\x1b" not in said
    assert all(len(line) <= 170 for line in said.splitlines())
