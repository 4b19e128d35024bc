"""The composite: the longest prefix wins, paths are the mounted backend's own, and nothing crosses unseen."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deep_backends import (
    ConfinementError,
    MemoryBackend,
    UnsupportedOperationError,
    composite_backend,
    local_backend,
    memory_backend,
)
from pydantic_ai.workspaces import (
    FileEntry,
    SupportsCommands,
    SupportsFilesystem,
    Workspace,
    WorkspaceBackend,
    WorkspaceRef,
)

if TYPE_CHECKING:
    from conftest import World

pytestmark = pytest.mark.anyio


class Plain(WorkspaceBackend, SupportsFilesystem):
    """A stranger's backend: what Pydantic AI asks for, and no optional protocol."""

    def __init__(self) -> None:
        self.inner = MemoryBackend()

    @property
    def ref(self) -> WorkspaceRef:
        return WorkspaceRef(provider="plain", id="1")

    async def working_dir(self) -> str:
        return "/workspace"

    async def read_bytes(self, path: str) -> bytes:
        return await self.inner.read_bytes(path)

    async def write_bytes(self, path: str, data: bytes) -> None:
        await self.inner.write_bytes(path, data)

    async def stat(self, path: str) -> FileEntry:
        return await self.inner.stat(path)

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        return await self.inner.list_dir(path)

    async def make_dir(self, path: str) -> None:
        await self.inner.make_dir(path)

    async def remove(self, path: str) -> None:
        await self.inner.remove(path)

    async def exists(self, path: str) -> bool:
        return await self.inner.exists(path)


async def chunks() -> AsyncIterator[bytes]:
    yield b"one"
    yield b"two"


async def test_a_path_on_a_route_is_the_mounted_backends_own(world: World) -> None:
    """Defect 7 of the system this grew from: it wrote `<root>/project/a.txt`."""
    composite = composite_backend(memory_backend(), {"/project/": world.backend})
    await composite.write_bytes("/project/a.txt", b"a")
    assert (world.root / "a.txt").read_bytes() == b"a"
    assert not (world.root / "project").exists()
    assert await composite.read_bytes("/project/inside.txt") == b"inside"
    assert (await composite.stat("/project/a.txt")).path == "/project/a.txt"
    assert [entry.path for entry in await composite.list_dir("/project")] == [
        "/project/a.txt",
        "/project/deep",
        "/project/inside.txt",
    ]
    assert await composite.route("/project/deep/x") == (world.backend, f"{world.root}/deep/x")


async def test_the_longest_prefix_wins_by_whole_names() -> None:
    default, outer, inner = memory_backend(), memory_backend(), memory_backend()
    composite = composite_backend(default, {"/data": outer, "/data/inner/": inner})
    for path, backend, there in (
        ("/data/x", outer, "/workspace/x"),
        ("/data/inner/x", inner, "/workspace/x"),
        ("/data/inner2/x", outer, "/workspace/inner2/x"),
        ("/data2/x", default, "/data2/x"),
        ("/x", default, "/x"),
    ):
        await composite.write_bytes(path, path.encode())
        assert await backend.read_bytes(there) == path.encode()
        assert await composite.read_bytes(path) == path.encode()


async def test_a_relative_prefix_is_below_the_working_directory(world: World) -> None:
    notes = memory_backend()
    composite = composite_backend(world.backend, {"notes/": notes})
    workspace = Workspace(composite)
    await workspace.write_text("notes/today.md", "hello")
    assert await notes.read_bytes("/workspace/today.md") == b"hello"
    assert not (world.root / "notes").exists()
    assert [(entry.name, entry.is_dir) for entry in await workspace.list_dir(".")] == [
        ("deep", True),
        ("inside.txt", False),
        ("notes", True),
    ]


async def test_listing_shows_mounts_also_where_the_default_has_no_directory(world: World) -> None:
    composite = composite_backend(world.backend, {"/far/away/memory": memory_backend({"m": b""})})
    assert [(e.name, e.path, e.is_dir) for e in await composite.list_dir("/far")] == [("away", "/far/away", True)]
    assert [entry.path for entry in await composite.list_dir("/far/away")] == ["/far/away/memory"]
    assert [entry.path for entry in await composite.list_dir("/far/away/memory")] == ["/far/away/memory/m"]
    for path in ("/far", "/far/away", "/far/away/memory"):
        assert (await composite.stat(path)).is_dir
        assert (await composite.stat(path)).name == os.path.basename(path)
        assert await composite.exists(path)
        with pytest.raises(IsADirectoryError):
            await composite.read_bytes(path)
        with pytest.raises(IsADirectoryError):
            await composite.write_bytes(path, b"")
        with pytest.raises(ValueError, match="mounted"):
            await composite.remove(path)
        await composite.make_dir(path)


