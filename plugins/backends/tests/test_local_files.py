"""What the local backend promises of single files: atomic, through links, modes kept, big ones off the event loop."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import stat
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import pytest
from deep_backends import (
    FileTooLargeError,
    LocalBackend,
    local_backend,
)
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart
from pydantic_ai.workspaces import WorkspaceUnavailableError

from deep_core import SupportsGuardedWrite, SupportsRangeRead, SupportsStreamWrite

if TYPE_CHECKING:
    from conftest import World

pytestmark = pytest.mark.anyio

BIG = 5 * 1024 * 1024


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


async def test_the_optional_protocols_are_there(world: World) -> None:
    assert isinstance(world.backend, SupportsRangeRead)
    assert isinstance(world.backend, SupportsStreamWrite)
    assert isinstance(world.backend, SupportsGuardedWrite)


async def test_building_one_does_no_io(tmp_path: Path) -> None:
    backend = local_backend(tmp_path / "later")
    with pytest.raises(WorkspaceUnavailableError, match="later"):
        await backend.working_dir()
    (tmp_path / "later").mkdir()
    assert await backend.working_dir() == os.path.realpath(tmp_path / "later")


async def test_a_root_that_goes_makes_every_operation_unavailable(world: World) -> None:
    await world.backend.working_dir()
    os.rename(world.root, world.base / "gone")
    for operation in (world.backend.read_bytes, world.backend.list_dir, world.backend.remove, world.backend.exists):
        with pytest.raises(WorkspaceUnavailableError):
            await operation(f"{world.root}/inside.txt")
    os.symlink(world.outside, world.root)
    with pytest.raises(WorkspaceUnavailableError):
        await world.backend.read_bytes(f"{world.root}/secret.txt")


async def test_a_ref_is_not_taken_for_an_unconfined_workspaces(world: World) -> None:
    assert (world.backend.ref.provider, world.backend.ref.id) == ("deep-local", str(world.root))


@pytest.mark.parametrize("size", [0, 1, BIG])
async def test_a_write_replaces_the_file_and_leaves_nothing_beside_it(world: World, size: int) -> None:
    path = world.root / "file"
    path.write_bytes(b"old")
    old = path.stat().st_ino
    data = os.urandom(size)
    await world.backend.write_bytes(str(path), data)
    assert path.read_bytes() == data
    assert path.stat().st_ino != old  # replaced, not rewritten: a reader of the old file keeps the old file
    assert await world.backend.read_bytes(str(path)) == data
    assert names(world.root) == ["deep", "file", "inside.txt"]


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o640])
async def test_a_write_keeps_the_mode(world: World, mode: int) -> None:
    path = world.root / "script"
    path.write_bytes(b"old")
    path.chmod(mode)
    await world.backend.write_bytes(str(path), b"new")
    assert stat.S_IMODE(path.stat().st_mode) == mode


async def test_a_new_file_gets_the_usual_mode(world: World) -> None:
    (world.root / "plain").write_bytes(b"")
    await world.backend.write_bytes(f"{world.root}/new", b"")
    assert (world.root / "new").stat().st_mode == (world.root / "plain").stat().st_mode


async def test_a_write_goes_through_a_link_and_the_link_stays(world: World) -> None:
    link = world.root / "deep" / "link"
    link.symlink_to("../inside.txt")
    await world.backend.write_bytes(str(link), b"new")
    assert link.is_symlink()
    assert (world.root / "inside.txt").read_bytes() == b"new"
    dangling = world.root / "dangling"
    dangling.symlink_to("not/yet/there.txt")
    await world.backend.write_bytes(str(dangling), b"made")
    assert (world.root / "not" / "yet" / "there.txt").read_bytes() == b"made"


async def test_a_failed_write_leaves_the_old_file_and_nothing_else(world: World) -> None:
    class Failing(LocalBackend):
        def _before_replace(self, path: str) -> None:
            raise OSError("disk on fire")

    backend = Failing(world.root)
    for path in ("inside.txt", "new.txt", "some/new/directory/file.txt"):
        with pytest.raises(OSError, match="disk on fire"):
            await backend.write_bytes(f"{world.root}/{path}", b"x")
    assert (world.root / "inside.txt").read_bytes() == b"inside"
    assert names(world.root) == ["deep", "inside.txt"]


async def test_errors_name_the_callers_path(world: World) -> None:
    path = f"{world.root}/deep/absent/file.txt"
    with pytest.raises(FileNotFoundError) as missing:
        await world.backend.read_bytes(path)
    assert str(missing.value) == f"[Errno 2] No such file or directory: {path!r}"


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has no file names that are not UTF-8")
async def test_messages_of_a_root_whose_name_is_no_text_are_json(tmp_path: Path) -> None:
    root = os.path.join(tmp_path, "gr\udcfc\udcdfe")
    os.mkdir(root)
    backend = local_backend(root)
    assert await backend.working_dir() == root
    said = ModelResponse(parts=[TextPart("hi")], workspace_ref=backend.ref)
    text = ModelMessagesTypeAdapter.dump_json([said])
    assert ModelMessagesTypeAdapter.validate_json(text) == [said]


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has no file names that are not UTF-8")
async def test_names_that_are_no_text_are_kept(world: World) -> None:
    with open(os.fsencode(world.root) + b"/\xff.txt", "wb") as file:
        file.write(b"x")
    (entry,) = [entry for entry in await world.backend.list_dir(str(world.root)) if entry.name.startswith("\udcff")]
    assert await world.backend.read_bytes(entry.path) == b"x"
    await world.backend.remove(entry.path)
    assert names(world.root) == ["deep", "inside.txt"]


def special_files(root: Path) -> list[str]:
    os.mkfifo(root / "fifo")
    made = ["fifo"]
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(root)  # a socket's path may have no more than about 100 bytes
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
        made.append("socket")
    if os.geteuid() == 0:
        os.mknod(root / "device", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        made.append("device")
    return made


async def test_special_files_are_refused_not_waited_for(world: World) -> None:
    for name in special_files(world.root):
        (world.root / f"link-to-{name}").symlink_to(name)
        for path in (f"{world.root}/{name}", f"{world.root}/link-to-{name}"):
            with anyio.fail_after(30):
                with pytest.raises(OSError, match="not a regular file"):
                    await world.backend.read_bytes(path)
                with pytest.raises(OSError, match="not a regular file"):
                    await world.backend.read_range(path, 0, 1)
                with pytest.raises(OSError, match="not a regular file"):
                    await world.backend.write_bytes(path, b"x")
            entry = await world.backend.stat(path)
            assert (entry.is_dir, entry.size) == (False, None)


async def test_a_file_above_the_limit_is_refused_and_read_by_range(world: World) -> None:
    backend = local_backend(world.root, max_read_bytes=1000)
    (world.root / "big").write_bytes(b"x" * 1001)
    with pytest.raises(FileTooLargeError, match="read_range") as refused:
        await backend.read_bytes(f"{world.root}/big")
    assert (refused.value.size, refused.value.limit) == (1001, 1000)
    assert await backend.read_range(f"{world.root}/big", 990, 100) == b"x" * 11
    (world.root / "big").write_bytes(b"x" * 1000)
    assert len(await backend.read_bytes(f"{world.root}/big")) == 1000


async def test_a_range_of_a_huge_file_costs_the_range(world: World) -> None:
    with (world.root / "huge").open("wb") as file:
        file.seek(10**12)  # a sparse terabyte: reading it whole would not end
        file.write(b"end")
    assert await world.backend.read_range(f"{world.root}/huge", 10**12 - 2, 100) == b"\0\0end"
    assert await world.backend.read_range(f"{world.root}/huge", 10**12 + 3, 100) == b""
    assert await world.backend.read_range(f"{world.root}/huge", 10**13, 100) == b""
    with pytest.raises(FileTooLargeError):
        await world.backend.read_bytes(f"{world.root}/huge")


async def test_reading_small_files_never_leaves_the_event_loop(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hop(*args: object, **kwargs: object) -> None:
        raise AssertionError("a small operation hopped to a thread")

    path = f"{world.root}/small.txt"
    await world.backend.write_bytes(path, b"x" * 100_000)
    monkeypatch.setattr(anyio.to_thread, "run_sync", hop)
    assert len(await world.backend.read_bytes(path)) == 100_000
    assert await world.backend.read_range(path, 5, 10) == b"x" * 10
    assert [entry.name for entry in await world.backend.list_dir(str(world.root))] == [
        "deep",
        "inside.txt",
        "small.txt",
    ]
    assert (await world.backend.stat(path)).size == 100_000
    await world.backend.remove(path)


async def test_waiting_for_the_disk_never_holds_the_event_loop(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        threads.append(threading.get_ident())
        fsync(descriptor)

    async def chunks() -> AsyncIterator[bytes]:
        yield b"z"

    monkeypatch.setattr(os, "fsync", noted)
    path = f"{world.root}/small.txt"
    await world.backend.write_bytes(path, b"x")
    assert await world.backend.write_if(path, b"y", expected=hashlib.sha256(b"x").hexdigest())
    assert await world.backend.write_stream(path, chunks()) == 1
    assert len(threads) == 3
    assert threading.get_ident() not in threads


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["read", "range", "write", "stream", "guarded", "list", "remove"])
async def test_large_work_does_not_hold_the_event_loop(
    world: World, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker's first step waits for the event loop to move; work in the loop itself would never be let go."""
    path = world.root / "big"
    path.write_bytes(b"x" * BIG)
    crowd = world.root / "crowd"
    crowd.mkdir()
    for number in range(1500):
        (crowd / f"{number:04}").touch()
    moved = anyio.Event()
    loop = asyncio.get_running_loop()
    run_sync = anyio.to_thread.run_sync
    hops = 0

    async def slow(work, *args, **kwargs):
        def wait_for_the_loop() -> object:
            asyncio.run_coroutine_threadsafe(moved.wait(), loop).result(timeout=30)
            return work()

        nonlocal hops
        hops += 1
        return await run_sync(wait_for_the_loop)

    monkeypatch.setattr(anyio.to_thread, "run_sync", slow)

    async def stream() -> AsyncIterator[bytes]:
        for _ in range(BIG // 65536):
            yield b"y" * 65536

    async def work() -> None:
        match operation:
            case "read":
                assert len(await world.backend.read_bytes(str(path))) == BIG
            case "range":
                assert len(await world.backend.read_range(str(path), 0, BIG)) == BIG
            case "write":
                await world.backend.write_bytes(str(path), b"y" * BIG)
            case "stream":
                assert await world.backend.write_stream(str(path), stream()) == BIG
            case "guarded":
                digest = hashlib.sha256(b"x" * BIG).hexdigest()
                assert await world.backend.write_if(str(path), b"y", expected=digest)
            case "list":
                entries = await world.backend.list_dir(str(crowd))
                assert [entry.name for entry in entries] == [f"{number:04}" for number in range(1500)]
            case _:
                await world.backend.remove(str(crowd))

    async with anyio.create_task_group() as group:
        group.start_soon(work)
        group.start_soon(anyio.sleep, 0)
        await anyio.sleep(0)
        moved.set()
    assert hops > 0
