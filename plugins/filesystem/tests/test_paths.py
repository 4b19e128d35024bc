"""A path that does not exist is answered with the one that is meant; nothing vanishes from an answer in silence."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from deep_backends import local_backend
from deep_filesystem import host
from pydantic_ai.workspaces import Workspace

from plugins.filesystem.tests.conftest import Session

pytestmark = pytest.mark.anyio
NFC, NFD = "caf\u00e9.txt", unicodedata.normalize("NFD", "caf\u00e9.txt")


@pytest.fixture
def project(root: Path) -> Path:
    (root / "src/deep").mkdir(parents=True)
    for name in ("src/App.tsx", "src/deep/only_here.py", "README.md"):
        (root / name).write_text("x\n")
    return root


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("src\\App.tsx", "src/App.tsx"),
        ("@src/App.tsx", "src/App.tsx"),
        ("@src\\App.tsx", "src/App.tsx"),
        ("App.tsx", "src/App.tsx"),
        ("only_here.py", "src/deep/only_here.py"),
        ("lib/only_here.py", "src/deep/only_here.py"),
        ("src/app.TSX", "src/App.tsx"),
        ("readme.MD", "README.md"),
        ("src/Ap.tsx", "src/App.tsx"),
    ],
)
async def test_a_missing_path_is_answered_with_the_one_that_is_meant(project: Path, path: str, meant: str) -> None:
    session = Session(Workspace(local_backend(project)))
    assert f"Did you mean {meant}" in await session.failed("read_file", path)


@pytest.mark.parametrize("path", ["src\\new.tsx", "@src/new.tsx"])
async def test_no_file_is_made_under_a_path_of_an_editor(project: Path, path: str) -> None:
    session = Session(Workspace(local_backend(project)))
    assert "did you mean src/new.tsx?" in await session.failed("write_file", path, "x")
    assert sorted(os.listdir(project)) == ["README.md", "src"]


async def test_a_name_with_such_characters_is_written(project: Path) -> None:
    session = Session(Workspace(local_backend(project)))
    (project / "@scope").mkdir()
    for path in ("@scope/a.txt", "@top.txt", "new/a.txt"):
        assert (await session.ok("write_file", path, "x")).startswith("Created")


@pytest.mark.parametrize(("there", "asked"), [(NFC, NFD), (NFD, NFC)])
async def test_both_forms_of_an_accent_name_the_file(root: Path, there: str, asked: str) -> None:
    folder = there.removesuffix(".txt")
    (root / folder).mkdir()
    (root / folder / there).write_text("old\n")
    session = Session(Workspace(local_backend(root)))
    asked = f"{asked.removesuffix('.txt')}/{asked}"
    assert "old" in await session.ok("read_file", asked)
    await session.ok("write_file", asked, "new\n")
    assert [path.read_text() for path in root.rglob("*.txt")] == ["new\n"]


@pytest.mark.parametrize("with_ripgrep", [pytest.param(True, marks=pytest.mark.needs("ripgrep")), False])
@pytest.mark.parametrize("few", [1_000, 0])
async def test_what_was_not_searched_is_said(
    root: Path, monkeypatch: pytest.MonkeyPatch, with_ripgrep: bool, few: int
) -> None:
    from deep_filesystem.ripgrep import beside

    monkeypatch.setattr(beside, "FEW_FILES", few)
    (root / "open.txt").write_text("hay\n")
    (root / "data.bin").write_bytes(b"needle\0")
    (root / "link.txt").symlink_to("open.txt")
    (root / "folder").mkdir()
    (root / "linked").symlink_to("folder")
    (root / os.fsdecode(b"caf\xe9.txt")).write_text("needle\n")
    session = Session(Workspace(local_backend(root)), ripgrep=with_ripgrep)
    said = (await session.ok("grep", "needle")).splitlines()
    assert said[-1] == (
        "[Not searched: 1 with a name that is not UTF-8 (caf\\udce9.txt); 1 linked folder; 1 link; 1 binary file]"
    )
    listed = (await session.ok("glob", "**/*.txt")).splitlines()
    assert listed[-1] == "[Not listed: 1 with a name that is not UTF-8 (caf\\udce9.txt); 1 linked folder]"
    assert (await session.ok("read_file", "caf\\udce9.txt")).startswith("1\tneedle")


async def test_a_folder_that_cannot_be_read_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "closed").mkdir()
    (root / "a.txt").write_text("hay\n")
    opened = host.os.open

    def refuse(path: Any, *args: Any, **kwargs: Any) -> int:
        if path == "closed":
            raise PermissionError(13, "Permission denied")
        return opened(path, *args, **kwargs)

    monkeypatch.setattr(host.os, "open", refuse)
    session = Session(Workspace(local_backend(root)))
    assert "[Not searched: 1 unreadable (closed)]" in await session.ok("grep", "needle")
    assert "[Not listed: 1 unreadable (closed)]" in await session.ok("glob", "**/*.txt")
