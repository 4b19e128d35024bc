"""A guarded write never loses an update: within the process by waiting, against others by looking last."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deep_backends import LocalBackend, MemoryBackend, local_backend, memory_backend
from deep_backends.exchange import exchange

from deep_core import SupportsGuardedWrite

if TYPE_CHECKING:
    from conftest import World

pytestmark = pytest.mark.anyio


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


@pytest.fixture(params=["local", "memory"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> LocalBackend | MemoryBackend:
    return local_backend(tmp_path) if request.param == "local" else memory_backend()


async def test_it_writes_only_over_what_was_expected(backend: LocalBackend | MemoryBackend) -> None:
    assert isinstance(backend, SupportsGuardedWrite)
    path = f"{await backend.working_dir()}/new/file"
    assert not await backend.write_if(path, b"x", expected=digest(b""))
    assert not await backend.exists(os.path.dirname(path))
    assert await backend.write_if(path, b"one", expected=None)
    assert not await backend.write_if(path, b"two", expected=None)
    assert not await backend.write_if(path, b"two", expected=digest(b"other"))
    assert await backend.read_bytes(path) == b"one"
    assert await backend.write_if(path, b"two", expected=digest(b"one").upper())
    assert await backend.read_bytes(path) == b"two"
    await backend.remove(path)
    assert not await backend.write_if(path, b"three", expected=digest(b"two"))
    assert not await backend.exists(path)
    assert [entry.name for entry in await backend.list_dir(os.path.dirname(path))] == []


async def test_a_directory_is_no_content(backend: LocalBackend | MemoryBackend) -> None:
    root = await backend.working_dir()
    assert not await backend.write_if(root, b"x", expected=None)
    with pytest.raises(IsADirectoryError):
        await backend.write_if(root, b"x", expected=digest(b""))


@pytest.mark.parametrize("expected", ["", "abc", "g" * 64, digest(b"") + "0"])
async def test_a_wrong_hash_is_an_error_not_a_mismatch(backend: LocalBackend | MemoryBackend, expected: str) -> None:
    with pytest.raises(ValueError, match="SHA-256"):
        await backend.write_if(f"{await backend.working_dir()}/file", b"x", expected=expected)


@pytest.mark.slow
@pytest.mark.parametrize("padding", [0, 400_000], ids=["small", "large"])
@pytest.mark.parametrize("kind", ["local", "memory"])
def test_no_update_of_many_threads_loops_and_tasks_is_lost(tmp_path: Path, kind: str, padding: int) -> None:
    """Three threads with a loop each, two tasks in every loop, each through a backend of its own, count together."""
    shared = memory_backend()
    rounds = 15 if padding == 0 else 4
    alias = tmp_path / "alias"
    (tmp_path / "root").mkdir()
    alias.symlink_to("root")
    failures: list[BaseException] = []

    def counted(number: int) -> bytes:
        return str(number).encode() + b" " * padding

    async def count(root: Path) -> None:
        backend = local_backend(root) if kind == "local" else shared
        path = f"{await backend.working_dir()}/count"
        done = 0
        while done < rounds:
            data = await backend.read_bytes(path)
            await asyncio.sleep(0)
            done += await backend.write_if(path, counted(int(data) + 1), expected=digest(data))

    async def tasks() -> None:
        await asyncio.gather(count(tmp_path / "root"), count(alias))

    def thread() -> None:
        try:
            asyncio.run(tasks())
        except BaseException as error:
            failures.append(error)

    async def final(data: bytes | None = None) -> bytes:
        backend = local_backend(tmp_path / "root") if kind == "local" else shared
        path = f"{await backend.working_dir()}/count"
        if data is not None:
            await backend.write_bytes(path, data)
        return await backend.read_bytes(path)

    asyncio.run(final(counted(0)))
    threads = [threading.Thread(target=thread) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert failures == []
    assert int(asyncio.run(final())) == 3 * 2 * rounds


def test_one_of_many_creators_wins(tmp_path: Path) -> None:
    async def create() -> int:
        backend = local_backend(tmp_path)
        path = f"{await backend.working_dir()}/file"
        return sum(await asyncio.gather(*(backend.write_if(path, b"x", expected=None) for _ in range(5))))

    won: list[int] = []
    threads = [threading.Thread(target=lambda: won.append(asyncio.run(create()))) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sum(won) == 1
    assert os.listdir(tmp_path) == ["file"]


def foreign_write(path: str, text: str, times: int = 1) -> None:
    """Another process writes, and has ended when this returns."""
    script = "import sys; open(sys.argv[1], 'w').write(sys.argv[2] * int(sys.argv[3]))"
    subprocess.run([sys.executable, "-c", script, path, text, str(times)], check=True)


@pytest.mark.parametrize("size", [10, 500_000])
async def test_a_foreign_write_up_to_the_last_check_is_kept(world: World, size: int) -> None:
    class Disturbed(LocalBackend):
        def _before_check(self, path: str) -> None:
            foreign_write(path, "foreign", size)

    path = world.root / "file"
    path.write_bytes(b"seen" * size)
    assert not await Disturbed(world.root).write_if(str(path), b"ours" * size, expected=digest(b"seen" * size))
    assert path.read_bytes() == b"foreign" * size
    assert sorted(os.listdir(world.root)) == ["deep", "file", "inside.txt"]


@pytest.mark.parametrize("kind", ["fifo", "link", "directory", "nothing"])
async def test_what_is_no_regular_file_any_more_is_a_mismatch(world: World, kind: str) -> None:
    copy = world.base / "copy"
    copy.write_bytes(b"seen")
    put = {"fifo": os.mkfifo, "link": lambda path: os.symlink(copy, path), "directory": os.mkdir, "nothing": str}[kind]

    class Disturbed(LocalBackend):
        def _before_check(self, path: str) -> None:
            os.unlink(path)
            put(path)

    path = world.root / "file"
    path.write_bytes(b"seen")
    assert not await Disturbed(world.root).write_if(str(path), b"ours", expected=digest(b"seen"))
    assert copy.read_bytes() == b"seen"
    assert path.is_file() == (kind == "link")
    assert len(os.listdir(world.root)) == (2 if kind == "nothing" else 3)


async def test_creating_has_no_moment_for_a_foreign_process(world: World) -> None:
    class Disturbed(LocalBackend):
        def _before_replace(self, path: str) -> None:
            foreign_write(path, "foreign")

    path = world.root / "new"
    assert not await Disturbed(world.root).write_if(str(path), b"ours", expected=None)
    assert path.read_bytes() == b"foreign"


async def test_creating_without_hard_links_is_exclusive_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*args: object, **kwargs: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", unsupported)
    path = f"{world.root}/new"
    assert await world.backend.write_if(path, b"ours", expected=None)
    assert not await world.backend.write_if(path, b"again", expected=None)
    assert (world.root / "new").read_bytes() == b"ours"
    assert sorted(os.listdir(world.root)) == ["deep", "inside.txt", "new"]


def write_in_place(path: Path) -> None:
    path.write_bytes(b"foreign")


def rename_over(path: Path) -> None:
    other = path.with_name("editor.tmp")
    other.write_bytes(b"foreign")
    other.rename(path)


@pytest.mark.skipif(sys.platform != "linux", reason="renameat2 is Linux")
@pytest.mark.parametrize("editor", [write_in_place, rename_over])
async def test_what_a_foreign_process_writes_after_the_last_check_is_kept(
    world: World, editor: Callable[[Path], None]
) -> None:
    class Edited(LocalBackend):
        def _before_replace(self, path: str) -> None:
            editor(Path(path))

    path = world.root / "inside.txt"
    assert not await Edited(world.root).write_if(str(path), b"ours", expected=digest(b"inside"))
    assert path.read_bytes() == b"foreign"
    assert sorted(os.listdir(world.root)) == ["deep", "inside.txt"]


@pytest.mark.skipif(sys.platform != "linux", reason="renameat2 is Linux")
@pytest.mark.parametrize("then", ["replaced", "removed"])
async def test_the_newest_content_stays_whatever_happens_between(
    world: World, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    path = world.root / "inside.txt"

    class Edited(LocalBackend):
        def _before_replace(self, path: str) -> None:
            rename_over(Path(path))

    def exchange_and_edit(directory: int, one: str, other: str) -> bool:
        done = exchange(directory, one, other)
        if then == "removed":
            path.unlink()
        else:
            (world.root / "newest").write_bytes(b"newest")
            (world.root / "newest").rename(path)
        return done

    monkeypatch.setattr("deep_backends.staging.exchange", exchange_and_edit)
    assert not await Edited(world.root).write_if(str(path), b"ours", expected=digest(b"inside"))
    assert path.read_bytes() == (b"foreign" if then == "removed" else b"newest")
    assert sorted(os.listdir(world.root)) == ["deep", "inside.txt"]


async def test_where_names_cannot_be_exchanged_the_rename_comes_right_after_the_check(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The documented rest: what another process writes in this moment is not noticed when replacing."""
    monkeypatch.setattr("deep_backends.staging.exchange", lambda *_: False)
    seen: list[bytes] = []

    class Watched(LocalBackend):
        def _before_replace(self, path: str) -> None:
            seen.append(Path(path).read_bytes())
            foreign_write(path, "foreign")

    path = world.root / "inside.txt"
    assert await Watched(world.root).write_if(str(path), b"ours", expected=digest(b"inside"))
    assert seen == [b"inside"]
    assert path.read_bytes() == b"ours"


def test_a_forked_child_does_not_wait_for_its_parents_writers() -> None:
    script = """
import asyncio, os, sys
from deep_backends.exclusive import Exclusive

async def main():
    async with Exclusive((1, 2, "file")):
        pid = os.fork()
        if pid == 0:
            os._exit(0 if Exclusive((1, 2, "file"))._take() else 1)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

sys.exit(asyncio.run(main()))
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
