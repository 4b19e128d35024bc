"""The cache of the index saves time and decides nothing: whatever is in it, discovery says what is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import deep_core.plugins.metadata
from deep_core.plugins import cache
from deep_core.plugins.index import scan
from tests.environments import REPOSITORY, Distribution, Environment, plugin

SUN, RAIN = plugin("sun"), plugin("rain")
LIBRARIES = {"importlib_metadata", "packaging", "email"}


class Site:
    """A site directory, and how often its distributions were read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reads: list[str] = []

    def scan(self, **how: Any) -> list[list[Any]]:
        """What the index says, in a form that can be compared."""
        plain = ("name", "distribution", "version", "path", "status", "editable")
        found = scan([str(self.path)], **how)
        return [[*(getattr(c.record, key) for key in plain), c.value, *c[3:7]] for c in found]

    def read(self) -> list[str]:
        """The distributions that were read since the last call."""
        read, self.reads[:] = sorted(Path(path).name.partition("-")[0] for path in self.reads), []
        return read


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Two plugins, in the cache."""
    made = Site(tmp_path / "site")
    SUN.write(made.path)
    RAIN.write(made.path)
    real = deep_core.plugins.metadata.read_metadata

    def counted(folder: str, points: list[list[str]]) -> Any:
        made.reads.append(folder)
        return real(folder, points)

    monkeypatch.setattr("deep_core.plugins.metadata.read_metadata", counted)
    made.scan()
    assert made.read() == ["acme_rain", "acme_sun"]
    return made


def cache_file() -> Path:
    """The file of this environment."""
    (file,) = Path(os.environ["HOME"]).rglob("plugin-index/*.json")
    return file


# -- what is read anew -------------------------------------------------------------------------------------------------


def test_a_distribution_that_did_not_change_is_not_read_again(site: Site) -> None:
    assert [name for name, *_ in site.scan()] == ["rain", "sun"]
    site.scan(group="deep.commands")
    assert site.read() == []


@pytest.mark.parametrize("file", ["METADATA", "entry_points.txt", "direct_url.json", "PKG-INFO"])
def test_a_changed_file_is_read_again(site: Site, file: str) -> None:
    path = site.path / SUN.dist_info / file
    old = path.read_text("utf-8") if path.exists() else ""
    path.write_text(old + "\n", encoding="utf-8")
    site.scan()
    assert site.read() == ["acme_sun"]
    path.unlink()
    path.write_text(old + "\n", encoding="utf-8")
    os.utime(path, (1, 1))
    site.scan()
    assert site.read() == ["acme_sun"]
    site.scan()
    assert site.read() == []


def test_a_file_of_the_same_size_and_time_is_read_again(site: Site) -> None:
    """As an installer leaves it that restores the times of an archive."""
    path = site.path / SUN.dist_info / "METADATA"
    before, text = path.stat(), path.read_text("utf-8")
    path.write_text(text.replace("deep-core>=0.1", "deep-core>=9.9"), encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    (sun,) = (found for found in site.scan() if found[0] == "sun")
    assert sun[7:] == ["<1,>=9.9", (), (), False]


def test_another_site_directory_is_read_for_itself(site: Site) -> None:
    other = Site(site.path.parent / "other")
    shutil.copytree(site.path, other.path)
    other.scan()
    assert site.read() == ["acme_rain", "acme_sun"]
    site.scan()
    assert site.read() == []


@pytest.mark.parametrize(
    "what", ["deep_core.plugins.cache.__version__", "deep_core.plugins.cache.FORMAT", "sys.version", "sys.prefix"]
)
def test_another_deep_core_format_or_interpreter_reads_for_itself(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str
) -> None:
    monkeypatch.setattr(what, str(tmp_path))
    site.scan()
    assert site.read() == ["acme_rain", "acme_sun"]
    site.scan()
    assert site.read() == []


def test_a_change_of_what_is_cached_needs_a_new_format() -> None:
    """Count FORMAT up with these fields."""
    kinds: list[Any] = [cache.Entry, cache.Outcome, deep_core.plugins.metadata.Metadata]
    assert cache.FORMAT == 2
    assert [" ".join(kind.__annotations__) for kind in kinds] == [
        "stamp metadata outcomes",
        "code status reason hooks import_ms",
        "name version core_range accepts_core requires editable points",
    ]


# -- a damaged cache ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"{", b"[]\n1\n{}", b"\n\n\n", b"\xff\xfe", b"\0" * 9000])
def test_a_file_that_is_no_cache_is_ignored_and_replaced(site: Site, content: bytes) -> None:
    expected = site.scan()
    cache_file().write_bytes(content)
    assert site.scan() == expected
    assert site.read() == ["acme_rain", "acme_sun"]
    site.scan()
    assert site.read() == []


@given(part=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255) | st.none())
def test_a_damaged_cache_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, part: float, byte: int | None
) -> None:
    """One byte is another one, or the rest is missing."""
    home, site = tmp_path_factory.mktemp("home"), Site(tmp_path_factory.mktemp("site"))
    SUN.write(site.path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        expected = site.scan()
        whole = cache_file().read_bytes()
        at = int(part * len(whole))
        cache_file().write_bytes(whole[:at] if byte is None else whole[:at] + bytes([byte]) + whole[at + 1 :])
        assert site.scan() == expected
        assert cache_file().read_bytes() == whole


@pytest.mark.parametrize("what", ["folder", "file"])
def test_an_unwritable_cache_is_ignored(site: Site, what: str) -> None:
    expected, file = site.scan(), cache_file()
    shutil.rmtree(file.parent)
    if what == "folder":  # a file where a folder should be, and the reverse: unwritable for root too
        file.parent.touch()
    else:
        file.mkdir(parents=True)
    assert site.scan() == expected
    assert site.read() == ["acme_rain", "acme_sun"]
    assert [path for path in Path(os.environ["HOME"]).rglob("*") if path.is_file() and path != file.parent] == []


# -- several environments, several processes ---------------------------------------------------------------------------


def test_the_cache_of_another_environment_survives(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = cache_file().read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("sys.prefix", str(tmp_path))
        RAIN.write(site.path)
        site.scan()
    assert here in [path.read_bytes() for path in Path(os.environ["HOME"]).rglob("plugin-index/*.json")]
    assert len(list(Path(os.environ["HOME"]).rglob("plugin-index/*.json"))) == 2


def test_what_is_gone_leaves_the_cache(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gone = tmp_path / "environment"
    gone.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr("sys.prefix", str(gone))
        site.scan()
    gone.rmdir()
    shutil.rmtree(site.path / SUN.dist_info)
    (site.path / RAIN.dist_info / "METADATA").write_text("Name: acme-rain\nVersion: 2\n")
    assert [found[:3] for found in site.scan()] == [["rain", "acme-rain", "2"]]
    assert list(cache.load()) == [str(site.path / RAIN.dist_info)]
    assert [path.name for path in cache_file().parent.iterdir()] == [cache_file().name]


def test_processes_that_write_at_once_leave_a_whole_cache(site: Site) -> None:
    """Each forgets and reads all of it, again and again; every cache that one of them finds is whole."""
    program = f"""
