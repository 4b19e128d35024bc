"""Streams are written whole or not at all; ranges add up to the file."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import pytest
from deep_backends import (
    CompositeBackend,
    LocalBackend,
    MemoryBackend,
    composite_backend,
    local_backend,
    memory_backend,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from deep_core import SupportsRangeRead
from tests.drawn import examples

if TYPE_CHECKING:
    from conftest import World

pytestmark = pytest.mark.anyio

BLOCK = b"0123456789abcdef" * 16384  # 256 KiB


def names(world: World) -> list[str]:
    return sorted(os.listdir(world.root))


@given(content=st.binary(max_size=2000), cuts=st.lists(st.integers(1, 700), min_size=1, max_size=8))
@settings(max_examples=examples(60))
def test_adjoining_ranges_are_the_content(content: bytes, cuts: list[int]) -> None:
    async def check(backend: LocalBackend | MemoryBackend | CompositeBackend, path: str) -> None:
        assert isinstance(backend, SupportsRangeRead)
        await backend.write_bytes(path, content)
        joined, start, turn = b"", 0, 0
        while True:
            length = cuts[turn % len(cuts)]
            block = await backend.read_range(path, start, length)
            assert block == content[start : start + length]
            if not block:
                break
            joined, start, turn = joined + block, start + len(block), turn + 1
        assert joined == content
        assert await backend.read_range(path, 0, len(content) + 1000) == content
        assert await backend.read_range(path, len(content), 10) == b""
        assert await backend.read_range(path, 0, 0) == b""

    async def main() -> None:
        with tempfile.TemporaryDirectory() as root:
            local = local_backend(root)
            await check(local, f"{await local.working_dir()}/file")
            await check(memory_backend(), "/workspace/file")
            await check(composite_backend(memory_backend(), {"/project": local}), "/project/routed")

    asyncio.run(main())


@pytest.mark.parametrize(("start", "length"), [(-1, 5), (0, -1)])
async def test_a_negative_range_is_a_value_error(world: World, start: int, length: int) -> None:
    for backend, path in ((world.backend, f"{world.root}/inside.txt"), (memory_backend({"f": b"x"}), "/workspace/f")):
        with pytest.raises(ValueError, match="negative"):
            await backend.read_range(path, start, length)


@pytest.mark.parametrize("sizes", [[], [0], [5], [100, 0, 200], [300_000], [262_144, 1], [100_000] * 9])
async def test_a_stream_is_the_file(world: World, sizes: list[int]) -> None:
    blocks = [os.urandom(size) for size in sizes]

    async def chunks() -> AsyncIterator[bytes]:
        for block in blocks:
            yield block

    memory = memory_backend()
    for backend, path in ((world.backend, f"{world.root}/new/file"), (memory, "/workspace/new/file")):
        assert await backend.write_stream(path, chunks()) == sum(sizes)
        assert await backend.read_bytes(path) == b"".join(blocks)
    assert os.listdir(world.root / "new") == ["file"]


@pytest.mark.parametrize("blocks", [0, 1, 5])
@pytest.mark.parametrize("name", ["inside.txt", "new.txt", "made/for/it.txt"])
async def test_a_stream_that_fails_was_never_there(world: World, name: str, blocks: int) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(blocks):
            yield BLOCK
        raise ConnectionError("the upload broke off")

    with pytest.raises(ConnectionError):
        await world.backend.write_stream(f"{world.root}/{name}", chunks())
    assert names(world) == ["deep", "inside.txt"]
    assert (world.root / "inside.txt").read_bytes() == b"inside"


@pytest.mark.parametrize("way", ["task", "scope"])
@pytest.mark.parametrize("name", ["inside.txt", "made/for/it.txt"])
async def test_a_cancelled_stream_was_never_there(world: World, name: str, way: str) -> None:
    waiting = anyio.Event()

    async def chunks() -> AsyncIterator[bytes]:
        yield BLOCK
        yield BLOCK
        waiting.set()
        await anyio.sleep_forever()

    async def write() -> None:
        await world.backend.write_stream(f"{world.root}/{name}", chunks())

    if way == "task":
        task = asyncio.ensure_future(write())
        with anyio.fail_after(30):
            await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        async with anyio.create_task_group() as group:
            group.start_soon(write)
            with anyio.fail_after(30):
                await waiting.wait()
            group.cancel_scope.cancel()
    assert names(world) == ["deep", "inside.txt"]
    assert (world.root / "inside.txt").read_bytes() == b"inside"


@pytest.mark.parametrize("way", ["task", "scope"])
@pytest.mark.parametrize("at", [1, 2, 3])
async def test_a_stream_cancelled_while_a_thread_writes_waits_for_it(
    world: World, way: str, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancelled during the first or second block or the final fsync: the thread ends before its file is closed."""
    run_sync = anyio.to_thread.run_sync
    writing = anyio.Event()
    goes_on = anyio.Event()
    loop = asyncio.get_running_loop()
    calls = 0
    ended: list[object] = []

    async def slow(work, *args, **kwargs):
        nonlocal calls
        calls += 1
        if calls != at:
            return await run_sync(work)

        def in_thread() -> None:
            loop.call_soon_threadsafe(writing.set)
            asyncio.run_coroutine_threadsafe(goes_on.wait(), loop).result(timeout=30)
            work()
            ended.append("well")

        return await run_sync(in_thread)

    monkeypatch.setattr(anyio.to_thread, "run_sync", slow)

    async def chunks() -> AsyncIterator[bytes]:
        yield BLOCK + b"x"
        yield BLOCK + b"x"

    async def write() -> None:
        await world.backend.write_stream(f"{world.root}/inside.txt", chunks())

    async def release() -> None:
        for _ in range(10):
            await anyio.sleep(0)
        goes_on.set()

    async with anyio.create_task_group() as group:
        if way == "task":
            task = asyncio.ensure_future(write())
            with anyio.fail_after(30):
                await writing.wait()
            task.cancel()
            group.start_soon(release)
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            scope = anyio.CancelScope()

            async def scoped() -> None:
                with scope:
                    await write()

            group.start_soon(scoped)
            with anyio.fail_after(30):
                await writing.wait()
            scope.cancel()
            group.start_soon(release)
    assert ended == ["well"]
    assert names(world) == ["deep", "inside.txt"]
    assert (world.root / "inside.txt").read_bytes() == b"inside"


async def test_a_reader_sees_the_old_file_until_the_new_one_is_whole(world: World) -> None:
    path = f"{world.root}/inside.txt"
    seen: list[bytes] = []

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield BLOCK
            seen.append(await world.backend.read_bytes(path))

    assert await world.backend.write_stream(path, chunks()) == 4 * len(BLOCK)
    assert seen == [b"inside"] * 4
    assert await world.backend.read_bytes(path) == BLOCK * 4


async def test_a_stream_is_not_kept_in_memory(world: World) -> None:
    """200 blocks pass through; of what the writer holds at any time, two blocks are the most."""
    import tracemalloc

    async def chunks() -> AsyncIterator[bytes]:
        for number in range(200):
            yield bytes([number]) * len(BLOCK)

    tracemalloc.start()
    try:
        await world.backend.write_stream(f"{world.root}/big", chunks())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (world.root / "big").stat().st_size == 200 * len(BLOCK)
    assert peak < 10 * len(BLOCK)
