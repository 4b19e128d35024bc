"""Files and backends that mean no good: a map is drawn, is bounded, and says what it left out."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from deep_backends import local_backend, memory_backend
from deep_repo_map import parsing, sources
from deep_repo_map.parsing import Parsing
from deep_repo_map.slot import Memory
from pydantic_ai.workspaces import FileEntry, Workspace, WrapperWorkspace

from .conftest import Draw, in_memory

pytestmark = pytest.mark.anyio
GOOD = {"good.py": "def good_function(): pass\n"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.py", b"\0\1\2\xff" * 100),
        ("a.py", bytes(range(1, 256)) * 100),
        ("a.py", b"def x(\n" * 2_000),
        ("a.py", b"x = " + b"[" * 3_000 + b"]" * 3_000),
        ("a.py", b"".join(b" " * depth + b"class C%d:\n" % depth for depth in range(300))),
        ("a.js", b"function f(){" * 2_000),
        ("a.cpp", b"int a(){" * 2_000),
        ("a.rb", b"def a\n" * 2_000),
        ("a.php", b"<?php " + b"function a(){" * 2_000),
        ("a.py", "def é\u202e\u200b\x1b[31m(): pass\n".encode()),
        ("a.py", "def über(): pass\n".encode("cp1252")),
        ("a.py", "def wide(): pass\n".encode("utf-16")),
        ("\u202eyp.a\x1b[31m.py", b"def x(): pass\n"),
        ("a\n 1: def forged(): pass\n.py", b"def x(): pass\n"),
        ("a.py", b""),
        ("a.py", b"\xef\xbb\xbfdef bom(): pass\r\n"),
    ],
)
async def test_every_other_file_is_in_the_map_and_no_character_is_hidden(draw: Draw, name: str, content: bytes) -> None:
    text = await draw(GOOD | {name: content})
    assert " 1: def good_function():" in text.splitlines()
    assert all(char.isprintable() or char == "\n" for char in text.replace("\ufffd", ""))
    assert "forged" not in [line[:20] for line in text.splitlines()]
    assert len(text) <= 4_000


async def test_wide_text_and_marks_of_order_are_read(draw: Draw) -> None:
    text = await draw({"a.py": "def wide(): pass\n".encode("utf-16"), "b.py": b"\xef\xbb\xbfdef bom(): pass\r\n"})
    assert {" 1: def wide():", " 1: def bom():"} < {*text.splitlines()}


async def test_what_is_not_parsed_is_said(draw: Draw) -> None:
    files = {
        "large.py": "x = 1\n" * 10_000,
        "line.js": f"var x = '{'x' * 20_000}'\n",
        "binary.py": b"\0",
    }
    text = await draw(GOOD | files, max_file_bytes=50_000)
    assert text.splitlines()[-1] == "[Not parsed: 2 binary or minified, 1 too large]"
    assert {"large.py", "line.js", "binary.py"} < {*text.splitlines()}
    many = {f"f{number}.py": "def f(): pass\n" for number in range(9)}
    assert "Not parsed: 7 too many" in await draw(many, max_files=2)


class _Unreadable(WrapperWorkspace):
    async def read_bytes(self, path: str) -> bytes:
        if path.endswith("secret.py"):
            raise PermissionError(path)
        return await super().read_bytes(path)


async def test_an_unreadable_file_is_counted(draw: Draw) -> None:
    workspace = _Unreadable(await in_memory(GOOD | {"secret.py": "def hidden(): pass\n"}))
    text = await draw(workspace)
    assert text.endswith("[Not parsed: 1 unreadable]")
    assert "good_function" in text


class _Sizeless(WrapperWorkspace):
    """A backend that knows no size until asked for one file."""

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        entries = await super().list_dir(path)
        return [FileEntry(name=each.name, path=each.path, is_dir=each.is_dir, size=None) for each in entries]


async def test_a_backend_without_sizes_in_its_lists_is_asked_for_each(draw: Draw) -> None:
    workspace = _Sizeless(await in_memory(GOOD | {"large.py": "x = 1\n" * 1_000}))
    text = await draw(workspace, max_file_bytes=1_000)
    assert text.endswith("[Not parsed: 1 too large]")
    assert "good_function" in text


@pytest.fixture
def bad_worker(tmp_path: Path) -> Path:
    """The worker, which ends at a file that says `crash` and never answers one that says `hang`."""
    program = tmp_path / "worker.py"
    program.write_text(
        f"""
