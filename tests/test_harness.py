"""pydantic-ai-harness beside deep-agent-core: its capabilities work in an agent of ours, and pass its policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deep_backends import local_backend
from pydantic_ai import DeferredToolRequests

from deep_core import create_default_deps
from tests.plugins_by_hand import agent_of, plugin, run, scripted
from tests.stubs import Call

harness: Any = pytest.importorskip(
    "pydantic_ai_harness", reason="needs pydantic-ai-harness: pip install 'pydantic-ai-harness==0.62.*'"
)


def capabilities() -> list[Any]:
    return [harness.FileSystem(), harness.Shell(), harness.Planning()]


@pytest.mark.parametrize("whose", ["the application's", "a plugin's"])
def test_its_file_and_shell_tools_ask_as_ours_do_and_run_once_approved(whose: str, tmp_path: Path) -> None:
    writes = Call("write_file", {"path": "a.txt", "content": "hello"}, id="c1")
    runs = Call("run_command", {"command": "touch b.txt"}, id="c2")
    given = capabilities()
    own: dict[str, Any] = {"capabilities": given} if whose == "the application's" else {}
    plugins = [] if own else [plugin("harness", capabilities=given)]
    agent = agent_of(*plugins, model=scripted([writes, runs]), interrupt_on="write | execute", **own)
    deps = create_default_deps(local_backend(tmp_path))
    asked = run(agent, deps=deps)
    assert isinstance(asked.output, DeferredToolRequests)
    assert {call.tool_name for call in asked.output.approvals} == {"write_file", "run_command"}
    assert [*tmp_path.iterdir()] == []
    decided = asked.output.build_results(approve_all=True)
    done = run(agent, None, deps, message_history=asked.all_messages(), deferred_tool_results=decided)
    assert done.output == "done"
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".")) == ["a.txt", "b.txt"]


def test_the_filter_hides_its_tools(tmp_path: Path) -> None:
    model = scripted(Call("write_file", {"path": "a.txt", "content": "hello"}))
    agent = agent_of(model=model, capabilities=capabilities(), tool_filter="name:read_file")
    run(agent, deps=create_default_deps(local_backend(tmp_path)))
    assert model.player.views[0].tools == ["read_file"]
    assert [*tmp_path.iterdir()] == []
