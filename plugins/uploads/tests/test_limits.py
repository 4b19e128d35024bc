"""Limits apply to stored uploads, to uploads in progress, and to streams that turn out too large."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from deep_backends import LocalBackend, composite_backend, local_backend, memory_backend
from deep_uploads import UploadedFile, UploadLimitError, upload_file
from deep_uploads.sources import PIECE
from pydantic_ai.workspaces import Workspace

from deep_core import ConfigError, DeepAgentDeps

pytestmark = pytest.mark.anyio
Deps = DeepAgentDeps[None]
Everything = Callable[[Path], list[str]]
Limited = Callable[..., Deps]


async def stream(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


@pytest.mark.parametrize("way", ["bytes", "path", "stream", "large stream"])
async def test_a_file_above_the_limit_is_refused(
    limited: Limited, root: Path, tmp_path: Path, way: str, everything: Everything
) -> None:
    most = 3 * PIECE if way == "large stream" else 100
    deps = limited(local_backend(root), max_file_bytes=most)
    (tmp_path / "source").write_bytes(b"x" * 101)
    source: Any = {
        "bytes": b"x" * 101,
        "path": tmp_path / "source",
        "stream": stream(b"x" * 50, b"x" * 51),
        "large stream": stream(*[b"x" * PIECE] * 4),
    }[way]
    with pytest.raises(UploadLimitError, match=r"big\.txt: .* is too large: a file may have") as caught:
        await upload_file(deps, "big.txt", source)
    assert (caught.value.option, caught.value.allowed) == ("max_file_bytes", most)
    assert everything(root) == []
    assert deps.uploads == {}
    assert (await upload_file(deps, "ok.txt", b"x" * 100)).size == 100


async def test_the_number_of_uploads_is_limited_and_can_be_made_room_in(limited: Limited, root: Path) -> None:
    deps = limited(local_backend(root), max_files=2)
    for name in "ab":
        await upload_file(deps, name, b"x")
    with pytest.raises(UploadLimitError, match=r"c: .* the maximum of 2 uploads; .*del deps\.uploads\[path\]"):
        await upload_file(deps, "c", b"x")
    del deps.uploads["uploads/a"]
    await upload_file(deps, "c", b"x")
    assert list(deps.uploads) == ["uploads/b", "uploads/c"]


async def test_the_bytes_of_a_session_are_limited(limited: Limited, root: Path) -> None:
    deps = limited(local_backend(root), max_total_bytes=100)
    await upload_file(deps, "a", b"x" * 60)
    for data in (b"x" * 41, stream(b"x" * 20, b"x" * 21)):
        with pytest.raises(UploadLimitError, match="60 B are used, and a session may have 100 B") as caught:
            await upload_file(deps, "b", data)
        assert caught.value.option == "max_total_bytes"
    await upload_file(deps, "b", b"x" * 40)
    assert sorted(p.name for p in (root / "uploads").iterdir()) == ["a", "b"]


async def test_uploads_on_their_way_count_too(limited: Limited, root: Path) -> None:
    deps = limited(local_backend(root), max_total_bytes=100, max_files=3)
    go = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b"x" * PIECE
        await go.wait()

    deps2 = limited(local_backend(root), max_total_bytes=PIECE + 100, max_files=2)
    waiting = asyncio.create_task(upload_file(deps2, "slow", slow()))
    while not any(root.rglob(".deep-*")):
        await asyncio.sleep(0)
    with pytest.raises(UploadLimitError, match=r"1\.0 MB are used"):
        await upload_file(deps2, "b", b"x" * 101)
    await upload_file(deps2, "b", b"x" * 100)
    with pytest.raises(UploadLimitError, match="max_files"):
        await upload_file(deps2, "c", b"")
    await upload_file(deps, "another session", b"x" * 100)
    go.set()
    assert (await waiting).size == PIECE


async def test_many_at_once_never_exceed_the_limits(limited: Limited, root: Path) -> None:
    deps = limited(local_backend(root), max_total_bytes=1000, max_files=7)
    jobs = [upload_file(deps, f"f{n}", stream(b"x" * 100, b"y" * 100)) for n in range(20)]
    done = await asyncio.gather(*jobs, return_exceptions=True)
    kept = [item for item in done if isinstance(item, UploadedFile)]
    assert all(isinstance(item, UploadLimitError) for item in done if item not in kept)
    assert len(kept) == len(deps.uploads) == len(list((root / "uploads").iterdir())) == 5


async def test_a_backend_that_cannot_stream_takes_so_much_and_no_more(limited: Limited, root: Path) -> None:
    # Behind Pydantic AI's facade a backend has the standard operations only.
    whole = Workspace(local_backend(root))
    for backend, name in ((whole, "LocalBackend"), (memory_backend(), "MemoryBackend")):
        deps = limited(backend, whole_bytes=2 * PIECE)
        read = 0
        closed = False

        async def much() -> AsyncIterator[bytes]:
            nonlocal read, closed
            try:
                for _ in range(100):
                    read += 1
                    yield b"x" * PIECE
            finally:
                closed = True

        assert (await upload_file(deps, "ok", b"x" * 2 * PIECE)).size == 2 * PIECE
        for data in (b"x" * (2 * PIECE + 1), much()):
            with pytest.raises(UploadLimitError, match=f"{name} does not stream to disk.* 2.0 MB") as caught:
                await upload_file(deps, "big", data)
            assert caught.value.option == "whole_bytes"
        assert read == 3, "refused at the first piece too many"
        assert closed, "the caller's generator is closed at once, not when it is collected"
        assert list(deps.uploads) == ["uploads/ok"]


async def test_a_composite_streams_where_the_backend_behind_the_path_does(limited: Limited, root: Path) -> None:
    deps = limited(composite_backend(memory_backend(), {"disk/": local_backend(root)}), whole_bytes=PIECE)
    data = b"x" * (2 * PIECE)
    with pytest.raises(UploadLimitError, match="whole_bytes"):
        await upload_file(deps, "a", data)
    assert (await upload_file(deps, "a", data, upload_dir="/disk/in")).path == "disk/in/a"
    assert (root / "in/a").read_bytes() == data


async def test_a_wrong_option_in_the_configuration_is_reported(limited: Limited, local: LocalBackend) -> None:
    with pytest.raises(ConfigError, match=r"plugins\.uploads\.options\.max_files: "):
        await upload_file(limited(local, max_files="many"), "a", b"x")
