"""Folders that were added: whatever of the copy changes, it is not used."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from deep_folders.snapshot import digest_of
from deep_folders.store import Added, Store

PLACES = (
    "hooks/run.py",
    "hooks/new.py",
    "hooks/__pycache__/helper.cpython-311.pyc",
    "__pycache__/x.pyc",
    "hooks/helper.pyc",
    ".git/config",
    ".git/hooks/post-checkout",
    "node_modules/x/index.js",
    ".venv/bin/python",
    ".DS_Store",
    "skills/a/.hidden",
    "sitecustomize.py",
)
"""Files that a copy has, or that are not looked at."""


def _write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("changed", encoding="utf-8")


def _link(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to("/etc/hostname")


def _pipe(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)


CHANGES: dict[str, Callable[[Path], None]] = {"a file": _write, "a link out": _link, "a pipe": _pipe}


def _added(tmp_path: Path) -> tuple[Store, Path]:
    source = tmp_path / "pin"
    for name, text in (("hooks/run.py", "import helper\n"), (".claude-plugin/plugin.json", '{"name": "pin"}')):
        (source / name).parent.mkdir(parents=True)
        (source / name).write_text(text, encoding="utf-8")
    store = Store(tmp_path / "store")
    added = Added("pin", "https://user:secret@example.com/x.git", "", "", "", digest_of(source), True)
    store.add(added, source)
    return store, store.content(added)


def _problem(store: Store) -> str:
    (folder,) = store.folders()
    return folder.problem


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("place", PLACES)
def test_a_copy_that_changed_is_not_used(place: str, change: str, tmp_path: Path) -> None:
    store, copy = _added(tmp_path)
    assert not _problem(store)
    CHANGES[change](copy / place)
    assert _problem(store)


def test_a_copy_without_a_file_and_one_that_became_a_program_are_not_used(tmp_path: Path) -> None:
    store, copy = _added(tmp_path)
    (copy / "hooks/run.py").chmod(0o755)
    assert _problem(store)
    (copy / "hooks/run.py").unlink()
    assert _problem(store)


def test_adding_it_again_does_not_keep_what_was_changed(tmp_path: Path) -> None:
    store, copy = _added(tmp_path)
    _write(copy / "hooks/__pycache__/helper.cpython-311.pyc")
    added = store.get("pin")
    assert added is not None
    store.add(added, tmp_path / "pin")
    assert not _problem(store)


def test_the_record_of_a_login_is_for_its_owner_alone(tmp_path: Path) -> None:
    store, _ = _added(tmp_path)
    (record,) = (store.root / "added").glob("*.json")
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
