"""`runtime_policy.sandbox_mode` and `working_directory`, of backends that are chosen by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deep_backends
import deep_sessions
import pytest
from deep_backends import SandboxBackend
from deep_sessions import AgentDeps, DeepAgent, ToolDefinition
from pydantic_ai.workspaces import SupportsCommands

from deep_core import ConfigError, Kernel, create_default_deps
from plugins.sessions.tests.scripted import Scripted, call

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside/note.txt").write_text("red")
    (tmp_path / "out").symlink_to("/")
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def use(policy: dict[str, Any], path: str = "note.txt", **how: Any) -> Any:
    seen: list[Any] = []

    async def work(ctx: Any) -> str:
        seen.append(ctx.runtime.backend)
        await ctx.runtime.write_text(path, "blue")
        return await ctx.runtime.read_text(path)

    tool = ToolDefinition("work", "Work.", {"type": "object", "properties": {}}, work, requires_runtime=True)
    kernel = Kernel(plugins=[deep_sessions, deep_backends], discover=False)
    agent = await DeepAgent.create(
        config={"runtime_policy": policy},
        deps=AgentDeps(model=Scripted([call("work")], "end").model, kernel=kernel, **how),
        tools=[tool],
    )
    return await agent.run("go"), seen


@pytest.mark.parametrize("profile", ["local", "memory"])
async def test_runtime_policy_sandbox_mode_read_only_denies_writes(profile: str, folder: Path) -> None:
    result, (backend,) = await use({"profile": profile, "sandbox_mode": "read_only"})
    assert (result.status, result.error.code) == ("failed", "runtime_permission_denied")
    assert not (folder / "note.txt").exists()
    assert not isinstance(backend, SupportsCommands)


@pytest.mark.needs("bubblewrap")
async def test_runtime_policy_sandbox_mode_workspace_write_confines_commands() -> None:
    result, (backend,) = await use({"profile": "local", "sandbox_mode": "workspace_write"})
    assert result.status == "completed", result.error
    assert isinstance(backend, SandboxBackend)


async def test_runtime_policy_sandbox_mode_full_access_changes_nothing() -> None:
    for policy in ({"profile": "local", "sandbox_mode": "full_access"}, {"profile": "local"}):
        result, (backend,) = await use(policy)
        assert (result.status, type(backend).__name__) == ("completed", "LocalBackend")


async def test_runtime_policy_working_directory_is_where_the_workspace_works(folder: Path) -> None:
    result, _ = await use({"profile": "local", "working_directory": "inside"})
    assert result.status == "completed", result.error
    assert (folder / "inside/note.txt").read_text() == "blue"


@pytest.mark.parametrize("wanted", ["../..", "out", "missing", "/", "inside/note.txt"])
async def test_runtime_policy_working_directory_exists_and_leads_nowhere_else(wanted: str) -> None:
    kernel = Kernel(plugins=[deep_backends], discover=False)
    policy = {"profile": "local", "working_directory": wanted}
    agent = kernel.create_agent("test", config={"agent": {"runtime_policy": policy}})
    with pytest.raises(ConfigError, match=r"runtime_policy\.working_directory"):
        await agent.run("go", deps=create_default_deps(kernel=kernel))


async def test_runtime_policy_needs_a_backend_that_is_chosen_by_name() -> None:
    with pytest.raises(ConfigError, match="give backend= a name"):
        await use({"sandbox_mode": "read_only"}, runtime=deep_backends.memory_backend())
