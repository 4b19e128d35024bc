"""The tour on a copy of the sample project: the tools, the files and the tests are real."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deep_demo import sample_project
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolDenied
from pydantic_ai.messages import ModelMessage, ToolCallPart, ToolReturnPart

from deep_core import DeepAgentDeps, create_default_deps
from tests import drawn

pytestmark = pytest.mark.anyio
Maker = Callable[..., Agent[Any, Any]]
Passes = Callable[[Path], bool]
PROMPT = "Do what the README asks for."


def sample(path: str) -> bytes:
    return sample_project().joinpath(path).read_bytes()


def assert_all_done(project: Path) -> None:
    money = sample("invoices/money.py").decode().replace("int(float(text) * 100)", "round_cents(Decimal(text) * 100)")
    assert (project / "invoices/money.py").read_text() == money
    assert (project / "README.md").read_bytes() == sample("README.md").replace(b"- [ ]", b"- [x]")
    changes = (project / "CHANGELOG.md").read_bytes()
    assert changes.count(b"\n") == changes.count(b"\r\n") == sample("CHANGELOG.md").count(b"\r\n") + 1
    assert "to pay                               164.11 EUR" in (project / "docs/usage.md").read_text()


def called(messages: list[ModelMessage]) -> list[str]:
    return [part.tool_name for message in messages for part in message.parts if isinstance(part, ToolCallPart)]


def failed(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    parts = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    return [part for part in parts if part.outcome != "success"]


@pytest.mark.slow
async def test_it_fixes_the_project_and_its_tests_pass(make_agent: Maker, project: Path, tests_pass: Passes) -> None:
    assert not tests_pass(project)
    deps = create_default_deps()
    result = await make_agent(project, interrupt_on=False).run(PROMPT, deps=deps)
    assert_all_done(project)
    assert tests_pass(project)
    assert {todo.status for todo in deps.todos} == {"completed"}
    assert "1 of 6 tests fail: test_every_cent_counts (AssertionError: 1998 != 1999)" in result.output
    assert "all 6 tests pass" in result.output
    assert "What I could not do" not in result.output
    assert failed(result.all_messages()) == []
    assert set(called(result.all_messages())) == {
        "write_todos", "ls", "glob", "grep", "read_file", "edit_file", "write_file", "execute",
    }  # fmt: skip


@pytest.mark.slow
async def test_two_runs_of_it_are_the_same(make_agent: Maker, tmp_path: Path) -> None:
    from deep_demo import copy_sample_project

    told: list[tuple[Any, ...]] = []
    for name in ("one", "two"):
        project = copy_sample_project(tmp_path / name)
        result = await make_agent(project, interrupt_on=False).run(PROMPT, deps=create_default_deps())
        parts = [part for message in result.all_messages() for part in message.parts]
        told.append((result.output, [p.args for p in parts if isinstance(p, ToolCallPart)]))
    assert told[0] == told[1]


@pytest.mark.slow
async def test_streamed_it_does_the_same_and_counts_the_same(
    make_agent: Maker, project: Path, tmp_path: Path, tests_pass: Passes
) -> None:
    agent = make_agent(project, interrupt_on=False)
    text = ""
    async with agent.run_stream_events(PROMPT, deps=create_default_deps()) as events:
        async for event in events:
            delta = getattr(event, "delta", None) or getattr(event, "part", None)
            text += (getattr(delta, "content_delta", None) or getattr(delta, "content", None) or "") * (
                getattr(delta, "part_delta_kind", getattr(delta, "part_kind", "")) == "text"
                and event.event_kind in ("part_start", "part_delta")
            )
        streamed = events.result
    assert streamed is not None
    assert text == streamed.output
    assert_all_done(project)
    assert tests_pass(project)

    from deep_demo import copy_sample_project

    plain = await make_agent(copy_sample_project(tmp_path / "again"), interrupt_on=False).run(
        PROMPT, deps=create_default_deps()
    )
    assert plain.output == streamed.output
    assert plain.usage.requests == streamed.usage.requests
    assert plain.usage.output_tokens == streamed.usage.output_tokens
    # Only paths and seconds in the output of the tests differ.
    assert abs(plain.usage.input_tokens - streamed.usage.input_tokens) < 200


@pytest.mark.slow
async def test_run_stream_goes_through_to_the_report(make_agent: Maker, project: Path, tests_pass: Passes) -> None:
    """`run_stream` takes the first text for the final one, so the model sends no text beside a call."""
    async with make_agent(project, interrupt_on=False).run_stream(PROMPT, deps=create_default_deps()) as stream:
        output = await stream.get_output()
    assert output.startswith("What I did:")
    assert tests_pass(project)


async def resume(
    agent: Agent[Any, Any], deps: DeepAgentDeps[Any], decision: Callable[[str], Any], *, store: bool = False
) -> tuple[str, list[str], DeepAgentDeps[Any]]:
    """Run to the end, deciding every approval; with `store`, a new session object each time."""
    asked: list[str] = []
    result = await agent.run(PROMPT, deps=deps)
    while isinstance(result.output, DeferredToolRequests):
        asked += [call.tool_name for call in result.output.approvals]
        decisions = {call.tool_call_id: decision(call.tool_name) for call in result.output.approvals}
        if store:
            deps = DeepAgentDeps.load(deps.dump(), backend=deps.backend)
        result = await agent.run(
            message_history=result.all_messages(),
            deps=deps,
            deferred_tool_results=DeferredToolResults(approvals=decisions),
        )
    return result.output, asked, deps


@pytest.mark.slow
async def test_with_every_command_approved_it_continues_where_it_waited(
    make_agent: Maker, project: Path, tests_pass: Passes
) -> None:
    output, asked, _ = await resume(make_agent(project), create_default_deps(), lambda name: True, store=True)
    assert asked == ["execute"] * 3
    assert "What I could not do" not in output
    assert_all_done(project)
    assert tests_pass(project)


@pytest.mark.slow
async def test_with_every_command_denied_it_fixes_and_says_what_it_could_not_check(
    make_agent: Maker, project: Path, tests_pass: Passes
) -> None:
    output, asked, deps = await resume(make_agent(project), create_default_deps(), lambda name: ToolDenied("not here"))
    assert asked == ["execute"] * 3
    assert "Could not run the tests: execute was denied (not here)." in output
    assert tests_pass(project), "the mistake was found without them"
    readme = (project / "README.md").read_text()
    assert "- [ ] Prices such as 19.99" in readme, "what was not checked is not ticked off"
    assert "- [x] Tell in `CHANGELOG.md`" in readme
    assert "- [ ] Show in `docs/usage.md`" in readme, "there is no output to show"
    assert [todo.status for todo in deps.todos][-1] == "blocked"


@pytest.mark.slow
async def test_with_every_edit_denied_nothing_changes(make_agent: Maker, project: Path) -> None:
    agent = make_agent(project, interrupt_on={"edit_file": True, "write_file": True, "execute": False})
    output, _, _ = await resume(agent, create_default_deps(), lambda name: False)
    assert "Could not fix invoices/money.py: edit_file was denied" in output
    for path in ("README.md", "CHANGELOG.md", "invoices/money.py"):
        assert (project / path).read_bytes() == sample(path)
    assert not (project / "docs").exists()


@pytest.mark.slow
async def test_without_the_filesystem_plugin_it_ends_and_says_what_is_missing(make_agent: Maker, project: Path) -> None:
    agent = make_agent(project, without=["filesystem"], interrupt_on=False)
    deps = create_default_deps()
    result = await agent.run(PROMPT, deps=deps)
    assert result.output.startswith("I could not do anything here.")
    assert "ls is not available" in result.output
    assert "deep-filesystem" in result.output
    assert {todo.status for todo in deps.todos} == {"blocked"}


@pytest.mark.slow
async def test_without_the_todo_plugin_it_works_without_a_plan(
    make_agent: Maker, project: Path, tests_pass: Passes
) -> None:
    result = await make_agent(project, without=["todo"], interrupt_on=False).run(PROMPT, deps=create_default_deps())
    assert "write_todos" not in called(result.all_messages())
    assert_all_done(project)
    assert tests_pass(project)


async def test_with_no_tools_at_all_it_says_so(make_agent: Maker, project: Path) -> None:
    agent = make_agent(project, without=["filesystem", "todo"], interrupt_on=False)
    result = await agent.run(PROMPT, deps=create_default_deps())
    assert "available: none" in result.output


TOOLS = ["ls", "glob", "grep", "read_file", "edit_file", "write_file", "execute", "write_todos"]


@pytest.mark.slow
@pytest.mark.parametrize("tool", drawn.sample(TOOLS, "execute", "write_todos"))
async def test_without_any_one_tool_it_ends_cleanly(make_agent: Maker, project: Path, tool: str) -> None:
    agent = make_agent(project, tool_filter=f"~name:{tool}", interrupt_on=False)
    result = await agent.run(PROMPT, deps=create_default_deps())
    assert tool not in called(result.all_messages())
    assert result.output.startswith("What I did:")
    found_all_the_same = ("grep", "write_todos")
    assert (f"{tool} is not available" in result.output) == (tool not in found_all_the_same)


@pytest.mark.slow
async def test_a_refused_edit_is_repeated_after_reading_again(make_agent: Maker, project: Path) -> None:
    """The file changes between reading and editing: the tool refuses, and the script reads it again."""
    agent = make_agent(project, interrupt_on={"edit_file": True, "execute": False})
    touched: list[str] = []

    def decide(name: str) -> bool:
        if not touched:
            path = project / "invoices/money.py"
            path.write_text(path.read_text() + "\n# a person was here\n")
            touched.append(name)
        return True

    output, asked, _ = await resume(agent, create_default_deps(), decide)
    text = (project / "invoices/money.py").read_text()
    assert "round_cents(Decimal(text) * 100)" in text
    assert text.endswith("# a person was here\n")
    assert "What I could not do" not in output
    assert asked.count("edit_file") == 6, "fix twice, the changelog, three items"


@pytest.mark.slow
async def test_a_prefix_on_the_tools_does_not_disturb_it(make_agent: Maker, project: Path, tests_pass: Passes) -> None:
    import deep_backends
    import deep_demo
    import deep_filesystem
    from deep_backends import local_backend

    from deep_core import Kernel

    config = {"plugins": {"filesystem": {"prefix": "fs"}}}
    with Kernel(plugins=[deep_backends, deep_demo, deep_filesystem], discover=False, config=config) as kernel:
        agent = kernel.create_agent("demo:tour", backend=local_backend(project), interrupt_on=False)
        result = await agent.run(PROMPT, deps=create_default_deps())
    assert "fs_edit_file" in called(result.all_messages())
    assert tests_pass(project)


async def test_one_of_a_thing_is_reported_as_one(make_agent: Maker, tmp_path: Path) -> None:
    (tmp_path / "only.py").write_text("x = 1\n")
    result = await make_agent(tmp_path, interrupt_on=False).run(PROMPT, deps=create_default_deps())
    assert "Looked around: 1 entry here, 1 Python file below." in result.output