import os, sys, time
sys.path.insert(0, {str(parsing.PROGRAM.parent)!r})
import worker
read = worker.Reader.read
def bad(self, source):
    if b"crash" in source:
        os.abort()
    if b"hang" in source:
        time.sleep(1_000)
    return read(self, source)
worker.Reader.read = bad
worker.main()
"""
    )
    return program


async def test_a_file_that_ends_the_parser_costs_itself(bad_worker: Path) -> None:
    async with Parsing(program=bad_worker) as used:
        assert (await used.parse("python", b"crash()")) == parsing.Parsed(note="that the parser gave up")
        good = await used.parse("python", b"def good(): pass")
        assert good is not None
        assert [each.name for each in good.defined] == ["good"]
        for _ in range(parsing.MOST_STARTS - 1):
            await used.parse("python", b"crash()")
        assert await used.parse("python", b"def good(): pass") is None


async def test_a_file_that_blocks_the_parser_is_given_up(bad_worker: Path) -> None:
    async with Parsing(program=bad_worker, file_seconds=0.2) as used:
        blocked = await used.parse("python", b"hang()")
    assert blocked == parsing.Parsed(note="that the parser gave up")


async def test_broken_files_are_not_tried_again(draw: Draw, bad_worker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "Parsing", lambda: Parsing(program=bad_worker))
    files = GOOD | {f"a{number}.py": f"crash({number})" for number in range(parsing.MOST_STARTS + 2)}
    memory, workspace = Memory(), await in_memory(files)
    text = await draw(workspace, memory=memory)
    assert text.endswith("[Not parsed: 3 that followed too many broken ones, 4 that the parser gave up]")
    text = await draw(workspace, memory=memory)
    assert text.endswith("[Not parsed: 6 that the parser gave up]")
    assert "good_function" in text


@pytest.mark.parametrize("how", ["scope", "task"])
@pytest.mark.parametrize("steps", [1, 2, 5, 50])
async def test_a_cancelled_call_leaves_no_process(monkeypatch: pytest.MonkeyPatch, steps: int, how: str) -> None:
    workers: list[parsing.Worker] = []

    class Watched(parsing.Worker):
        def __init__(self, program: Path) -> None:
            super().__init__(program)
            workers.append(self)

    monkeypatch.setattr(parsing, "Worker", Watched)

    async def work() -> None:
        async with Parsing(file_seconds=600) as used:
            for number in range(100_000):
                await used.parse("python", b"x = %d" % number)

    task = asyncio.create_task(_until_cancelled(work, steps) if how == "scope" else work())
    for _ in range(steps):
        await asyncio.sleep(0)
    if how == "task":
        task.cancel()
    await asyncio.wait([task])
    assert workers
    assert all(worker.process is None or worker.process.returncode is not None for worker in workers)


async def _until_cancelled(work: Callable[[], Coroutine[Any, Any, None]], steps: int) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(work)
        for _ in range(steps):
            await anyio.sleep(0)
        group.cancel_scope.cancel()


async def test_without_an_interpreter_files_are_listed(draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    assert "good.py" in (await draw(GOOD)).splitlines()


async def test_the_parser_sees_no_variable_of_this_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    program = tmp_path / "worker.py"
    program.write_text(
        "import json, os, sys\nsys.stdin.buffer.readline(); head = json.loads(sys.stdin.buffer.readline())\n"
        "names = sorted(os.environ)\n"
        "print(json.dumps({'defined': [[name, 1, 0, ''] for name in names], 'used': {}, 'words': []}), flush=True)\n"
    )
    async with Parsing(program=program) as used:
        seen = await used.parse("python", b"")
    assert seen is not None
    assert {each.name for each in seen.defined} <= {"LD_LIBRARY_PATH", "SYSTEMROOT", "LC_CTYPE"}


@pytest.mark.skipif(os.name == "nt", reason="links")
async def test_links_lead_nowhere_outside(draw: Draw, tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    (outside / "key.py").write_text("def stolen_key(): pass\n")
    (root / "good.py").write_text(GOOD["good.py"])
    (root / "link.py").symlink_to(outside / "key.py")
    (root / "folder").symlink_to(outside)
    (root / "loop").symlink_to(root)
    text = await draw(Workspace(local_backend(root)))
    assert "stolen_key" not in text
    assert text.count("good_function") == 1


async def test_an_empty_workspace_is_said(draw: Draw) -> None:
    from pydantic_ai.exceptions import ToolFailed

    with pytest.raises(ToolFailed, match="no files here"):
        await draw(Workspace(memory_backend()))
