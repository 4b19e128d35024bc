"""The conformance suite for backends: Pydantic AI's rules for workspaces, plus confinement."""

# A test suite: its checks are assertions, and it inspects the folder beside the workspace directly.
# ruff: noqa: S101, ASYNC110, ASYNC240

from __future__ import annotations

import contextlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic_ai.workspaces import SupportsCommands, Workspace, WorkspaceBackend
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

__all__ = ["BackendConformance"]

SESSION = "conformance"
WAIT = 60
"""Seconds after which a test fails that would hang; none waits for it."""
SECRET = b"a secret outside of the workspace"

Operation = Callable[[Workspace, str], Awaitable[object]]
READS: dict[str, Operation] = {
    "read_bytes": lambda workspace, path: workspace.read_bytes(path),
    "read_text": lambda workspace, path: workspace.read_text(path),
}
CHANGES: dict[str, Operation] = {
    "write_bytes": lambda workspace, path: workspace.write_bytes(path, b"written"),
    "make_dir": lambda workspace, path: workspace.make_dir(path + "-made"),
    "remove": lambda workspace, path: workspace.remove(path),
}

WAYS = ("absolute", "dot dot", "dot dot through a folder", "link to the folder", "link to the file")
"""Ways out of a workspace. Links are created only if the working directory is a folder of this machine."""


