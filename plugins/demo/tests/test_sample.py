"""The sample project: one original, found in a checkout and in a wheel, with one real mistake that a test shows."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from deep_demo import copy_sample_project, sample_project

from tests.local_wheels import unpack_sdist

ROOT = Path(__file__).resolve().parents[3]
ORIGINAL = ROOT / "examples" / "sample-project"
DEMO = ROOT / "plugins" / "demo"


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in found
        if not {"__pycache__", ".ruff_cache"} & set(path.parts)
    }


def build(target: str, source: Path, into: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(into)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (built,) = into.iterdir()
    return built


def test_exactly_one_of_its_tests_fails(project: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "unittest"], cwd=project, capture_output=True, text=True, check=False)
    assert "FAILED (failures=1)" in done.stderr
    assert "AssertionError: 1998 != 1999" in done.stderr


def test_a_copy_is_the_original_byte_for_byte(project: Path) -> None:
    assert files(project) == files(ORIGINAL)
    assert b"\r\n" in (project / "CHANGELOG.md").read_bytes()


def test_it_is_copied_into_an_empty_directory_only(project: Path) -> None:
    before = files(project)
    with pytest.raises(FileExistsError, match="not empty"):
        copy_sample_project(project)
    assert files(project) == before


def test_what_running_it_leaves_behind_is_not_copied(tmp_path: Path) -> None:
    from deep_demo import sample_files

    first = copy_sample_project(tmp_path / "first")
    (first / "invoices" / "__pycache__").mkdir()
    (first / "invoices" / "__pycache__" / "money.cpython-311.pyc").write_bytes(b"x")
    (tmp_path / "second").mkdir()
    sample_files._copy(first, tmp_path / "second")
    assert not list((tmp_path / "second").rglob("__pycache__"))


def test_a_checkout_reads_the_original() -> None:
    assert str(sample_project()) == str(ORIGINAL)


@pytest.mark.slow
def test_a_wheel_brings_it_along(tmp_path: Path) -> None:
    wheel = build("wheel", DEMO, tmp_path / "dist")
    check_wheel(wheel, tmp_path)


@pytest.mark.slow
def test_a_wheel_from_the_sdist_brings_it_along(tmp_path: Path) -> None:
    sdist = build("sdist", DEMO, tmp_path / "sdist")
    unpack_sdist(sdist, tmp_path / "unpacked")
    (source,) = (tmp_path / "unpacked").iterdir()
    check_wheel(build("wheel", source, tmp_path / "dist"), tmp_path)


def check_wheel(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    assert files(site / "deep_demo" / "sample") == files(ORIGINAL)
    assert not list((DEMO / "src").rglob("sample/*")), "the source tree stays clean"
    code = (
        f"import sys; sys.path.insert(0, {str(site)!r})\n"
        "from deep_demo import copy_sample_project, sample_project\n"
        f"print(sample_project()); copy_sample_project({str(tmp_path / 'copy')!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(site / "deep_demo" / "sample")
    assert files(tmp_path / "copy") == files(ORIGINAL)
