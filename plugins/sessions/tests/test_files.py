"""Files that go back with a rewind, and into another folder with a fork."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from deep_sessions import (
    AgentError,
    Commit,
    FileHistory,
    MemoryStore,
    NewEntry,
    SessionBusy,
    fork,
    restore_files,
    rewind,
    save_files,
)

pytestmark = [pytest.mark.anyio, pytest.mark.needs("git")]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def history(work: Path, tmp_path: Path) -> FileHistory:
    return FileHistory(work, tmp_path / "states")


@pytest.fixture
async def store() -> MemoryStore:
    store = MemoryStore()
    lease = await store.acquire("s")
    await store.commit(lease, Commit([NewEntry("note", b"{}")]))
    await store.release(lease)
    return store


def files(folder: Path) -> dict[str, str]:
    found = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: path.read_text() for name, path in found.items() if not name.startswith(".git/")}


async def test_files_go_back_and_forward_with_a_rewind(store: MemoryStore, history: FileHistory, work: Path) -> None:
    (work / "kept.txt").write_text("kept")
    (work / "a folder").mkdir()
    (work / "a folder/changed 日本.txt").write_bytes(b"one\r\n")
    (work / "tool").write_text("#!/bin/sh\n")
    (work / "tool").chmod(0o755)
    before = files(work)
    to = await save_files(store, "s", history)
    (work / "a folder/changed 日本.txt").write_text("two\n")
    (work / "new.txt").write_text("new")
    (work / "tool").unlink()
    after = files(work)
    last = await rewind(store, "s", to=to)
    restored = await restore_files(store, "s", history, at=to)
    assert files(work) == before
    assert (work / "tool").stat().st_mode & 0o111
    assert restored.changed == ("a folder/changed 日本.txt", "new.txt", "tool")
    assert restored.left == ()
    await restore_files(store, "s", history, at=last + 1)  # what the first restoration saved
    assert files(work) == after


async def test_what_cannot_go_back_stays_and_is_named(store: MemoryStore, history: FileHistory, work: Path) -> None:
    (work / ".gitignore").write_text("*.log\nbuild/\n")
    for name in ("notes.md", "run.log", "build/out", "vendored/file"):
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text("one")
    for command in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=work / "vendored", check=True)
    to = await save_files(store, "s", history)
    for name in ("notes.md", "run.log", "build/out", "vendored/file"):
        (work / name).write_text("two")
    restored = await restore_files(store, "s", history, at=to)
    assert restored.changed == ("notes.md",)
    assert restored.left == ("build/", "run.log", "vendored/")
    assert [(work / name).read_text() for name in ("notes.md", "run.log", "vendored/file")] == ["one", "two", "two"]


async def test_a_repository_of_the_workspace_stays_as_it_is(
    store: MemoryStore, history: FileHistory, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    (work / "staged.txt").write_text("one")
    subprocess.run(["git", "add", "staged.txt"], cwd=work, check=True)
    monkeypatch.setenv("GIT_DIR", str(work / ".git"))
    before = {path: path.read_bytes() for path in (work / ".git").rglob("*") if path.is_file()}
    to = await save_files(store, "s", history)
    (work / "staged.txt").write_text("two")
    await restore_files(store, "s", history, at=to)
    assert files(work) == {"staged.txt": "one"}
    assert {path: path.read_bytes() for path in (work / ".git").rglob("*") if path.is_file()} == before


async def test_a_fork_gets_the_files_in_a_folder_of_its_own(
    store: MemoryStore, history: FileHistory, work: Path, tmp_path: Path
) -> None:
    (work / "page.md").write_text("one")
    (work / "empty").mkdir()
    at = await save_files(store, "s", history)
    (work / "page.md").write_text("two")
    await save_files(store, "s", history)
    new = await fork(store, "s", at=at)
    (tmp_path / "other").mkdir()
    other = FileHistory(tmp_path / "other", history.repository)
    restored = await restore_files(store, new, other, at=at, of="s")
    assert restored.changed == ("page.md",)
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["page.md"]
    assert (files(tmp_path / "other"), files(work)) == ({"page.md": "one"}, {"page.md": "two"})
    (tmp_path / "other/page.md").write_text("three")
    await restore_files(store, new, other, at=(await store.info(new)).seq)
    assert files(tmp_path / "other") == {"page.md": "one"}


async def test_what_prevents_it_is_said(store: MemoryStore, history: FileHistory, work: Path, tmp_path: Path) -> None:
    with pytest.raises(AgentError, match=r"'s' has no saved files up to entry 1: save_files"):
        await restore_files(store, "s", history, at=1)
    with pytest.raises(AgentError, match="is in the workspace whose states it keeps"):
        FileHistory(work, work / ".states")
    with pytest.raises(AgentError, match="there is no folder"):
        await FileHistory(tmp_path / "gone", tmp_path / "states").save()
    lease = await store.acquire("s")
    with pytest.raises(SessionBusy):
        await save_files(store, "s", history)
    await store.release(lease)


async def test_a_machine_without_git_is_reported(
    history: FileHistory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AgentError, match="git is not installed"):
        await history.save()
