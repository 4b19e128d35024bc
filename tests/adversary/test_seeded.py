"""The adversary finds what it is for: with one check removed, its tests fail.

Each defect of `defects.py` is made in a copy of the repository with an environment of its own, which also the processes
that tests start use.
"""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from entry_point_index import site_directories

from tests.adversary.defects import DEFECTS
from tests.environments import REPOSITORY

COPIED = ("deep_core", "plugins", "tests", "examples", "docs/plugins.json", "conftest.py", "pyproject.toml")
LEFT_OUT = ("__pycache__", "node_modules", ".venv", ".hypothesis", "static")
MOST_BYTES = 4 * 1024**3
FAILED = 1
"""pytest's exit code for tests that failed: not for files that cannot be collected, or no test at all."""


@pytest.mark.parametrize("name", DEFECTS)
def test_the_check_is_there_once(name: str) -> None:
    defect = DEFECTS[name]
    text = (REPOSITORY / defect.file).read_text(encoding="utf-8")
    assert text.count(defect.old) == 1
    assert defect.new != defect.old
    compile(text.replace(defect.old, defect.new), defect.file, "exec")
    assert (REPOSITORY / _path(defect.tests[0])).is_file()


def test_every_model_has_defects() -> None:
    kinds = {name.partition(":")[0] for name in DEFECTS}
    assert len(DEFECTS) >= 20
    assert kinds == {
        "gates", "observers", "trust", "lease",
        "policy", "identity", "reasons", "table", "sandbox", "host", "owner", "one-time code",
        "verdicts", "frontmatter", "pins", "filters", "masks", "imports",
    }  # fmt: skip


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the repository, and an environment in which its distributions are installed from there."""
    tree = tmp_path_factory.mktemp("seeded") / "tree"
    for name in COPIED:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns(*LEFT_OUT))
        else:
            (tree / name).parent.mkdir(exist_ok=True)
            shutil.copy(source, tree / name)
    venv.create(tree / ".venv", symlinks=True, with_pip=False)
    (packages,) = (tree / ".venv" / "lib").glob("python*/site-packages")
    for folder in map(Path, site_directories()):
        for entry in folder.iterdir():
            if not (packages / entry.name).exists():
                _install(entry, packages / entry.name, tree)
    yield tree
    shutil.rmtree(tree)


def _install(entry: Path, place: Path, tree: Path) -> None:
    """Install what an environment has; what leads to the repository leads to the copy."""
    here = str(REPOSITORY)
    if entry.suffix == ".pth" and here in (text := entry.read_text(encoding="utf-8")):
        place.write_text(text.replace(here, str(tree)), encoding="utf-8")
    elif entry.suffix == ".dist-info" and here in _direct_url(entry):
        shutil.copytree(entry, place)
        (place / "direct_url.json").write_text(_direct_url(entry).replace(here, str(tree)), encoding="utf-8")
    else:
        place.symlink_to(entry)


def _direct_url(entry: Path) -> str:
    file = entry / "direct_url.json"
    return file.read_text(encoding="utf-8") if file.exists() else ""


def _path(file: str) -> str:
    return file if "/" in file else f"tests/adversary/{file}"


def _attack(tree: Path, file: str, words: str) -> subprocess.CompletedProcess[str]:
    python = str(tree / ".venv" / "bin" / "python")
    command = [python, "-m", "pytest", "-q", "-x", "-n", "0", _path(file), *(["-k", words] if words else [])]
    # Without its check, a bomb takes all memory.
    return subprocess.run(
        command, cwd=tree, capture_output=True, text=True, timeout=900, check=False, preexec_fn=_bounded
    )


def _bounded() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("tests", sorted({defect.tests for defect in DEFECTS.values()}))
def test_without_a_defect_the_adversary_breaks_nothing(tests: tuple[str, str], tree: Path) -> None:
    done = _attack(tree, *tests)
    assert done.returncode == 0, done.stdout[-3_000:]
    where = _imported_from(tree)
    assert where == str(tree), "the copy tests itself"


def _imported_from(tree: Path) -> str:
    code = "import deep_backends, pathlib; print(pathlib.Path(deep_backends.__file__).parents[4])"
    command = [str(tree / ".venv" / "bin" / "python"), "-c", code]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("name", DEFECTS)
def test_the_adversary_finds_a_removed_check(name: str, tree: Path) -> None:
    defect = DEFECTS[name]
    file = tree / defect.file
    text = file.read_text(encoding="utf-8")
    assert text.count(defect.old) == 1
    file.write_text(text.replace(defect.old, defect.new), encoding="utf-8")
    try:
        done = _attack(tree, *defect.tests)
    finally:
        file.write_text(text, encoding="utf-8")
    assert done.returncode == FAILED, done.stdout[-3_000:]
    # A name that is gone is a defect of the defect.
    assert not re.search(r"^E +(AttributeError|ImportError|NameError)", done.stdout, re.M), done.stdout[-3_000:]
