"""Every backend passes Pydantic AI's own suite for workspace backends."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from deep_backends import CompositeBackend, composite_backend, local_backend, memory_backend, sandbox_backend
from pydantic_ai.workspaces import WorkspaceBackend, WorkspaceRef
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

from tests.rules import exhaustive, for_a_backend, without


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def destroy(backend: WorkspaceBackend) -> None:
    shutil.rmtree(await backend.working_dir())


# docs/decisions/0016-commands-and-their-sandbox.md: what a command leaves behind ends with it.
DETACHED = "test_a_backend_attached_by_ref_reaches_a_detached_process"
# At its end this one waits 30 s for its background process, which has ended with its command.
BACKGROUND = "test_background_child_does_not_hold_up_completed_command"


@without(DETACHED)
@exhaustive(BACKGROUND)
@for_a_backend(commands=True)
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


# Two commands of a sandbox share neither processes nor mounts; test_commands.py has rules of its own for both.
@without(
    DETACHED, "test_cancellation_stops_foreground_work", "test_destroying_environment_during_command_raises_unavailable"
)
@pytest.mark.needs("bubblewrap")
class TestSandbox(TestLocal):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> WorkspaceBackend:
        return sandbox_backend(tmp_path)

    @pytest.fixture
    def attach_backend(self) -> Callable[[WorkspaceRef], WorkspaceBackend]:
        return lambda ref: sandbox_backend(ref.id)

    @pytest.fixture
    def destructive_backend(self, tmp_path: Path) -> Callable[[], WorkspaceBackend]:
        def make() -> WorkspaceBackend:
            (tmp_path / "doomed").mkdir()
            return sandbox_backend(tmp_path / "doomed")

        return make


@for_a_backend(commands=False)
class TestMemory(WorkspaceBackendSuite):
    @pytest.fixture
    def backend(self) -> WorkspaceBackend:
        return memory_backend()


@exhaustive(BACKGROUND)
@for_a_backend(commands=True)
class TestCompositeOverLocal(WorkspaceBackendSuite):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> WorkspaceBackend:
        return composite_backend(local_backend(tmp_path), {"/notes/": memory_backend(), "drafts/": memory_backend()})


@for_a_backend(commands=False)
class TestCompositeOverMemory(WorkspaceBackendSuite):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> WorkspaceBackend:
        return composite_backend(memory_backend(), {"/project/": local_backend(tmp_path)})


@for_a_backend(commands=False)
class TestMountedLocal(WorkspaceBackendSuite):
    """The suite inside a mount: what it does below the working directory lands in the mounted backend."""

    @pytest.fixture
    def backend(self, tmp_path: Path) -> WorkspaceBackend:
        class InsideTheMount(CompositeBackend):
            async def working_dir(self) -> str:
                return "/project"

        return InsideTheMount(memory_backend(), {"/project/": local_backend(tmp_path)})
