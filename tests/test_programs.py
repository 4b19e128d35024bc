"""A repository cannot bring a program that we start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deep_core.plugin_api import absolute_path, find_program


def program(folder: Path, name: str = "tool") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("path", [".", "", ":", "bin", "./bin:", "..:bin"])
def test_a_relative_or_empty_entry_of_the_path_finds_nothing(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path)
    program(tmp_path / "bin")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", path)
    assert find_program("tool") is None
    assert absolute_path(path) == ""


def test_the_first_program_on_absolute_folders_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = program(tmp_path / "one"), program(tmp_path / "two")
    program(tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("PATH", os.pathsep.join([".", str(tmp_path / "one"), "", str(tmp_path / "two")]))
    assert find_program("tool") == first
    assert find_program("tool", outside=str(tmp_path / "one")) == second
    assert find_program("another") is None


def test_a_workspace_has_no_program_by_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "work"
    inside = program(work / "bin")
    (tmp_path / "link-to-folder").symlink_to(work / "bin")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "tool").symlink_to(inside)
    (work / "out").symlink_to(Path(program(tmp_path / "real")).parent)  # a link that the workspace can change
    paths = [work / "bin", work / "bin" / ".." / "bin", tmp_path / "link-to-folder", tmp_path / "links"]
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, paths)))
    assert find_program("tool", outside=str(work)) is None
    assert find_program("tool", outside="/") is None
    assert find_program("tool") == inside
    monkeypatch.setenv("PATH", str(work / "out"))
    assert find_program("tool", outside=str(work)) is None
