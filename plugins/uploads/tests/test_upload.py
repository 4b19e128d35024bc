"""An upload is stored byte for byte under its own name, within limits, or not at all."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import deep_backends
import pytest
from deep_backends import LocalBackend, MemoryBackend, composite_backend, local_backend, memory_backend
from deep_uploads import UPLOADS, UploadedFile, UploadError, upload_file
from deep_uploads.sources import PIECE
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.workspaces import (
    FileEntry,
    LocalWorkspaceBackend,
    ReadOnlyWorkspace,
    SupportsFilesystem,
    Workspace,
    WorkspaceBackend,
    WorkspaceRef,
)

from deep_core import DeepAgentDeps, Kernel, create_default_deps
from tests.drawn import examples

pytestmark = pytest.mark.anyio
Deps = DeepAgentDeps[None]
Everything = Callable[[Path], list[str]]


async def stream(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


class Plain(WorkspaceBackend, SupportsFilesystem):
    """A memory backend with only Pydantic AI's protocols. `fail_at`: write_bytes stores half and raises."""

    ref: WorkspaceRef | None = None

    def __init__(self, fail_at: str = "") -> None:
        self.inner = memory_backend()
        self.fail_at = fail_at
        self.error: BaseException = OSError(28, "No space left on device")

    async def working_dir(self) -> str:
        return "/box"

    async def read_bytes(self, path: str) -> bytes:
        return await self.inner.read_bytes(path)

    async def write_bytes(self, path: str, data: bytes) -> None:
        if self.fail_at and self.fail_at in path:
            await self.inner.write_bytes(path, data[: len(data) // 2])
            raise self.error
        await self.inner.write_bytes(path, data)

    async def stat(self, path: str) -> FileEntry:
        return await self.inner.stat(path)

    async def list_dir(self, path: str) -> Any:
        return await self.inner.list_dir(path)

    async def make_dir(self, path: str) -> None:
        await self.inner.make_dir(path)

    async def remove(self, path: str) -> None:
        await self.inner.remove(path)

    async def exists(self, path: str) -> bool:
        return await self.inner.exists(path)


# -- bytes, sources ----------------------------------------------------------------------------------------------


def test_bytes_arrive_unaltered_however_they_come(in_memory: Deps) -> None:
    async def upload(data: bytes, cuts: list[int]) -> None:
        parts, rest = [], data
        for cut in cuts:
            parts.append(rest[:cut])
            rest = rest[cut:]
        in_memory.state[UPLOADS] = {}
        for source in (data, bytearray(data), memoryview(data), stream(*parts, rest)):
            uploaded = await upload_file(in_memory, "x.bin", source)
            assert uploaded.sha256 == hashlib.sha256(data).hexdigest()
            assert in_memory.backend is not None
            stored = await Workspace(in_memory.backend).read_bytes(uploaded.path)
            assert (stored, uploaded.size) == (data, len(data))

    @settings(max_examples=examples(40))
    @given(data=st.binary(max_size=2000), cuts=st.lists(st.integers(1, 500), max_size=6))
    def holds(data: bytes, cuts: list[int]) -> None:
        asyncio.run(upload(data, cuts))

    holds()


async def test_what_is_known_is_returned_and_kept(deps: Deps, root: Path) -> None:
    uploaded = await upload_file(deps, "data.csv", b"a,b\n1,2\n")
    assert uploaded == UploadedFile(
        name="data.csv",
        path="uploads/data.csv",
        size=8,
        line_count=2,
        mime_type="text/csv",
        encoding="utf-8",
        sha256=hashlib.sha256(b"a,b\n1,2\n").hexdigest(),
        uploaded_at=uploaded.uploaded_at,
    )
    assert deps.uploads == {"uploads/data.csv": uploaded}
    assert (root / "uploads/data.csv").read_bytes() == b"a,b\n1,2\n"
    assert uploaded.uploaded_at.utcoffset() is not None


async def test_the_session_has_it_as_a_method(deps: Deps) -> None:
    uploaded = await deps.upload_file("a.txt", b"x", upload_dir="in")
    assert (uploaded.path, list(deps.uploads)) == ("in/a.txt", ["in/a.txt"])


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 17])
@pytest.mark.parametrize("way", ["bytes", "path", "stream", "huge chunk"])
async def test_every_size_comes_whole(deps: Deps, root: Path, tmp_path: Path, size: int, way: str) -> None:
    data = (hashlib.sha256(b"x").digest() * (size // 32 + 1))[:size]
    (tmp_path / "source").write_bytes(data)
    source: Any = {
        "bytes": data,
        "path": tmp_path / "source",
        "stream": stream(*(data[n : n + 70_000] for n in range(0, size, 70_000))),
        "huge chunk": stream(b"", data, b""),
    }[way]
    uploaded = await upload_file(deps, "f", source)
    assert (root / uploaded.path).read_bytes() == data
    assert (uploaded.size, uploaded.sha256) == (size, hashlib.sha256(data).hexdigest())


async def test_an_empty_file_is_a_file(deps: Deps, root: Path) -> None:
    for source in (b"", stream()):
        uploaded = await upload_file(deps, "empty.txt", source)
        assert (uploaded.size, uploaded.line_count, uploaded.encoding) == (0, 0, "utf-8")
        assert (root / uploaded.path).read_bytes() == b""


@pytest.mark.parametrize("wrong", ["text", 3, None, [b"x"], open])
async def test_other_sources_are_refused(deps: Deps, wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"an upload is bytes, a pathlib\.Path or an async iterable"):
        await upload_file(deps, "a", wrong)


async def test_a_path_that_cannot_be_read_raises_its_own_error(
    deps: Deps, root: Path, tmp_path: Path, everything: Everything
) -> None:
    import os

    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(FileNotFoundError):
        await upload_file(deps, "a", tmp_path / "missing")
    with pytest.raises(IsADirectoryError, match="upload each of its files"):
        await upload_file(deps, "a", tmp_path)
    with pytest.raises(OSError, match="not a regular file"):
        await upload_file(deps, "a", tmp_path / "fifo")
    assert everything(root) == []


# -- names and places --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["../../../escape.txt", "/etc/cron.d/x", "..", "a/../../b", "..\\..\\w.ini", "x\0/../y", "\u202e/../z", "~"]
)
async def test_no_name_leaves_the_upload_directory(deps: Deps, tmp_path: Path, name: str) -> None:
    uploaded = await upload_file(deps, name, b"x")
    assert [p.parent for p in tmp_path.rglob("*") if p.is_file()] == [tmp_path / "workspace/uploads"]
    assert uploaded.path == f"uploads/{uploaded.name}"


async def test_a_taken_name_gets_a_number_and_nothing_is_written_over(deps: Deps, root: Path) -> None:
    (root / "uploads").mkdir()
    (root / "uploads/a.txt").write_text("the agent's own")
    names = [(await upload_file(deps, name, b"new")).name for name in ("a.txt", "a.txt", "a.txt")]
    assert (root / "uploads/a.txt").read_text() == "the agent's own"
    assert names == ["a-2.txt", "a-3.txt", "a-4.txt"]


async def test_names_that_only_look_different_are_one_name(deps: Deps) -> None:
    names = [(await upload_file(deps, name, b"")).name for name in ("e\u0301.txt", "\u00e9.txt", "É.txt")]
    assert names == ["é.txt", "é-2.txt", "É-3.txt"]


async def test_a_name_stays_taken_when_the_file_was_removed(deps: Deps, root: Path) -> None:
    """The session's record of `a.txt` never describes another file."""
    await upload_file(deps, "a.txt", b"1")
    (root / "uploads/a.txt").unlink()
    assert (await upload_file(deps, "a.txt", b"2")).name == "a-2.txt"


@pytest.mark.parametrize("backend", ["local", "memory", "plain"])
async def test_uploads_of_one_name_at_once_get_names_of_their_own(root: Path, kernel: Kernel, backend: str) -> None:
    made: WorkspaceBackend = {"local": local_backend(root), "memory": memory_backend(), "plain": Plain()}[backend]
    one, two = create_default_deps(made, kernel=kernel), create_default_deps(made, kernel=kernel)
    bodies = [bytes([n]) * (PIECE + n if n % 2 else 10 + n) for n in range(1, 13)]
    jobs = [upload_file((one, two)[n % 3 == 0], "same.bin", stream(body)) for n, body in enumerate(bodies)]
    uploads = await asyncio.gather(*jobs)
    assert len({upload.path for upload in uploads}) == len(bodies)
    for body, upload in zip(bodies, uploads, strict=True):
        assert await Workspace(made).read_bytes(upload.path) == body
    assert len(one.uploads) + len(two.uploads) == len(bodies)
    assert not set(one.uploads) & set(two.uploads)


async def test_threads_with_loops_of_their_own_may_share_a_session(deps: Deps, root: Path) -> None:
    def work(number: int) -> list[str]:
        async def some() -> list[str]:
            return [(await upload_file(deps, "t.txt", stream(str(number).encode()))).path for _ in range(10)]

        return asyncio.run(some())

    paths = [path for found in await asyncio.gather(*(asyncio.to_thread(work, n) for n in range(4))) for path in found]
    assert len(set(paths)) == 40 == len(deps.uploads)
    assert sorted((root / path).read_text() for path in paths) == sorted("0123" * 10)


async def test_a_leading_slash_means_the_working_directory(deps: Deps, root: Path, in_memory: Deps) -> None:
    for upload_dir in ("/uploads", "uploads", "/uploads/", "//uploads", f"{root}/uploads", "./uploads/."):
        assert (await upload_file(deps, "a.txt", b"x", upload_dir=upload_dir)).path.startswith("uploads/a")
    assert len(list((root / "uploads").iterdir())) == 6
    assert (await upload_file(deps, "top.txt", b"x", upload_dir="/")).path == "top.txt"
    assert isinstance(in_memory.backend, MemoryBackend)
    await upload_file(in_memory, "a.txt", b"x")
    assert list(in_memory.backend.snapshot()) == ["/workspace/uploads/a.txt"]


@pytest.mark.parametrize("prefix", ["/uploads/", "uploads/"])
async def test_a_mount_at_the_upload_directory_takes_the_uploads(kernel: Kernel, root: Path, prefix: str) -> None:
    mounted = memory_backend()
    deps = create_default_deps(composite_backend(local_backend(root), {prefix: mounted}), kernel=kernel)
    uploaded = await upload_file(deps, "a.txt", b"x")
    assert uploaded.path == f"{prefix}a.txt"
    assert list(mounted.snapshot().values()) == [b"x"]
    assert list(root.iterdir()) == []
    assert await Workspace(deps.backend).read_bytes(uploaded.path) == b"x"  # type: ignore[arg-type]


@pytest.mark.parametrize("upload_dir", ["../up", "/a/../../b", "a\0b", "a\nb", "..\\x", "a\\b"])
async def test_a_directory_that_climbs_is_refused(deps: Deps, upload_dir: str, tmp_path: Path) -> None:
    with pytest.raises(UploadError, match="give a directory of the workspace"):
        await upload_file(deps, "a.txt", b"x", upload_dir=upload_dir)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


async def test_a_link_that_leads_out_is_refused(deps: Deps, root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (root / "uploads").symlink_to(tmp_path / "outside")
    for data in (b"small", stream(b"x" * (PIECE + 1))):
        with pytest.raises(UploadError, match=r"not uploaded.*outside the workspace"):
            await upload_file(deps, "a.txt", data)
    assert list((tmp_path / "outside").iterdir()) == []
    assert deps.uploads == {}


# -- failures ----------------------------------------------------------------------------------------------------


class Disconnected(Exception):
    """The error of a web framework when the client disconnects."""


@pytest.mark.parametrize("before", [10, 3 * PIECE])
async def test_a_stream_that_fails_leaves_nothing_and_its_error_is_the_callers(
    deps: Deps, root: Path, everything: Everything, before: int
) -> None:
    closed: list[str] = []

    async def broken() -> AsyncIterator[bytes]:
        try:
            yield b"x" * before
            raise Disconnected
        finally:
            closed.append("source")

    with pytest.raises(Disconnected):
        await upload_file(deps, "a.txt", broken())
    assert everything(root) == []
    assert deps.uploads == {}
    assert closed == ["source"]
    assert (await upload_file(deps, "a.txt", b"x")).name == "a.txt", "the name is free again"


async def test_a_backend_that_fails_half_way_leaves_nothing(kernel: Kernel) -> None:
    backend = Plain(fail_at="bad")
    deps = create_default_deps(backend, kernel=kernel)
    with pytest.raises(UploadError, match=r"bad\.txt: not uploaded.*No space left") as caught:
        await upload_file(deps, "bad.txt", b"x" * 100)
    assert isinstance(caught.value.__cause__, OSError)
    assert backend.inner.snapshot() == {}
    assert deps.uploads == {}


async def test_what_cannot_be_removed_is_reported(kernel: Kernel) -> None:
    class Gone(Plain):
        async def remove(self, path: str) -> None:
            raise ConnectionError("the environment is gone")

    deps = create_default_deps(Gone(fail_at="bad"), kernel=kernel)
    with pytest.raises(
        UploadError, match=r"No space left.*the partial file /box/uploads/bad\.txt could not be removed"
    ):
        await upload_file(deps, "bad.txt", b"x" * 100)
    assert deps.uploads == {}


async def test_a_full_disk_in_the_middle_of_a_stream_leaves_nothing(
    deps: Deps, root: Path, everything: Everything, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deep_backends import staging

    written = 0

    def write(self: Any, data: bytes) -> None:
        nonlocal written
        written += len(data)
        if written > 2 * PIECE:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(staging.Staged, "write", write)
    with pytest.raises(UploadError, match="No space left"):
        await upload_file(deps, "a.bin", stream(*[b"x" * PIECE] * 5))
    assert everything(root) == []
    assert deps.uploads == {}


async def test_a_read_only_workspace_is_reported(kernel: Kernel, root: Path) -> None:
    deps = create_default_deps(ReadOnlyWorkspace(Workspace(LocalWorkspaceBackend(root))), kernel=kernel)
    with pytest.raises(UploadError, match="read-only"):
        await upload_file(deps, "a.txt", b"x")
    assert deps.uploads == {}
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("pieces", [0, 1, 3])
async def test_a_cancelled_upload_leaves_nothing(deps: Deps, root: Path, everything: Everything, pieces: int) -> None:
    reached = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(pieces):
            yield b"x" * PIECE
        reached.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(upload_file(deps, "a.bin", endless()))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert everything(root) == []
    assert deps.uploads == {}
    assert (await upload_file(deps, "a.bin", b"x")).name == "a.bin"


@pytest.mark.parametrize("way", ["task", "scope"])
async def test_a_thread_of_the_backend_does_not_write_behind_a_cancellation(
    kernel: Kernel, root: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Pydantic AI's local backend writes in a thread, which continues when its upload is cancelled."""
    begun, may_write, ended = threading.Event(), threading.Event(), threading.Event()
    write_bytes = Path.write_bytes

    def held_up(self: Path, data: bytes) -> int:
        begun.set()
        may_write.wait(10)
        try:
            return write_bytes(self, data)
        finally:
            ended.set()

    monkeypatch.setattr(Path, "write_bytes", held_up)
    deps = create_default_deps(LocalWorkspaceBackend(root), kernel=kernel)

    async def upload(scope: anyio.CancelScope) -> None:
        with scope:
            await upload_file(deps, "a.txt", b"x")

    scope = anyio.CancelScope()
    task = asyncio.create_task(upload(scope))
    await asyncio.to_thread(begun.wait, 10)
    if way == "task":
        task.cancel()
    else:
        scope.cancel()
    for _ in range(20):
        await asyncio.to_thread(int)  # the clean-up goes as far as it can, in threads too
    may_write.set()
    await asyncio.wait([task])
    await asyncio.to_thread(ended.wait, 10)
    assert list((root / "uploads").iterdir()) == []
    assert deps.uploads == {}


@pytest.mark.slow
async def test_a_cancellation_at_any_moment_leaves_both_or_neither(kernel: Kernel, root: Path) -> None:
    """Cancel after n turns of the event loop, for every n until the upload ends."""
    for backend in (local_backend(root), memory_backend(), Plain()):
        for turns in range(200):
            deps = create_default_deps(backend, kernel=kernel)
            task = asyncio.create_task(upload_file(deps, f"f{turns}", stream(b"x" * PIECE, b"y")))
            for _ in range(turns):
                await asyncio.sleep(0)
            finished = task.done()
            task.cancel()
            await asyncio.wait([task])
            there = await Workspace(backend).exists(f"uploads/f{turns}")
            assert there == bool(deps.uploads) == (not task.cancelled())
            if finished:
                break
    assert not [path for path in root.rglob("*") if path.name.startswith(".deep-")]


async def test_someone_who_takes_the_name_meanwhile_keeps_the_file(deps: Deps, root: Path) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield b"x" * PIECE
        (root / "uploads/a.bin").write_bytes(b"theirs")
        yield b"y"

    with pytest.raises(UploadError, match=r"another program wrote uploads/a\.bin meanwhile"):
        await upload_file(deps, "a.bin", slow())
    assert (root / "uploads/a.bin").read_bytes() == b"theirs"
    assert [p.name for p in (root / "uploads").iterdir()] == ["a.bin"]
    assert deps.uploads == {}


async def test_a_small_upload_moves_on_to_the_next_name(kernel: Kernel, root: Path) -> None:
    class Raced(LocalBackend):
        async def write_if(self, path: str, data: bytes, *, expected: str | None) -> bool:
            if path.endswith("/a.txt"):
                Path(path).write_bytes(b"theirs")
            return await super().write_if(path, data, expected=expected)

    (root / "uploads").mkdir()
    deps = create_default_deps(Raced(root), kernel=kernel)
    assert (await upload_file(deps, "a.txt", b"ours")).name == "a-2.txt"
    assert (root / "uploads/a.txt").read_bytes() == b"theirs"


async def test_a_kernel_without_the_plugin_takes_no_uploads(local: LocalBackend, root: Path) -> None:
    with (
        Kernel(discover=False, plugins=[deep_backends]) as kernel,
        pytest.raises(UploadError, match="the session's kernel has no plugin uploads"),
    ):
        await upload_file(create_default_deps(local, kernel=kernel), "a", b"x")
    assert list(root.iterdir()) == []


async def test_without_a_backend_the_error_has_the_line_to_add(kernel: Kernel) -> None:
    with pytest.raises(UploadError, match=r"upload_file\(deps, name, data, agent=agent\)"):
        await upload_file(create_default_deps(kernel=kernel), "a", b"x")
