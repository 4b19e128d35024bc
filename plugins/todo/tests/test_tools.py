"""The two tools, called by a model: their answers, and the cost of a mistake."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from deep_todo import TODOS, Todo, TodoOptions, create_todo_toolset
from deep_todo.plan import BadTodos, read_todo_list
from deep_todo.rendering import one_line, render, state_text, summary
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import Agent

from deep_core import create_default_deps
from tests.stubs import Call, Script, function_model

pytestmark = pytest.mark.anyio
Results = Callable[[list[Any]], list[tuple[str, str]]]
Maker = Callable[..., Agent[Any, Any]]


def todo(content: str, status: str = "pending") -> dict[str, str]:
    return {"content": content, "status": status}


def write(*todos: Any) -> Call:
    return Call("write_todos", {"todos": list(todos)})


async def test_a_list_is_written_read_and_changed(make_agent: Maker, results: Results) -> None:
    script = Script(
        Call("read_todos"),
        write(todo("Read the code", "in_progress"), todo("Fix the bug")),
        Call("read_todos"),
        write(todo("Read the code", "completed"), todo("Fix the bug", "blocked")),
        write(),
        "done",
    )
    deps = create_default_deps()
    result = await make_agent(function_model(script)).run("go", deps=deps)
    assert results(result.all_messages()) == [
        ("success", "No todos in the list. Use write_todos to create some."),
        ("success", "Updated 2 todos: 0 completed, 1 in progress, 1 pending."),
        (
            "success",
            "Current todos:\n1. [*] Read the code\n2. [ ] Fix the bug\n\n"
            "Summary: 0 completed, 1 in progress, 1 pending",
        ),
        ("success", "Updated 2 todos: 1 completed, 0 in progress, 0 pending, 1 blocked."),
        ("success", 'The list is now empty. No longer in the list and not completed: "Fix the bug".'),
    ]
    assert deps.todos == []


def test_both_tools_are_terse() -> None:
    size = 0
    for tool in create_todo_toolset().tools.values():
        d = tool.tool_def
        parts = {"name": d.name, "description": d.description, "parameters": d.parameters_json_schema}
        size += len(json.dumps(parts, separators=(",", ":")))
    assert size <= 704


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({}, ["todos is missing", '"content"']),
        ({"todos": {"content": "x"}}, ["todos is an object", "list"]),
        ({"todos": "not json"}, ["not JSON"]),
        ({"todos": "[" * 100_000}, ["not JSON"]),
        ({"todos": [todo("Fix", "done")]}, ["todo 1", '"Fix"', "'done'", "pending, in_progress, completed, blocked"]),
        ({"todos": [todo("Fix"), todo(" \n ")]}, ["todo 2", "no content"]),
        ({"todos": [todo("Fix"), 7]}, ["todo 2", "a number"]),
        ({"todos": [{"content": 7, "status": "pending"}]}, ["todo 1", "a number as content"]),
        ({"todos": [{"content": "x", "status": None}]}, ["todo 1", "'None'"]),
        ({"todos": [todo("x" * 501)]}, ["todo 1", "501", "at most 500"]),
        ({"todos": [todo("x")] * 101}, ["101", "100"]),
        ({"todos": [todo("", "odd")] * 9}, ["todo 1", "todo 5", "4 more"]),
    ],
)
async def test_a_mistake_is_explained_and_changes_nothing(
    make_agent: Maker, results: Results, args: dict[str, Any], told: list[str]
) -> None:
    # Three in a row: were they retries, the second would end the run.
    script = Script(write(todo("Keep me")), *[Call("write_todos", args)] * 3, "done")
    deps = create_default_deps()
    result = await make_agent(function_model(script)).run("go", deps=deps)
    assert result.output == "done"
    for outcome, text in results(result.all_messages())[1:]:
        assert outcome == "failed"
        assert all(part in text for part in [*told, "The list is unchanged."])
    assert [t.content for t in deps.state[TODOS]] == ["Keep me"]


@pytest.mark.parametrize("args", ["[1, 2]", '"text"', "null", "{"])
async def test_arguments_that_are_no_object_are_asked_for_again(make_agent: Maker, args: str) -> None:
    deps = create_default_deps()
    script = Script(Call("write_todos", args), write(todo("A")), "done")
    await make_agent(function_model(script)).run("go", deps=deps)
    assert [t.content for t in deps.state[TODOS]] == ["A"]


async def test_near_misses_are_understood(make_agent: Maker) -> None:
    as_text = json.dumps([todo("One", "In-Progress"), "Two", {"content": "Three\n lines\x00"}])
    deps = create_default_deps()
    script = Script(Call("write_todos", {"todos": as_text, "note": "stray"}), Call("read_todos", {"stray": 1}), "done")
    await make_agent(function_model(script)).run("go", deps=deps)
    assert [(t.content, t.status) for t in deps.state[TODOS]] == [
        ("One", "in_progress"),
        ("Two", "pending"),
        ("Three lines", "pending"),
    ]


async def test_a_todo_keeps_its_id_and_what_the_application_set_on_it(make_agent: Maker) -> None:
    deps = create_default_deps()
    first = Todo(content="Plan", status="pending", active_form="Planning", depends_on=["abc"])
    deps.state[TODOS] = [first]
    script = Script(write(todo("Another"), todo("Plan", "completed")), "done")
    await make_agent(function_model(script)).run("go", deps=deps)
    kept = deps.state[TODOS][1]
    assert (kept.id, kept.depends_on, kept.active_form, kept.status) == (first.id, ["abc"], "Planning", "completed")
    assert first.status == "pending", "the application's own object is not changed behind its back"


async def test_several_in_progress_are_accepted(make_agent: Maker, results: Results) -> None:
    script = Script(write(todo("A", "in_progress"), todo("B", "in_progress")), "done")
    result = await make_agent(function_model(script)).run("go", deps=create_default_deps())
    assert results(result.all_messages()) == [("success", "Updated 2 todos: 0 completed, 2 in progress, 0 pending.")]


async def test_the_limits_are_options(make_agent: Maker, results: Results) -> None:
    script = Script(write(todo("A"), todo("B")), write(todo("C" * 21)), "done")
    agent = make_agent(function_model(script), plugins=[TodoOptions(max_todos=1, todo_chars=20)])
    result = await agent.run("go", deps=create_default_deps())
    assert [outcome for outcome, _ in results(result.all_messages())] == ["failed", "failed"]


@pytest.mark.parametrize("rule", ["write", "~read"])
async def test_a_user_who_asks_about_every_write_is_not_asked_about_a_todo(make_agent: Maker, rule: str) -> None:
    from pydantic_ai import FunctionToolset

    def save() -> str:
        return "saved"

    script = Script(write(todo("A")), "done")
    files: FunctionToolset[Any] = FunctionToolset([save])
    agent = make_agent(function_model(script), interrupt_on=rule, toolsets=[files])
    assert (await agent.run("go", deps=create_default_deps())).output == "done"


async def test_who_wants_to_be_asked_about_todos_can_be(make_agent: Maker) -> None:
    from pydantic_ai import DeferredToolRequests

    agent = make_agent(function_model(Script(write(todo("A")))), interrupt_on="plan")
    result = await agent.run("go", deps=create_default_deps())
    assert isinstance(result.output, DeferredToolRequests)
    assert [call.tool_name for call in result.output.approvals] == ["write_todos"]


@pytest.mark.parametrize("deps", [None, {"user": "ann"}])
async def test_in_an_agent_with_other_deps_each_conversation_has_its_list(deps: Any) -> None:
    toolset = create_todo_toolset()

    async def say(call: Call, history: list[Any]) -> tuple[str, list[Any]]:
        agent = Agent(
            function_model(Script(call, lambda view: view.results[-1].text)), toolsets=[toolset], deps_type=Any
        )
        result = await agent.run("go", deps=deps, message_history=history)
        return result.output, result.all_messages()

    _, first = await say(write(todo("A")), [])
    assert (await say(Call("read_todos"), []))[0].startswith("No todos"), "another conversation"
    assert "1. [ ] A" in (await say(Call("read_todos"), first))[0]


async def test_the_toolset_works_in_any_agent_with_a_session() -> None:
    toolset = create_todo_toolset("mine")
    assert toolset.id == "mine"
    deps = create_default_deps()
    agent = Agent(function_model(Script(write(todo("A")), "done")), toolsets=[toolset], deps_type=type(deps))
    await agent.run("go", deps=deps)
    assert deps.state[TODOS][0].content == "A"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
STATUS = st.sampled_from(["pending", "in_progress", "completed", "blocked"])
TODOS_IN = st.lists(st.builds(todo, st.text(min_size=1, max_size=300).filter(one_line), STATUS), max_size=30)


@given(JSON)
def test_whatever_a_model_sends_is_a_list_or_a_refusal(value: Any) -> None:
    refusal, todos = "", None
    try:
        todos = read_todo_list({"todos": value}, [], TodoOptions())
    except BadTodos as error:
        refusal = str(error)
    assert refusal if todos is None else all(t.content == one_line(t.content) != "" for t in todos)


@given(TODOS_IN, st.integers(min_value=200, max_value=2000))
def test_the_section_is_bounded_and_counts_everything(items: list[dict[str, str]], limit: int) -> None:
    todos = read_todo_list({"todos": items}, [], TodoOptions())
    text = state_text(todos, limit)
    assert (text is None) == (not todos)
    if text is not None:
        assert len(text) <= limit
        assert text.startswith(f"Todos: {summary(todos)}")
        lines = text.splitlines()[1:]
        left = int(lines.pop().split()[1]) if lines and lines[-1].startswith("and ") else 0
        numbers = [int(line.split(".")[0]) for line in lines]
        unfinished = [number for number, t in enumerate(todos, 1) if t.status != "completed"]
        if len(numbers) < len(todos):
            assert numbers == unfinished[: len(unfinished) - left], "only finished ones, or the end, are left out"
        assert len(numbers) + left >= len(unfinished)


@given(TODOS_IN)
def test_a_list_written_again_as_it_was_is_the_same_list(items: list[dict[str, str]]) -> None:
    once = read_todo_list({"todos": items}, [], TodoOptions())
    again = read_todo_list({"todos": items}, once, TodoOptions())
    assert again == once
    assert len(render(once).splitlines()) == len(items)
