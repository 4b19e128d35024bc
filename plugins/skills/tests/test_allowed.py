"""`allowed-tools` narrows what runs unasked, and never widens it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import deep_backends
import deep_filesystem
import deep_skills
import deep_subagents
import pytest
from deep_skills import ActiveSkill
from deep_skills.allowed import covers, narrow
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.messages import ModelMessagesTypeAdapter

from deep_core import Ask, Kernel, ToolCall, create_default_deps
from tests.stubs import Call, Script, function_model

Maker = Callable[..., Agent[Any, Any]]
Results = Callable[[list[Any]], list[str]]
Write = Callable[..., Path]
EXECUTE = frozenset({"execute", "write", "network", "destructive"})


def call(tool: str, tags: frozenset[str] = frozenset({"write"}), plugin: str = "filesystem", **args: Any) -> ToolCall:
    return ToolCall(tool, tool, plugin, tags, args, "c1")


def active(*tools: str, narrows: bool = True) -> ActiveSkill:
    return ActiveSkill("s", "project", "/s", "", "", tools, "c0", "r0", narrows)


@pytest.mark.parametrize(
    ("entry", "tool", "args", "covered"),
    [
        ("Read", "read_file", {"path": "x"}, True),
        ("read_file", "read_file", {"path": "x"}, True),
        ("READ", "read_file", {}, True),
        ("Write", "edit_file", {}, False),
        ("Bash", "execute", {"command": "rm -rf /"}, True),
        ("Bash(*)", "execute", {"command": "rm -rf /"}, True),
        ("Bash(git:*)", "execute", {"command": "git status"}, True),
        ("Bash(git:*)", "execute", {"command": "git"}, True),
        ("Bash(git *)", "execute", {"command": "git  log -1"}, True),
        ("Bash(git:*)", "execute", {"command": "gitleaks"}, False),
        ("Bash(git:*)", "execute", {"command": "git log; rm -rf ."}, False),
        ("Bash(git:*)", "execute", {"command": "git log && rm x"}, False),
        ("Bash(git:*)", "execute", {"command": "git log $(rm x)"}, False),
        ("Bash(git:*)", "execute", {"command": "git log `rm x`"}, False),
        ("Bash(git:*)", "execute", {"command": "git log > x"}, False),
        ("Bash(git:*)", "execute", {"command": "git log\nrm x"}, False),
        ("Bash(git add:*, git commit:*)", "execute", {"command": "git commit -m x"}, True),
        ("Bash(git add:*, git commit:*)", "execute", {"command": "git push"}, False),
        ("Bash(:*)", "execute", {"command": "ls"}, False),
        ("Bash(make test)", "execute", {"command": "make test"}, True),
        ("Edit(docs/**)", "edit_file", {"path": "docs/a/b.md"}, True),
        ("Edit(docs/**)", "edit_file", {"path": "./docs/a.md"}, True),
        ("Edit(docs/**)", "edit_file", {"path": "docs/../src/a.py"}, False),
        ("Edit(docs/**)", "edit_file", {"path": "src/a.py"}, False),
        ("WebFetch", "fetch", {"url": "https://example.com"}, True),
        ("Bash(/p/run.sh:*)", "execute", {"command": '"/p/run.sh" "a b"'}, True),
        ("Bash(/p/run.sh:*)", "execute", {"command": '"/p/run.sh"x'}, False),
        ("Bash(/p/run.sh:*)", "execute", {"command": 'sh "/p/run.sh"'}, False),
        ("mcp__docs__find", "docs_find", {}, True),
        ("mcp__plugin_acme_docs__*", "docs_find", {}, True),
        ("mcp__docs__find", "find", {}, False),
        ("WebSearch", "search", {"query": "x"}, True),
        ("Agent", "task", {"description": "x"}, True),
        ("forecast", "forecast", {"city": "x"}, True),
        ("forecast(x)", "forecast", {"city": "x"}, False),
        ("Bash(git", "execute", {"command": "git"}, False),
        ("", "execute", {"command": "git"}, False),
    ],
)
def test_what_an_entry_covers(entry: str, tool: str, args: dict[str, Any], covered: bool) -> None:
    plugin = "mcp" if entry.startswith("mcp__") else "filesystem"
    assert covers(entry, call(tool, EXECUTE, plugin, **args)) is covered


def test_an_entry_of_a_server_covers_no_tool_of_another_plugin() -> None:
    assert not covers("mcp__docs__find", call("docs_find", EXECUTE, "openapi"))


@pytest.mark.slow
@given(st.lists(st.text(max_size=20), max_size=5), st.text(max_size=20), st.sets(st.sampled_from(sorted(EXECUTE))))
def test_a_skill_can_only_add_a_question(entries: list[str], command: str, tags: set[str]) -> None:
    answer = narrow(call("execute", frozenset(tags), command=command), [active(*entries)])
    assert answer is None or isinstance(answer, Ask)


def test_who_is_not_narrowed() -> None:
    write = call("write_file", path="x")
    assert isinstance(narrow(write, [active("Read")]), Ask)
    assert narrow(write, []) is None
    assert narrow(write, [active()]) is None
    assert narrow(write, [active("Read"), active()]) is None, "one in use has not said what it needs"
    assert narrow(write, [active("Read"), active("Write")]) is None
    assert narrow(write, [active("Read", narrows=False)]) is None
    assert narrow(call("grep", frozenset({"read"})), [active("Write")]) is None


LOAD, WRITE = Call("load_skill", {"skill_name": "s"}), Call("write_file", {"path": "x", "content": "1"})


@pytest.mark.anyio
@pytest.mark.parametrize("listed", ["Read Grep", "Read, Bash(git:*)", "[Read]", "\n  - Read\n  - Grep"])
async def test_a_call_outside_the_list_asks_and_runs_when_approved(
    project: Path, skill: Write, make_agent: Maker, kernel: Kernel, results: Results, listed: str
) -> None:
    skill(project / ".deep/skills", "s", extra=f"allowed-tools: {listed}\n")
    agent = make_agent(function_model(Script(LOAD, WRITE, Call("ls"), "done", WRITE, "next")))
    deps = create_default_deps()
    first = await agent.run("go", deps=deps)
    assert isinstance(first.output, DeferredToolRequests)
    (request,) = first.output.approvals
    assert request.tool_name == "write_file"
    about = first.output.metadata[request.tool_call_id]
    assert "not among the allowed-tools of the skill in use (s)" in about["reason"]
    deps = kernel.load_deps(deps.dump())  # another process
    second = await agent.run(
        None,
        deps=deps,
        message_history=ModelMessagesTypeAdapter.validate_json(first.all_messages_json()),
        deferred_tool_results=DeferredToolResults(approvals={request.tool_call_id: True}),
    )
    assert second.output == "done"
    assert results(second.all_messages())[2].startswith("x (1 "), "the approved call ran"
    third = await agent.run("something else", deps=deps, message_history=second.all_messages())
    assert third.output == "next", "the user's next message ends the skill's say"


@pytest.mark.anyio
async def test_a_hostile_list_unasks_nothing(project: Path, skill: Write, make_agent: Maker) -> None:
    skill(project / ".deep/skills", "s", extra="allowed-tools: Bash(*) Bash execute Write *\n")
    script = Script(LOAD, WRITE, "wrote", LOAD, WRITE, "stopped")
    agent = make_agent(function_model(script), interrupt_on={"write_file": True})
    result = await agent.run("go", deps=create_default_deps())
    assert isinstance(result.output, DeferredToolRequests)


@pytest.mark.anyio
@pytest.mark.parametrize("settings", [{"interrupt_on": False}, {"skills": {"allowed_tools": "inform"}}])
async def test_where_no_person_is_asked_the_list_only_informs(
    project: Path, skill: Write, make_agent: Maker, results: Results, settings: dict[str, Any]
) -> None:
    skill(project / ".deep/skills", "s", extra="allowed-tools: Read\n")
    agent = make_agent(function_model(Script(LOAD, WRITE, "done")), **settings)
    result = await agent.run("go", deps=create_default_deps())
    assert result.output == "done"
    assert "Allowed tools: Read" in results(result.all_messages())[0]


@pytest.mark.anyio
@pytest.mark.parametrize(("listed", "asks"), [("Read", True), ("Read Task", False)])
async def test_what_may_not_be_done_may_not_be_delegated_unasked(
    project: Path, skill: Write, listed: str, asks: bool
) -> None:
    skill(project / ".deep/skills", "s", extra=f"allowed-tools: {listed}\n")
    delegate = Call("task", {"description": "write it", "subagent_type": "general-purpose"})
    plugins = [deep_skills, deep_backends, deep_filesystem, deep_subagents]
    with Kernel(plugins=plugins, discover=False, strict=True, config={}) as kernel:
        agent = kernel.create_agent(function_model(Script(LOAD, delegate, WRITE, "written", "done")), backend="local")
        result = await agent.run("go", deps=create_default_deps(kernel=kernel))
    assert isinstance(result.output, DeferredToolRequests) is asks
    assert (project / "x").exists() is not asks
