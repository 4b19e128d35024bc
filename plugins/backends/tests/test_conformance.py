"""Every backend passes Pydantic AI's own suite for workspace backends."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from deep_backends import CompositeBackend, composite_backend, local_backend, memory_backend
from pydantic_ai.workspaces import WorkspaceBackend, WorkspaceRef
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def destroy(backend: WorkspaceBackend) -> None:
    shutil.rmtree(await backend.working_dir())


class TestLocal(WorkspaceBackendSuite):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> WorkspaceBackend:
        return local_backend(tmp_path)

    @pytest.fixture
    def attach_backend(self) -> Callable[[WorkspaceRef], WorkspaceBackend]:
        return lambda ref: local_backend(ref.id)

    @pytest.fixture
    def destroy_environment(self) -> Callable[[WorkspaceBackend], Awaitable[None]]:
        return destroy

    @pytest.fixture
    def destructive_backend(self, tmp_path: Path) -> Callable[[], WorkspaceBackend]:
        def make() -> WorkspaceBackend:
            (tmp_path / "doomed").mkdir()
            return local_backend(tmp_path / "doomed")

        return make


class WithoutCommands(WorkspaceBackendSuite):
    @pytest.fixture
    def can_detect_exit_with_inherited_output_pipes(self) -> bool:
        return False  # else the suite waits 30 seconds for a command before it skips the rule


class TestMemory(WithoutCommands):
    @pytest.fixture
    def backend(self) -> WorkspaceBackend:
        return memory_backend()


class TestCompositeOverLocal(WorkspaceBackendSuite):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> WorkspaceBackend:
        return composite_backend(local_backend(tmp_path), {"/notes/": memory_backend(), "drafts/": memory_backend()})


class TestCompositeOverMemory(WithoutCommands):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> WorkspaceBackend:
        return composite_backend(memory_backend(), {"/project/": local_backend(tmp_path)})


class TestMountedLocal(WithoutCommands):
    """The suite inside a mount: what it does below the working directory lands in the mounted backend."""

    @pytest.fixture
    def backend(self, tmp_path: Path) -> WorkspaceBackend:
        class InsideTheMount(CompositeBackend):
            async def working_dir(self) -> str:
                return "/project"

        return InsideTheMount(memory_backend(), {"/project/": local_backend(tmp_path)})
