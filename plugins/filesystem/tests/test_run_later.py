"""Writing a file that the user's programs run by themselves asks, by whatever name, even where writing does not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import deep_backends
import deep_filesystem
import pytest
from deep_backends import local_backend
from deep_backends.run_later import FILES, FOLDERS
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.models.test import TestModel

from deep_core import DeepAgentDeps, Kernel, create_default_deps


class Write(TestModel):
    """Calls one tool once, with one path."""

    def __init__(self, tool: str, path: str) -> None:
        super().__init__(call_tools=[tool])
        self.path = path

    def gen_tool_args(self, tool_def: Any) -> Any:
        texts = {"content": "x"} if tool_def.name == "write_file" else {"old_string": "a", "new_string": "b"}
        return {"path": self.path, **texts}


@pytest.fixture(scope="module")
def kernel() -> Any:
    with Kernel(plugins=[deep_backends, deep_filesystem], discover=False) as kernel:
        yield kernel


def output(kernel: Kernel, root: Path, path: str, tool: str = "write_file", **settings: Any) -> Any:
    agent = kernel.create_agent(Write(tool, path), backend=local_backend(root), **settings)
    return asyncio.run(agent.run("go", deps=create_default_deps(kernel=kernel))).output


@pytest.mark.parametrize("tool", ["write_file", "edit_file"])
@pytest.mark.parametrize(
    "path",
    [
        *(f"{folder}/deep/er" for folder in sorted(FOLDERS)),
        *sorted(FOLDERS),
        *(f"a/{file}" for file in sorted(FILES)),
        *(".GIT/config", "./x/../.git/hooks/pre-commit", "link/hooks/pre-commit", "vendor/.git/config", "to-envrc"),
    ],
)
def test_it_asks(kernel: Kernel, root: Path, path: str, tool: str) -> None:
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / "link").symlink_to(".git")
    (root / "to-envrc").symlink_to(".envrc")
    asked = output(kernel, root, path, tool)
    assert isinstance(asked, DeferredToolRequests)
    assert [call.tool_name for call in asked.approvals] == [tool]
    assert not [path for path in root.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "path", ["src/a.py", "git/config", ".gitignore", "a.git/x", "Makefile", "conftest.txt", "envrc"]
)
def test_other_files_are_written_without(kernel: Kernel, root: Path, path: str) -> None:
    assert not isinstance(output(kernel, root, path), DeferredToolRequests)
    assert (root / path).read_text() == "x"


def test_a_workspace_in_such_a_folder_is_a_workspace(kernel: Kernel, root: Path) -> None:
    inside = root / ".vscode" / "extensions"
    inside.mkdir(parents=True)
    output(kernel, inside, "a.py")
    assert (inside / "a.py").read_text() == "x"


def test_where_no_call_can_ask_it_is_denied(kernel: Kernel, root: Path) -> None:
    output(kernel, root, ".git/config", interrupt_on=False)
    assert not (root / ".git").exists()


@pytest.mark.parametrize("approved", [True, False])
def test_a_person_decides_once(kernel: Kernel, root: Path, approved: bool) -> None:
    agent = kernel.create_agent(Write("write_file", ".envrc"), backend=local_backend(root))
    deps = create_default_deps(kernel=kernel)
    asked = asyncio.run(agent.run("go", deps=deps))
    (call,) = asked.output.approvals
    assert "direnv runs it" in asked.output.metadata[call.tool_call_id]["reason"]
    decided = DeferredToolResults(approvals={call.tool_call_id: approved})
    asyncio.run(agent.run(message_history=asked.all_messages(), deferred_tool_results=decided, deps=deps))
    assert (root / ".envrc").exists() == approved


def test_the_tools_ask_in_an_agent_without_a_kernel(root: Path) -> None:
    toolset = deep_filesystem.create_filesystem_toolset()
    agent = Agent(
        Write("write_file", ".envrc"),
        deps_type=DeepAgentDeps,
        toolsets=[toolset],
        output_type=[str, DeferredToolRequests],
    )
    assert isinstance(
        asyncio.run(agent.run("go", deps=create_default_deps(), workspace=local_backend(root))).output,
        DeferredToolRequests,
    )


class Edits(TestModel):
    """Calls `edit_file` once on a file, after `read_file` or not; then says what it got."""

    def __init__(self, *tools: str) -> None:
        super().__init__(call_tools=[*tools])

    def gen_tool_args(self, tool_def: Any) -> Any:
        texts = {"edit_file": {"old_string": "a", "new_string": "b"}, "write_file": {"content": "b"}}
        return {"path": "notes", **texts.get(tool_def.name, {})}


@pytest.mark.parametrize("tool", ["edit_file", "write_file"])
def test_no_person_is_asked_about_a_change_that_cannot_be_made(kernel: Kernel, root: Path, tool: str) -> None:
    (root / "notes").write_text("a")
    agent = kernel.create_agent(Edits(tool), backend=local_backend(root), interrupt_on=True)
    said = asyncio.run(agent.run("go", deps=create_default_deps(kernel=kernel))).output
    assert "notes exists and you have not read it. Nothing was written: read it first." in said


def test_a_change_of_a_file_that_is_not_there_yet_asks(kernel: Kernel, root: Path) -> None:
    """A call before it, which waits too, may create it."""
    agent = kernel.create_agent(Edits("write_file", "edit_file"), backend=local_backend(root), interrupt_on="write")
    asked = asyncio.run(agent.run("go", deps=create_default_deps(kernel=kernel))).output
    assert isinstance(asked, DeferredToolRequests)
    assert [call.tool_name for call in asked.approvals] == ["write_file", "edit_file"]
