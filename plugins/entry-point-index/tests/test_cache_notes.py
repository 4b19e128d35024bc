"""What was noted about an entry point, and when it is forgotten."""

from __future__ import annotations

import importlib
import os
import sys
import time
from pathlib import Path

import pytest
from entry_point_index import EntryPoint
from entry_point_index.cache import stamp

from tests.environments import Distribution, plugin
from tests.sites import Site

SUN = plugin("sun")
PACKAGE = {"acme_sun/__init__.py": "", "acme_sun/inner/snow.py": ""}
NOTE = {"status": "failed", "hooks": ["a"]}


def note(site: Site) -> EntryPoint:
    """Note something about the only entry point."""
    notes, point = site.notes(), site.point()
    notes.set(point, NOTE)
    notes.save()
    return point


def noted(site: Site) -> bool:
    """Whether another process knows it."""
    importlib.invalidate_caches()
    found = site.notes().get(site.point())
    assert found in (None, NOTE)
    return found == NOTE


def rewrite(file: Path, text: str) -> None:
    """Change a file: its time differs for certain, though the clock of the file system may stand still."""
    before = file.stat().st_mtime_ns
    file.write_text(text, encoding="utf-8")
    os.utime(file, ns=(before, before + 1))


def test_a_note_is_there_for_the_next_process(site: Site) -> None:
    site.install(SUN)
    assert not noted(site)
    point = note(site)
    assert site.notes().get(point) == {"status": "failed", "hooks": ["a"]}
    assert "acme_sun" not in sys.modules


def test_an_entry_point_that_was_not_scanned_has_no_note(site: Site) -> None:
    notes, byhand = site.notes(), EntryPoint()
    notes.set(byhand, {})
    notes.save()
    assert notes.get(byhand) is None
    assert not site.index.cache.exists()


def test_what_is_noted_meanwhile_is_kept(site: Site) -> None:
    site.install(SUN, plugin("rain"))
    rain, sun = site.scan()
    first, second = site.notes(), site.notes()
    first.set(sun, {"by": 1})
    second.set(rain, {"by": 2})
    first.save()
    second.save()
    assert [site.notes().get(point) for point in (rain, sun)] == [{"by": 2}, {"by": 1}]


def test_notes_that_are_only_read_write_nothing(site: Site) -> None:
    site.install(SUN)
    note(site)
    inode = site.cache_file().stat().st_ino
    notes = site.notes()
    assert notes.get(site.point())
    notes.save()
    assert site.cache_file().stat().st_ino == inode


@pytest.mark.parametrize("file", PACKAGE)
@pytest.mark.parametrize("editable", [False, True])
def test_a_changed_file_of_the_package_makes_it_forgotten(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, editable: bool
) -> None:
    root = tmp_path / "project" if editable else site.path
    for path, text in PACKAGE.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [*sys.path, str(root)])
    site.install(Distribution("acme-sun", SUN.plugins, editable=root if editable else None))
    note(site)
    assert noted(site)
    rewrite(root / file, "# fixed")
    assert not noted(site)


def test_a_new_file_of_the_package_makes_it_forgotten(site: Site) -> None:
    site.install(Distribution("acme-sun", SUN.plugins, PACKAGE))
    note(site)
    (site.path / "acme_sun" / "more.py").touch()
    assert not noted(site)


def test_a_new_installation_makes_it_forgotten(site: Site) -> None:
    site.install(SUN)
    note(site)
    rewrite(site.path / SUN.dist_info / "RECORD", "")
    assert not noted(site)


def test_an_installation_beside_it_makes_it_forgotten(site: Site) -> None:
    site.install(SUN)
    note(site)
    os.utime(site.path, (1, 1))  # installing changes it, but a clock may stand still meanwhile
    assert not noted(site)


def test_code_that_is_newer_than_the_process_leaves_no_note(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the code in memory is the old one or the new one is not known."""
    site.install(SUN)
    monkeypatch.setattr("entry_point_index.cache.STARTED", time.time_ns() - 10**9)
    note(site)
    assert not noted(site)


def test_an_entry_point_without_its_module_has_a_note_until_the_module_is_there(site: Site) -> None:
    site.install(SUN)
    module = site.path / "acme_sun.py"
    module.unlink()
    note(site)
    assert noted(site)
    module.touch()
    assert not noted(site)


class _Raising:
    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "acme_sun":
            raise RuntimeError("no finder")


def test_a_finder_that_raises_ends_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.install(SUN)
    note(site)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "meta_path", [_Raising, *sys.meta_path])
        assert not noted(site)
        note(site)
    assert noted(site)


@pytest.mark.parametrize("path", ["acme_sun/{}.py", "acme_sun/{}/x.py"], ids=["files", "folders"])
def test_only_so_many_files_of_a_package_are_looked_at(site: Site, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr("entry_point_index.cache.MOST", 3)
    files = {"acme_sun/__init__.py": "", **{path.format(f"f{n}"): "" for n in range(9)}}
    site.install(Distribution("acme-sun", SUN.plugins, files))
    looked_at: list[str] = []

    def counted(paths: list[str]) -> list[int]:
        paths = list(paths)
        looked_at.extend(paths)
        return stamp(paths)

    monkeypatch.setattr("entry_point_index.cache.stamp", counted)
    note(site)
    assert len(looked_at) == 3
