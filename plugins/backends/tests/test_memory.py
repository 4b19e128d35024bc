"""The memory backend: exact bytes, a world of its own, content that can be carried over."""

from __future__ import annotations

import asyncio

import pytest
from deep_backends import memory_backend
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.anyio


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(["a", "b/c", "/d", "/workspace/e"]), st.binary(max_size=200)))
def test_bytes_come_back_exactly_and_carry_over(files: dict[str, bytes]) -> None:
    async def check() -> None:
        backend = memory_backend(files)
        for path, data in files.items():
            place = path if path.startswith("/") else f"/workspace/{path}"
            assert await backend.read_bytes(place) == data
        again = memory_backend(backend.snapshot())
        assert again.snapshot() == backend.snapshot()
        assert again.ref != backend.ref

    asyncio.run(check())


async def test_bytes_that_are_no_text_are_kept() -> None:
    """Defect 8 of the system this grew from: it decoded with replacement characters."""
    data = bytes(range(256)) + b"\xff\xfe\r\n\x00"
    backend = memory_backend()
    await backend.write_bytes("/workspace/binary", data)
    assert await backend.read_bytes("/workspace/binary") == data


async def test_what_was_written_does_not_change_with_the_callers_buffer() -> None:
    backend = memory_backend()
    buffer = bytearray(b"one")
    await backend.write_bytes("/workspace/file", buffer)
    buffer[:] = b"two"
    assert await backend.read_bytes("/workspace/file") == b"one"


async def test_any_absolute_path_is_a_place_and_dot_dot_has_an_end() -> None:
    backend = memory_backend()
    await backend.write_bytes("/uploads/file", b"x")
    assert await backend.read_bytes("/workspace/../../../uploads/./file") == b"x"
    assert await backend.realpath("//uploads/../uploads/file") == "/uploads/file"
    assert [entry.path for entry in await backend.list_dir("/")] == ["/uploads", "/workspace"]
    for path in ("relative", "/a\0b"):
        with pytest.raises(ValueError, match="path"):
            await backend.read_bytes(path)


async def test_a_directory_stays_when_its_last_file_goes() -> None:
    backend = memory_backend({"folder/file": b"x"})
    await backend.remove("/workspace/folder/file")
    assert await backend.list_dir("/workspace/folder") == []
    await backend.remove("/workspace/folder")
    assert not await backend.exists("/workspace/folder")
    await backend.write_bytes("/workspace/folder", b"a file now")
    assert await backend.read_bytes("/workspace/folder") == b"a file now"


async def test_two_backends_share_nothing() -> None:
    one, two = memory_backend(), memory_backend()
    await one.write_bytes("/workspace/file", b"one")
    assert not await two.exists("/workspace/file")
    assert one.ref.provider == two.ref.provider == "deep-memory"
    assert one.ref != two.ref
