"""The cache of the index saves time and decides nothing: whatever is in it, a scan says what is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import entry_point_index.metadata
import pytest
from entry_point_index import Index
from entry_point_index.cache import FORMAT, Entry, Note
from hypothesis import given
from hypothesis import strategies as st

from tests.environments import Distribution, plugin
from tests.sites import Site

SUN, RAIN = plugin("sun"), plugin("rain")


@pytest.fixture
def site(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Two entry points, in the cache."""
    site.install(SUN, RAIN)
    real = entry_point_index.metadata.read_metadata

    def counted(folder: str, *details: Any) -> Any:
        site.reads.append(folder)
        return real(folder, *details)

    monkeypatch.setattr("entry_point_index.metadata.read_metadata", counted)
    site.scan()
    assert site.read() == ["acme_rain", "acme_sun"]
    return site


# -- what is read anew -------------------------------------------------------------------------------------------------


def test_a_distribution_that_did_not_change_is_not_read_again(site: Site) -> None:
    assert [point.name for point in site.scan()] == ["rain", "sun"]
    site.scan("deep.commands")
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
    path.write_text(text.replace("deep-agent-core>=0.1", "deep-agent-core>=9.9"), encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    (sun,) = (point for point in site.scan() if point.name == "sun")
    assert (sun.host_range, sun.accepts_host) == ("<1,>=9.9", False)


def test_another_site_directory_is_read_for_itself(site: Site) -> None:
    other = site.path.parent / "other"
    shutil.copytree(site.path, other)
    site.scan(directories=[str(other)])
    assert site.read() == ["acme_rain", "acme_sun"]
    site.scan()
    assert site.read() == []


@pytest.mark.parametrize("field", [field for field in Index._fields if field not in ("cache", "group")])
def test_another_host_version_or_marker_reads_for_itself(site: Site, field: str) -> None:
    site.index = site.index._replace(**{field: "other"})
    site.scan()
    assert site.read() == ["acme_rain", "acme_sun"]
    site.scan()
    assert site.read() == []


def test_another_group_reads_for_itself(site: Site) -> None:
    site.index = site.index._replace(group="deep.commands")
    site.scan()
    assert site.read() == ["acme_rain", "acme_sun"]


@pytest.mark.parametrize("what", ["entry_point_index.cache.FORMAT", "sys.version", "sys.prefix"])
def test_another_format_or_interpreter_reads_for_itself(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str
) -> None:
    monkeypatch.setattr(what, str(tmp_path))
    site.scan()
    assert site.read() == ["acme_rain", "acme_sun"]
    site.scan()
    assert site.read() == []


def test_a_change_of_what_is_cached_needs_a_new_format() -> None:
    """Count FORMAT up with these fields."""
    kinds: list[Any] = [Entry, Note, entry_point_index.metadata.Metadata]
    assert FORMAT == 3
    assert [" ".join(kind.__annotations__) for kind in kinds] == [
        "stamp metadata notes",
        "code content",
        "name version host_range accepts_host requires editable points",
    ]


# -- a damaged cache ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"{", b"[]\n1\n{}", b"\n\n\n", b"\xff\xfe", b"\0" * 9000])
def test_a_file_that_is_no_cache_is_ignored_and_replaced(site: Site, content: bytes) -> None:
    expected = site.scan()
    site.cache_file().write_bytes(content)
    assert site.scan() == expected
    assert site.read() == ["acme_rain", "acme_sun"]
    site.scan()
    assert site.read() == []


@pytest.mark.slow
@given(part=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255) | st.none())
def test_a_damaged_cache_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, part: float, byte: int | None
) -> None:
    """One byte is another one, or the rest is missing."""
    site = Site(tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("cache"))
    site.install(SUN)
    expected = site.scan()
    whole = site.cache_file().read_bytes()
    at = int(part * len(whole))
    site.cache_file().write_bytes(whole[:at] if byte is None else whole[:at] + bytes([byte]) + whole[at + 1 :])
    assert site.scan() == expected
    assert site.cache_file().read_bytes() == whole


@pytest.mark.parametrize("what", ["folder", "file"])
def test_an_unwritable_cache_is_ignored(site: Site, what: str) -> None:
    expected, file = site.scan(), site.cache_file()
    shutil.rmtree(file.parent)
    if what == "folder":  # a file where a folder should be, and the reverse: unwritable for root too
        file.parent.touch()
    else:
        file.mkdir(parents=True)
    assert site.scan() == expected
    assert site.read() == ["acme_rain", "acme_sun"]
    assert [path for path in site.path.parent.rglob("cache/*") if path.is_file()] == []


# -- several environments, several processes ---------------------------------------------------------------------------


def test_the_cache_of_another_environment_survives(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = site.cache_file().read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("sys.prefix", str(tmp_path))
        RAIN.write(site.path)
        site.scan()
    both = [path.read_bytes() for path in site.index.cache.glob("*.json")]
    assert len(both) == 2
    assert here in both


def test_what_is_gone_leaves_the_cache(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gone = tmp_path / "environment"
    gone.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr("sys.prefix", str(gone))
        site.scan()
    gone.rmdir()
    shutil.rmtree(site.path / SUN.dist_info)
    (site.path / RAIN.dist_info / "METADATA").write_text("Name: acme-rain\nVersion: 2\n")
    assert [(point.name, point.version) for point in site.scan()] == [("rain", "2")]
    assert str(site.path / SUN.dist_info) not in site.cache_file().read_text("utf-8")
    assert [path.name for path in site.index.cache.iterdir()] == [site.cache_file().name]


@pytest.mark.slow
def test_processes_that_write_at_once_leave_a_whole_cache(site: Site) -> None:
    """Each forgets and reads all of it, again and again; every cache that one of them finds is whole."""
    program = f"""
from pathlib import Path
from entry_point_index import Index
from entry_point_index.cache import Cache
index = Index("deep", "deep-agent-core", "0.1.0", Path({str(site.index.cache)!r}))
cache = Cache(index.cache, index[:3] + index[4:])
for number in range(60):
    found = index.scan(directories=[{str(site.path)!r}])
    assert [point.name for point in found] == ["rain", "sun"], found
    entries = cache.load()
    assert len(entries) in (1, 2), entries
    cache.store(dict(list(entries.items())[: 1 + number % 2]))
"""
    running = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    assert [path.name for path in site.index.cache.iterdir()] == [site.cache_file().name]


# -- what it saves -----------------------------------------------------------------------------------------------------

PROGRAM = """
import sys
from pathlib import Path
from entry_point_index import Index
found = Index("deep", "deep-agent-core", "0.1.0", Path({cache!r})).scan(directories=[{site!r}])
print(*(point.name for point in found), *({{"importlib_metadata", "packaging", "email"}} & sys.modules.keys()))
"""


@pytest.mark.slow
def test_only_a_distribution_that_is_not_in_the_cache_is_read_with_the_libraries(tmp_path: Path) -> None:
    cold = Site(tmp_path / "site", tmp_path / "cache")
    (Distribution("acme-library").write(cold.path) / "entry_points.txt").write_text("[console_scripts]\na = b:c\n")
    program = PROGRAM.format(cache=str(cold.index.cache), site=str(cold.path))
    words: list[set[str]] = []
    for distribution in (None, SUN, None, RAIN):
        cold.install(*filter(None, [distribution]))
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        words.append(set(done.stdout.split()))
    libraries = {"importlib_metadata", "packaging", "email"}
    assert words == [set(), {"sun", *libraries}, {"sun"}, {"sun", "rain", *libraries}]
