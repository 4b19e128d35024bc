"""The backend with the editor's files passes Pydantic AI's own suite for workspace backends."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import acp
import pytest
from deep_acp import EditorBackend
from deep_backends import local_backend
from pydantic_ai.workspaces import WorkspaceBackend, WorkspaceRef
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

from deep_core import SupportsGuardedWrite
from tests.rules import for_a_backend, without


class Buffers:
    """An editor with unsaved texts. Saved ones it reloads when the disk changes, as editors do."""

    reads = writes = True

    def __init__(self) -> None:
        self.unsaved: dict[str, str] = {}
        self.shown: dict[str, str] = {}

    async def read_file(self, session_id: str, path: str) -> str:
        if path in self.unsaved:
            return self.unsaved[path]
        if path in self.shown:
            return Path(path).read_text("utf-8")
        raise acp.RequestError.resource_not_found(path)

    async def write_file(self, session_id: str, path: str, text: str) -> None:
        self.shown[path] = text
        self.unsaved.pop(path, None)


def with_buffers(folder: Path | str, buffers: Any = None) -> EditorBackend:
    return EditorBackend(local_backend(folder), buffers or Buffers(), "s")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


# Commands are the other backend's, whose own tests have all of these; the second takes half a minute.
@without(
    "test_a_backend_attached_by_ref_reaches_a_detached_process",
    "test_background_child_does_not_hold_up_completed_command",
)
@for_a_backend(commands=True)
class TestEditorBackend(WorkspaceBackendSuite):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> WorkspaceBackend:
        return with_buffers(tmp_path)

    @pytest.fixture
    def attach_backend(self) -> Callable[[WorkspaceRef], WorkspaceBackend]:
        return lambda ref: with_buffers(ref.id)

    @pytest.fixture
    def destroy_environment(self) -> Callable[[WorkspaceBackend], Awaitable[None]]:
        async def destroy(backend: WorkspaceBackend) -> None:
            shutil.rmtree(await backend.working_dir())

        return destroy

    @pytest.fixture
    def destructive_backend(self, tmp_path: Path) -> Callable[[], WorkspaceBackend]:
        def make() -> WorkspaceBackend:
            (tmp_path / "doomed").mkdir()
            return with_buffers(tmp_path / "doomed")

        return make


@pytest.mark.anyio
async def test_line_ends_and_marks_of_the_disk_stay_and_a_guarded_write_expects_what_the_editor_has(
    tmp_path: Path,
) -> None:
    file = tmp_path.resolve() / "a.txt"
    file.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    path, buffers = str(file), Buffers()
    backend = with_buffers(tmp_path, buffers)
    assert isinstance(backend, SupportsGuardedWrite)
    buffers.unsaved[path] = "one\ntwo\n"
    assert await backend.read_bytes(path) == file.read_bytes()
    buffers.unsaved[path] = "one\nthree\n"
    seen = await backend.read_bytes(path)
    assert seen == b"\xef\xbb\xbfone\r\nthree\r\n"
    assert not await backend.write_if(path, b"new", expected=sha256(file.read_bytes()).hexdigest())
    assert await backend.write_if(path, b"new", expected=sha256(seen).hexdigest())
    assert file.read_bytes() == b"new"
    assert buffers.shown == {path: "new"}
