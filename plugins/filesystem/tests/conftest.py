"""A session of the file tools over a real backend, without a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from deep_backends import local_backend, memory_backend
from deep_filesystem import FILES, FilesystemOptions, Seen
from deep_filesystem.operations import Operations
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.workspaces import LocalWorkspaceBackend, Workspace, WorkspaceBackend

from deep_core import DeepAgentDeps


class Session:
    """One session's view: `ok` returns a tool's text, `failed` the message of its failure."""

    def __init__(self, workspace: Workspace, **options: Any) -> None:
        self.workspace = workspace
        self.deps = DeepAgentDeps()
        self.tools = Operations(FilesystemOptions(**options))
        self._ctx: Any = SimpleNamespace(
            tool_call_approved=True, tool_call_id="c1", workspace=workspace, deps=self.deps
        )

    @property
    def files(self) -> dict[str, Seen]:
        return self.deps.state[FILES]

    async def ok(self, tool: str, *args: Any, **kwargs: Any) -> str:
        return await getattr(self.tools, tool)(self._ctx, *args, **kwargs)

    async def failed(self, tool: str, *args: Any, **kwargs: Any) -> str:
        with pytest.raises(ToolFailed) as caught:
            await getattr(self.tools, tool)(self._ctx, *args, **kwargs)
        return caught.value.message


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


BACKENDS: dict[str, Callable[[Path], WorkspaceBackend]] = {
    "local": local_backend,  # confined, ranges, guarded writes
    "plain": LocalWorkspaceBackend,  # Pydantic AI's own: neither
    "memory": lambda _: memory_backend(),
}


@pytest.fixture(params=sorted(BACKENDS))
def workspace(request: pytest.FixtureRequest, tmp_path: Path) -> Workspace:
    root = tmp_path / "work"
    root.mkdir()
    return Workspace(BACKENDS[request.param](root))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir(exist_ok=True)
    return path


@pytest.fixture
def session(workspace: Workspace) -> Session:
    return Session(workspace)


@pytest.fixture
def new_session() -> type[Session]:
    return Session
