"""The toolset in an agent: what is sent, approvals, mistakes that do not end a run, state that survives."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import deep_filesystem
import pytest
from deep_backends import local_backend, memory_backend
from deep_filesystem import COMMANDS, FILES, FilesystemOptions, create_filesystem_toolset
from pydantic_ai import Agent, DeferredToolRequests, FunctionToolset
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from deep_core import DeepAgentDeps

pytestmark = pytest.mark.anyio


def scripted(*calls: tuple[str, dict[str, Any]]) -> FunctionModel:
    """One call a request, then a text that joins what the tools answered."""

    def step(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        returns = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        if len(returns) < len(calls):
            name, arguments = calls[len(returns)]
            return ModelResponse(parts=[ToolCallPart(name, arguments)])
        return ModelResponse(parts=[TextPart("\n".join(f"{part.outcome}: {part.content}" for part in returns))])

    return FunctionModel(step)


def agent(model: FunctionModel | TestModel, toolset: FunctionToolset[Any] | None = None) -> Agent[Any, Any]:
    return Agent(
        model, output_type=[str, DeferredToolRequests], toolsets=[toolset or create_filesystem_toolset()], retries=0
    )


async def test_a_session_of_mistakes_and_successes(root: Path) -> None:
    (root / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    model = scripted(
        ("edit_file", {"path": "a.txt", "old_string": "two", "new_string": "2"}),
        ("read_file", {"path": "b.txt"}),
        ("read_file", {"path": "a.txt"}),
        ("edit_file", {"path": "a.txt", "old_string": "two", "new_string": "2"}),
        ("grep", {"pattern": "2", "glob": None}),
        ("glob", {"pattern": "*.txt"}),
    )
    result = await agent(model).run("go", deps=DeepAgentDeps(), workspace=local_backend(root))
    outcomes = [line.split(":")[0] for line in result.output.splitlines()]
    assert [outcome for outcome in outcomes if outcome in ("failed", "success")] == [
        "failed", "failed", "success", "success", "success", "success",
    ]  # fmt: skip
    assert (root / "a.txt").read_bytes() == b"one\r\n2\r\n"


async def test_one_agent_serves_many_sessions(root: Path) -> None:
    (root / "a.txt").write_bytes(b"x\n")
    one = agent(scripted(("read_file", {"path": "a.txt"})))
    write = agent(scripted(("write_file", {"path": "a.txt", "content": "y\n"})))
    reader, other = DeepAgentDeps(), DeepAgentDeps()
    backend = local_backend(root)
    await one.run("go", deps=reader, workspace=backend)
    assert (await write.run("go", deps=other, workspace=backend)).output.startswith("failed: a.txt exists")
    assert (await write.run("go", deps=reader, workspace=backend)).output.startswith("success: Replaced a.txt")


async def test_what_was_seen_survives_a_dump(root: Path) -> None:
    (root / "a.txt").write_bytes(b"x\n")
    deps = DeepAgentDeps()
    backend = local_backend(root)
    await agent(scripted(("read_file", {"path": "a.txt"}))).run("go", deps=deps, workspace=backend)
    again = DeepAgentDeps.load(deps.dump())
    assert again.state[FILES] == deps.state[FILES]
    edit = scripted(("edit_file", {"path": "a.txt", "old_string": "x", "new_string": "y"}))
    assert (
        await agent(edit).run("go", deps=again, workspace=backend)
    ).output == "success: Edited a.txt: 1 replacement, line 1."
    assert deps.clone_for_subagent().state[FILES] == {}


async def test_execute_asks_first(root: Path) -> None:
    model = scripted(("execute", {"command": "touch made"}))
    result = await agent(model).run("go", deps=DeepAgentDeps(), workspace=local_backend(root))
    requests = result.output
    assert isinstance(requests, DeferredToolRequests)
    assert [call.tool_name for call in requests.approvals] == ["execute"]
    assert not (root / "made").exists()
    result = await agent(model).run(
        message_history=result.all_messages(),
        deferred_tool_results=requests.build_results(approve_all=True),
        deps=DeepAgentDeps(),
        workspace=local_backend(root),
    )
    assert result.output == "success: Exit code 0, no output"
    assert (root / "made").exists()


async def test_writes_ask_first_when_told_to(root: Path) -> None:
    toolset = create_filesystem_toolset(require_write_approval=True, require_execute_approval=False)
    model = scripted(("execute", {"command": "echo x > f"}), ("write_file", {"path": "g", "content": "x"}))
    result = await agent(model, toolset).run("go", deps=DeepAgentDeps(), workspace=local_backend(root))
    assert [call.tool_name for call in result.output.approvals] == ["write_file"]
    assert (root / "f").exists()
    assert not (root / "g").exists()


async def test_execute_is_offered_where_commands_run(root: Path) -> None:
    for backend, offered in ((local_backend(root), True), (memory_backend(), False)):
        model = TestModel(call_tools=[])
        await agent(model).run("go", deps=DeepAgentDeps(), workspace=backend)
        assert model.last_model_request_parameters is not None
        names = [tool.name for tool in model.last_model_request_parameters.function_tools]
        assert ("execute" in names) is offered
        assert names[:6] == ["ls", "read_file", "write_file", "edit_file", "glob", "grep"]
    toolset = create_filesystem_toolset(include_execute=False)
    assert "execute" not in toolset.tools


async def test_the_seven_tools_are_short() -> None:
    model = TestModel(call_tools=[])
    await agent(model, create_filesystem_toolset()).run("go", deps=DeepAgentDeps())
    assert model.last_model_request_parameters is not None
    tools = model.last_model_request_parameters.function_tools
    assert len(tools) == 7
    sent = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters_json_schema}
        for tool in tools
    ]
    assert sum(len(json.dumps(each)) for each in sent) <= 2510
    assert "title" not in json.dumps(sent)
    assert all(tool.description for tool in tools)


def test_every_tool_has_its_tags() -> None:
    toolset = create_filesystem_toolset()
    tags = {name: set((tool.metadata or {})["tags"]) for name, tool in toolset.tools.items()}
    assert tags == {
        "ls": {"read"},
        "read_file": {"read"},
        "write_file": {"write"},
        "edit_file": {"write"},
        "glob": {"read"},
        "grep": {"read"},
        "read_output": {"read"},
        "send_input": {"execute", "write", "network", "destructive"},
        "stop_command": {"write"},
        "execute": {"execute", "write", "network", "destructive"},
    }
    assert (toolset.id, create_filesystem_toolset("mine").id) == ("filesystem", "mine")


async def test_with_other_deps_each_conversation_remembers_what_it_saw(root: Path) -> None:
    (root / "a.txt").write_text("x\n")
    toolset, backend = create_filesystem_toolset(), local_backend(root)
    edit = scripted(
        ("read_file", {"path": "a.txt"}), ("edit_file", {"path": "a.txt", "old_string": "x", "new_string": "y"})
    )
    blind = scripted(("edit_file", {"path": "a.txt", "old_string": "y", "new_string": "z"}))
    assert "Edited a.txt" in (await agent(edit, toolset).run("go", deps=None, workspace=backend)).output
    other = await agent(blind, toolset).run("go", deps={"user": "ann"}, workspace=backend)
    assert "you have not read it" in other.output


def test_the_hooks_contribute_the_toolset_the_slot_and_the_options() -> None:
    asked: list[object] = []

    def options(model: type[FilesystemOptions]) -> FilesystemOptions:
        asked.append(model)
        return model(include_execute=False)

    context: Any = SimpleNamespace(options=options, idle=lambda hook, unless: None)
    (toolset,) = deep_filesystem.deep_toolsets(context)
    assert isinstance(toolset, FunctionToolset)
    assert (toolset.id, "execute" in toolset.tools) == ("filesystem", False)
    assert asked == [FilesystemOptions]
    assert deep_filesystem.deep_state() == [FILES, COMMANDS]
    assert deep_filesystem.deep_options() is FilesystemOptions


def test_every_option_is_described_and_unknown_ones_are_refused() -> None:
    described = FilesystemOptions.model_json_schema()["properties"]
    assert all(described[name].get("description") for name in FilesystemOptions.model_fields)
    with pytest.raises(ValueError, match="read_line"):
        FilesystemOptions.model_validate({"read_line": 5})
    for name in ("require_write_approval", "require_execute_approval"):
        assert FilesystemOptions.model_fields[name].json_schema_extra == {"project": "on"}


def test_importing_the_module_loads_neither_pydantic_nor_pydantic_ai() -> None:
    code = (
        "import sys, deep_filesystem; assert deep_filesystem.deep_toolsets; "
        "print([name for name in ('pydantic', 'pydantic_ai', 'anyio') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names_are_there() -> None:
    assert {*deep_filesystem.__all__} <= {*dir(deep_filesystem)}
    for name in deep_filesystem.__all__:
        assert getattr(deep_filesystem, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        deep_filesystem.nope  # noqa: B018