@pytest.mark.parametrize(
    "path",
    [
        "/project/../outside/secret.txt",
        "/project/deep/../../../secret.txt",
        "/project/link/secret.txt",
        "/project/link",
        "{outside}/secret.txt",
    ],
)
@pytest.mark.parametrize("mounted", [True, False])
async def test_no_path_leaves_what_is_mounted(world: World, path: str, mounted: bool) -> None:
    (world.root / "link").symlink_to(world.outside)
    other = local_backend(world.root / "deep")
    composite = composite_backend(other, {"/project": world.backend})
    if not mounted:
        path = path.replace("/project", str(world.root / "deep")).replace("link", "../link")
    before = world.snapshot()
    path = path.format(outside=world.outside)
    for operation in (composite.read_bytes, composite.list_dir, composite.stat, composite.exists, composite.realpath):
        with pytest.raises(ConfinementError):
            await operation(path)
    with pytest.raises(ConfinementError):
        await composite.write_bytes(path, b"x")
    with pytest.raises(ConfinementError):
        await composite.write_if(path, b"x", expected=None)
    with pytest.raises(ConfinementError):
        await composite.write_stream(path, chunks())
    assert world.snapshot() == before


async def test_dot_dot_is_resolved_before_the_route_is_chosen(world: World) -> None:
    default = memory_backend()
    composite = composite_backend(default, {"/project": world.backend})
    await composite.write_bytes("/project/../elsewhere/x", b"default")
    assert await default.read_bytes("/elsewhere/x") == b"default"
    await composite.write_bytes("/elsewhere/../project/x", b"mounted")
    assert (world.root / "x").read_bytes() == b"mounted"


async def test_real_paths_are_paths_of_the_composite(world: World) -> None:
    (world.root / "link").symlink_to("deep")
    composite = composite_backend(memory_backend(), {"/project": world.backend})
    assert await composite.realpath("/project/link/er") == "/project/deep/er"
    assert await composite.realpath("/project/link/er/..") == "/project/deep"
    assert await composite.realpath("/project") == "/project"
    assert await composite.realpath("/other/../x") == "/x"


@pytest.mark.parametrize("mount", ["deep", "deep/er"])
async def test_a_link_to_what_a_mount_hides_has_no_name_here(world: World, mount: str) -> None:
    (world.root / "deep/er/hidden.txt").write_bytes(b"hidden")
    (world.root / "link").symlink_to("deep/er")
    composite = composite_backend(world.backend, {mount: memory_backend({"er/hidden.txt": b"mounted"})})
    with pytest.raises(ConfinementError, match="by the backend mounted at"):
        await composite.realpath(str(world.root / "link/hidden.txt"))
    over = composite_backend(memory_backend(), {"/project": world.backend, f"/project/{mount}": memory_backend()})
    with pytest.raises(ConfinementError, match="by the backend mounted at"):
        await over.realpath("/project/link/hidden.txt")
    assert await over.realpath(f"/project/{mount}/x") == f"/project/{mount}/x"


async def test_the_optional_protocols_reach_the_mounted_backend(world: World) -> None:
    composite = composite_backend(memory_backend(), {"/project": world.backend})
    assert await composite.write_stream("/project/s", chunks()) == 6
    assert await composite.read_range("/project/s", 2, 3) == b"etw"
    assert await composite.write_if("/project/s", b"new", expected=sha256(b"onetwo").hexdigest())
    assert not await composite.write_if("/project/s", b"newer", expected=None)
    assert (world.root / "s").read_bytes() == b"new"


async def test_what_the_mounted_backend_cannot_promise_is_refused() -> None:
    plain = Plain()
    composite = composite_backend(memory_backend(), {"/plain": plain})
    await composite.write_bytes("/plain/small", b"0123456789")
    assert await composite.read_range("/plain/small", 2, 3) == b"234"
    await composite.write_bytes("/plain/large", b"x" * (1024 * 1024 + 1))
    with pytest.raises(UnsupportedOperationError, match=r"/plain.*Plain.*SupportsRangeRead"):
        await composite.read_range("/plain/large", 2, 3)
    with pytest.raises(UnsupportedOperationError, match="SupportsStreamWrite"):
        await composite.write_stream("/plain/small", chunks())
    with pytest.raises(UnsupportedOperationError, match="SupportsGuardedWrite"):
        await composite.write_if("/plain/small", b"", expected=None)
    assert await plain.read_bytes("/workspace/small") == b"0123456789"


