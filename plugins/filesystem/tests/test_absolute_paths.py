"""Absolute paths that mean files of the workspace."""

from __future__ import annotations

from pathlib import Path

import pytest
from deep_backends import ConfinementError, composite_backend, local_backend, memory_backend
from pydantic_ai.workspaces import Workspace

from .conftest import Session

pytestmark = pytest.mark.anyio


async def test_a_leading_slash_finds_what_is_below_the_working_directory(session: Session) -> None:
    await session.workspace.write_bytes("uploads/a.csv", b"x,y\n")
    assert await session.ok("read_file", "/uploads/a.csv") == "1\tx,y"
    assert await session.ok("edit_file", "/uploads/a.csv", "x", "z") == "Edited uploads/a.csv: 1 replacement, line 1."
    assert await session.ok("ls", "/uploads") == "a.csv (4 bytes)"
    assert await session.ok("grep", "z", "/uploads") == "uploads/a.csv"
    assert "no-such.csv" in await session.failed("read_file", "/uploads/no-such.csv")


async def test_the_root_is_the_workspace_unless_something_is_mounted_there(
    root: Path, new_session: type[Session]
) -> None:
    (root / "a.txt").write_text("x\n")
    confined = local_backend(root)
    assert await new_session(Workspace(confined)).ok("ls", "/") == "a.txt (2 bytes)"
    assert await new_session(Workspace(confined)).ok("grep", "x", "/") == "a.txt"
    mounted = composite_backend(confined, {"/mnt/notes/": memory_backend()})
    assert "mnt/" in await new_session(Workspace(mounted)).ok("ls", "/")
    assert await new_session(Workspace(mounted)).ok("ls", "/mnt") == "notes/"


async def test_a_path_that_exists_outside_is_not_another_file_inside(root: Path, new_session: type[Session]) -> None:
    (root / "etc").mkdir()
    (root / "etc/passwd").write_text("inside\n")
    confined = new_session(Workspace(local_backend(root)))
    assert await confined.ok("read_file", "/etc/passwd") == "1\tinside"
    (root / "link").symlink_to("/etc")
    assert "outside" in await confined.failed("read_file", "/link/passwd")


async def test_with_a_virtual_root_every_absolute_path_is_the_workspaces(
    root: Path, new_session: type[Session]
) -> None:
    session = new_session(Workspace(local_backend(root, virtual_root=True)))
    assert await session.ok("write_file", "/src/main.py", "print(1)\n") == "Created /src/main.py: 1 line."
    assert (root / "src/main.py").read_text() == "print(1)\n"
    assert await session.ok("edit_file", "src/main.py", "1", "2") == "Edited src/main.py: 1 replacement, line 1."
    assert await session.ok("read_file", f"{root}/src/main.py") == "1\tprint(2)"
    assert await session.ok("ls", "/") == "src/"
    assert await session.ok("glob", "**/*.py", "/") == "/src/main.py"
    assert "no such file" in await session.failed("read_file", "/etc/passwd")
    with pytest.raises(ConfinementError):
        await local_backend(root, virtual_root=True).read_bytes("/../../etc/passwd")
    await session.workspace.remove("/src")
    assert list(root.iterdir()) == []