from deep_core.plugins import cache, index
for number in range(60):
    found = index.scan([{str(site.path)!r}])
    assert [c.record.name for c in found] == ["rain", "sun"], found
    entries = cache.load()
    assert len(entries) in (1, 2), entries
    cache.store(dict(list(entries.items())[: 1 + number % 2]))
"""
    running = [subprocess.Popen([sys.executable, "-c", program], cwd=REPOSITORY) for _ in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    assert [path.name for path in cache_file().parent.iterdir()] == [cache_file().name]


# -- what it saves -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["list", "load"])
def test_only_the_first_start_imports_the_libraries_that_read_metadata(environment: Environment, start: str) -> None:
    environment.install(SUN, RAIN)
    first = environment.listed(start=True)
    assert {"importlib_metadata", "packaging"} <= set(first.imported)
    warm: Callable[[], Any] = environment.listed if start == "list" else environment.loaded
    roots = {module.partition(".")[0] for module in warm(start=True).imported}
    assert not roots & {"importlib_metadata", "packaging"}
    environment.install(plugin("snow"))
    assert set(environment.listed(start=True).imported) >= {"importlib_metadata", "packaging"}


def test_an_environment_without_plugins_imports_no_library(environment: Environment) -> None:
    environment.install(Distribution("acme-library"))
    (environment.site / "acme_library-1.0.dist-info" / "entry_points.txt").write_text("[console_scripts]\na = b:c\n")
    assert not {"importlib_metadata", "packaging"} & set(environment.listed(start=True).imported)