async def test_errors_name_the_composites_path(world: World) -> None:
    composite = composite_backend(memory_backend(), {"/project": world.backend})
    for operation in (composite.read_bytes, composite.list_dir, composite.stat, composite.remove):
        with pytest.raises(FileNotFoundError, match="/project/absent") as missing:
            await operation("/project/absent")
        assert str(world.root) not in str(missing.value)


async def test_commands_go_to_the_default(world: World) -> None:
    composite = composite_backend(world.backend, {"/notes": memory_backend()})
    assert isinstance(composite, SupportsCommands)
    assert (await composite.run(["pwd"])).stdout == f"{world.root}\n"
    assert not isinstance(composite_backend(memory_backend(), {"/project": world.backend}), SupportsCommands)


async def test_a_ref_names_the_default_and_the_routes(world: World) -> None:
    def ref(*prefixes: str) -> WorkspaceRef | None:
        return composite_backend(local_backend(world.root), dict.fromkeys(prefixes, memory_backend())).ref

    assert ref("/a") == ref("/a/")
    assert ref("/a") != ref("/b")
    assert (ref() or WorkspaceRef(provider="", id="")).provider == "deep-composite"


@pytest.mark.parametrize("prefix", ["", "/", ".", "..", "../x", "a/../..", "//", "/a/..", "a\0b"])
async def test_a_prefix_that_is_no_place_is_refused(prefix: str) -> None:
    with pytest.raises(ValueError, match="routes"):
        composite_backend(memory_backend(), {prefix: memory_backend()})


async def test_one_prefix_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="two prefixes"):
        composite_backend(memory_backend(), {"/a": memory_backend(), "/a/": memory_backend()})
    twice = composite_backend(memory_backend(), {"a": memory_backend(), "/workspace/a": memory_backend()})
    with pytest.raises(ValueError, match="two prefixes"):
        await twice.exists("/x")


async def test_another_backend_may_be_mounted_at_the_working_directory_of_files_alone() -> None:
    inner = memory_backend()
    both = composite_backend(memory_backend(), {"/workspace/": inner, "/workspace/notes/": memory_backend()})
    await both.write_bytes(f"{await both.working_dir()}/a.txt", b"a")
    await both.write_bytes("/workspace/notes/b.txt", b"b")
    assert await inner.read_bytes("/workspace/a.txt") == b"a"
    assert not await inner.exists("/workspace/notes/b.txt")
    # A mount in a mounted folder is listed as one in the default's, and as little removed.
    assert [entry.name for entry in await both.list_dir("/workspace")] == ["a.txt", "notes"]
    assert (await both.stat("/workspace/notes")).is_dir
    assert await both.realpath("/workspace") == "/workspace"
    with pytest.raises(ValueError, match="mounted"):
        await both.remove("/workspace/notes")


async def test_a_mount_cannot_hide_the_directory_where_commands_run(tmp_path: Path) -> None:
    for prefix in (f"{tmp_path.resolve()}/", f"{tmp_path.resolve().parent}"):
        with pytest.raises(ValueError, match="where commands run: make that backend the default"):
            composite_backend(local_backend(tmp_path), {prefix: memory_backend()})


async def test_the_prompt_names_the_mounts(tmp_path: Path) -> None:
    import deep_backends
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    from deep_core import Kernel, create_default_deps

    sent: list[str] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        sent.append(repr((messages, info)))
        return ModelResponse([TextPart("done")])

    with Kernel(plugins=[deep_backends], discover=False, strict=True) as kernel:
        agent = kernel.create_agent(FunctionModel(answer))
        for backend in (
            composite_backend(local_backend(tmp_path), {"notes/": memory_backend(), "/data/": memory_backend()}),
            composite_backend(memory_backend(), {"/data/": memory_backend()}),
            memory_backend(),
        ):
            await agent.run("Go", deps=create_default_deps(backend=backend, kernel=kernel))
    assert "Mounted folders: /data/, notes/. Commands do not see them." in sent[0]
    assert "Mounted folders: /data/." in sent[1]
    assert "Commands" not in sent[1]
    assert "Mounted" not in sent[2]