class BackendConformance(WorkspaceBackendSuite):
    """Subclass it in a test module and define the fixture `backend`:

        class TestMyBackend(BackendConformance):
            @pytest.fixture
            def backend(self, tmp_path):
                return my_backend(tmp_path)

    The other fixtures of `WorkspaceBackendSuite` (`fresh_backend`, `destructive_backend`, `attach_backend`,
    `destroy_environment`) enable more tests. A backend that does not confine, by design, defines the fixture
    `outside` and returns None from it: the tests of confinement are then skipped.
    """

    @pytest.fixture
    def anyio_backend(self) -> str:
        """Run the suite on asyncio."""
        return "asyncio"

    @pytest.fixture
    def can_detect_exit_with_inherited_output_pipes(self, backend: WorkspaceBackend) -> bool:
        """Whether to wait for the exit of a command whose child keeps its pipes; False without commands."""
        return isinstance(backend, SupportsCommands)

    @pytest.fixture
    def has_real_posix_shell(self, backend: WorkspaceBackend) -> bool:
        """Whether to test a shell's rules; False without commands.

        A test that skips inside a task group ends anyio's runner with an exception that is never retrieved. Python 3.11
        cannot log it while pytest parses a source to show another failure, and pytest ends.
        """
        return isinstance(backend, SupportsCommands)

    @pytest.fixture
    def outside(self, tmp_path_factory: pytest.TempPathFactory) -> Path | None:
        """A folder outside of the workspace."""
        folder = tmp_path_factory.mktemp("outside")
        (folder / "secret.txt").write_bytes(SECRET)
        return folder

    @pytest.fixture(params=WAYS)
    async def way_out(self, request: pytest.FixtureRequest, backend: WorkspaceBackend, outside: Path | None) -> str:
        """A path that leads out of the workspace, to the secret file."""
        if outside is None:
            pytest.skip("the backend does not confine, by design")
        working_dir = await backend.working_dir()
        secret = str(outside / "secret.txt")
        relative = os.path.relpath(secret, working_dir)
        if request.param == "absolute":
            return secret
        if request.param == "dot dot":
            return relative
        if request.param == "dot dot through a folder":
            await Workspace(backend).make_dir("a/b")
            return f"a/b/../../{relative}"
        if not os.path.isdir(working_dir):
            pytest.skip("the workspace is not a folder of this machine")
        target = outside if request.param == "link to the folder" else outside / "secret.txt"
        os.symlink(target, os.path.join(working_dir, "link"))
        return "link/secret.txt" if request.param == "link to the folder" else "link"

    @pytest.mark.parametrize("operation", READS)
    async def test_nothing_outside_is_read(self, backend: WorkspaceBackend, way_out: str, operation: str) -> None:
        """Reading a file outside of the workspace fails."""
        try:
            content = await READS[operation](Workspace(backend), way_out)
        except Exception:  # noqa: BLE001 - any error is fine, FileNotFoundError too
            return
        text = content.encode() if isinstance(content, str) else content
        assert text != SECRET, (
            f"{operation}({way_out!r}) read a file outside of the workspace. Fix: resolve links and `..` of every "
            "path first, and reject paths outside of the working directory"
        )

    async def test_nothing_outside_is_listed(self, backend: WorkspaceBackend, way_out: str) -> None:
        """Listing a folder outside of the workspace fails, or shows none of its files."""
        folder = os.path.dirname(way_out) or way_out
        try:
            entries = await Workspace(backend).list_dir(folder)
        except Exception:  # noqa: BLE001 - any error is fine
            return
        assert "secret.txt" not in [entry.name for entry in entries], (
            f"list_dir({folder!r}) listed a folder outside of the workspace. Fix: check the path as for reading"
        )

    @pytest.mark.parametrize("operation", CHANGES)
    async def test_nothing_outside_is_changed(
        self, backend: WorkspaceBackend, way_out: str, outside: Path, operation: str
    ) -> None:
        """Writing, creating and removing outside of the workspace changes nothing there."""
        with contextlib.suppress(Exception):  # an error or not: only the files count
            await CHANGES[operation](Workspace(backend), way_out)
        files = {path.name: path.read_bytes() if path.is_file() else None for path in outside.iterdir()}
        assert files == {"secret.txt": SECRET}, (
            f"{operation}({way_out!r}) changed files outside of the workspace: {sorted(files)}. Fix: check the path "
            "as for reading; when you replace a file, check again after you open it"
        )

    async def test_names_are_kept_as_they_are(self, backend: WorkspaceBackend) -> None:
        """Names with blanks, quotes, letters of any script and a leading dash work."""
        workspace = Workspace(backend)
        names = ["with a blank.txt", "quote'and\"quote.txt", "Ärger-漢字.txt", "-n", "$HOME", "*.txt"]
        for name in names:
            await workspace.write_bytes(f"names/{name}", name.encode())
        read = {name: await workspace.read_bytes(f"names/{name}") for name in names}
        assert read == {name: name.encode() for name in names}
        assert sorted(entry.name for entry in await workspace.list_dir("names")) == sorted(names)

    async def test_writing_leaves_nothing_beside(self, backend: WorkspaceBackend) -> None:
        """Writing a file leaves no other new file."""
        workspace = Workspace(backend)
        for content in (b"one", b"another"):
            await workspace.write_bytes("beside/file.txt", content)
        assert [entry.name for entry in await workspace.list_dir("beside")] == ["file.txt"]

    async def test_listing_is_in_the_same_order_each_time(self, backend: WorkspaceBackend) -> None:
        """Two listings of a folder are equal: the model's view must not depend on chance."""
        workspace = Workspace(backend)
        for name in ("b", "a", "c", "B"):
            await workspace.write_bytes(f"listed/{name}", b"")
        first = [entry.name for entry in await workspace.list_dir("listed")]
        assert [entry.name for entry in await workspace.list_dir("listed")] == first

    async def _staying(self, backend: Any, command: str) -> tuple[Any, str]:
        """Start a command that stays; skip for a backend whose commands all end."""
        if not hasattr(backend, "start_command"):
            pytest.skip("no command of this backend stays: it has not `deep_backends.SupportsBackground`")
        from deep_backends import CommandLimits  # such a backend has it

        found = await backend.start_command(
            command, session=SESSION, folder=f".deep/sessions/{SESSION}", limits=CommandLimits()
        )
        return backend, found.name

    async def test_a_background_command_is_read_typed_to_and_ends(self, backend: WorkspaceBackend) -> None:
        """A command that stays has a terminal; its output is in order, in its log too, and its exit code is known."""
        running, name = await self._staying(backend, "test -t 0 && echo one; read x; echo two $x; exit 3")
        with anyio.fail_after(WAIT):
            while b"one" not in (await running.command_output(SESSION, name, 0)).data:
                await anyio.sleep(0.01)
            assert await running.send_input(SESSION, name, b"more\n")
            while (found := (await running.list_commands(SESSION))[-1]).is_running:
                await anyio.sleep(0.01)
        assert (found.name, found.exit_code) == (name, 3)
        said = (await running.command_output(SESSION, name, 0)).data.replace(b"\r\n", b"\n")
        assert said == b"one\ntwo more\n", f"it said {said!r}. Fix: one terminal, without echo, for input and output"
        assert (await Workspace(backend).read_bytes(found.log)).replace(b"\r\n", b"\n") == said
        assert not await running.send_input(SESSION, name, b"late\n")

    async def test_a_background_command_is_stopped_with_all_that_it_started(self, backend: WorkspaceBackend) -> None:
        """Stopping ends what ignores signals, and what has a session of its own."""
        script = "trap '' TERM HUP; (while :; do date +%N > beat; sleep 0.05; done) & echo up; wait"
        running, name = await self._staying(backend, script)
        workspace = Workspace(backend)
        with anyio.fail_after(WAIT):
            while not await workspace.exists("beat"):
                await anyio.sleep(0.01)
        found = await running.stop_command(SESSION, name)
        assert (found.is_running, found.reason) == (False, "stopped")
        await workspace.write_bytes("beat", b"quiet")
        other, again = await self._staying(backend, "read")  # an attendant's start takes longer than a beat
        assert await workspace.read_bytes("beat") == b"quiet", "a process of it goes on. Fix: kill the whole tree"
        with pytest.raises(KeyError):
            await running.stop_command(SESSION, "c99")
        await other.stop_command(SESSION, again)
