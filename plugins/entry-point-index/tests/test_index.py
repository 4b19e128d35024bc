"""What a scan finds: each distribution once, from its metadata, and the broken ones with their error."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from entry_point_index import EntryPoint, Index, site_directories

from tests.environments import Distribution, plugin
from tests.sites import Site

SUN, RAIN = plugin("sun"), plugin("rain")
MARKER = "agent_plugins.json"


def test_an_entry_point_says_what_the_metadata_says(site: Site) -> None:
    requires = ("deep-agent-core>=0.1", "Acme.Rain", "acme_snow>2", "acme-pdf; extra == 'pdf'")
    site.install(RAIN, Distribution("Acme-Sun", {"sun": "acme_sun:Sun.make [pdf]"}, requires=requires, version="2.0"))
    sun = next(point for point in site.scan() if point.name == "sun")
    assert sun._replace(stamp=()) == EntryPoint(
        group="deep",
        name="sun",
        value="acme_sun:Sun.make [pdf]",
        distribution="Acme-Sun",
        version="2.0",
        dist_info=site.path / "Acme_Sun-2.0.dist-info",
        root=os.path.realpath(site.path),
        host_range=">=0.1",
        requires=("acme-rain", "acme-snow"),
        missing=("acme-snow",),
    )
    assert (sun.module, sun.attributes) == ("acme_sun", ["Sun", "make"])


@pytest.mark.parametrize(
    ("wanted", "accepted"), [("<0.1", False), (">=0.1,<1", True), ("", True), ("==0.1.*", True), (">=0.2", False)]
)
def test_the_range_of_the_host_is_compared_with_its_version(site: Site, wanted: str, accepted: bool) -> None:
    site.install(plugin("sun", requires=(f"Deep_Agent_Core{wanted}",)))
    assert (site.point().accepts_host, site.point().requires) == (accepted, ())


def test_a_group_below_the_indexs_is_scanned_for_itself(site: Site) -> None:
    site.install(
        Distribution("acme-sky", {"sun": "acme_sky"}, commands={"sun": "acme_sky:command", "rain": "acme_sky"})
    )
    assert [(point.group, point.name) for point in site.scan()] == [("deep", "sun")]
    assert [point.name for point in site.scan("deep.commands")] == ["sun", "rain"]


def test_a_group_that_only_begins_like_the_indexs_is_another_one(site: Site) -> None:
    folder = SUN.write(site.path)
    (folder / "entry_points.txt").write_text("[deeper]\na = b\n[other]\nx = y [deep]\n", encoding="utf-8")
    assert site.scan() == []
    (folder / "entry_points.txt").write_text("[deeper]\na = b\n\n  [deep]  \nsun = c\n", encoding="utf-8")
    assert [point.value for point in site.scan()] == ["c"]


def test_an_editable_install_has_its_project_as_root(site: Site, tmp_path: Path) -> None:
    project = tmp_path / "a project"
    project.mkdir()
    site.install(Distribution("acme-sun", {"sun": "acme_sun"}, editable=project))
    assert (site.point().editable, site.point().root) == (True, os.path.realpath(project))


# -- which distributions there are -------------------------------------------------------------------------------------


def test_the_first_directory_shadows_the_later(site: Site, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    plugin("sun", version="2.0").write(first)
    plugin("sun", version="3.0").write(second)
    RAIN.write(second)
    found = site.scan(directories=[str(first), str(second), str(tmp_path / "none")])
    assert [(point.name, point.version) for point in found] == [("sun", "2.0"), ("rain", "1.0")]


def test_what_an_uninstall_left_shadows_nothing(site: Site) -> None:
    left = SUN.write(site.path)
    shutil.copytree(left, left.with_name("~" + left.name[1:]))
    (site.path / "acme_sun-0.9.dist-info").mkdir()
    (site.path / "acme_sun-0.9.dist-info" / "METADATA~").touch()
    assert [(point.name, point.version) for point in site.scan()] == [("sun", "1.0")]


def test_nothing_in_the_working_directory_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    SUN.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
    assert str(tmp_path) not in site_directories()
    index = Index("deep", "deep-agent-core", "0.1.0", tmp_path / "cache")
    assert "acme-sun" not in {point.distribution for point in index.scan()}


def test_site_directories_are_real_paths_in_the_order_of_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    directories = site_directories()
    assert directories == [os.path.realpath(path) for path in directories]
    assert any(Path(path, "pytest").is_dir() for path in directories)


# -- broken metadata ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "content", "name"),
    [
        ("METADATA", b"", "sun"),
        ("METADATA", b"\xff\xfe\x00", "sun"),
        ("entry_points.txt", b"[deep]\nsun\n", "acme_sun"),
        ("entry_points.txt", b"[deep]\nsun = acme_sun\n\xff\n", "acme_sun"),
    ],
)
def test_a_distribution_that_cannot_be_read_has_an_error_and_stops_no_other(
    site: Site, file: str, content: bytes, name: str
) -> None:
    site.install(SUN, RAIN)
    (site.path / SUN.dist_info / file).write_bytes(content)
    for _ in range(2):
        rain, broken = site.scan()
        assert (rain.name, rain.error) == ("rain", None)
        assert (broken.name, broken.distribution, broken.version) == (name, "acme-sun", "1.0")
        assert isinstance(broken.error, Exception)
        assert bool(broken.value) is (name == "sun")


def test_a_distribution_with_too_many_entry_points_cannot_be_read(site: Site) -> None:
    many = "".join(f"p{number} = acme:p{number}\n" for number in range(1001))
    (SUN.write(site.path) / "entry_points.txt").write_text(f"[other]\n{many}\n[deep]\nsun = acme\n")
    assert site.point().error is None
    (SUN.write(site.path) / "entry_points.txt").write_text(f"[deep]\n{many}")
    assert str(site.point().error) == "entry_points.txt has 1,001 entry points of deep, more than 1,000"


# -- distributions without an entry point ------------------------------------------------------------------------------


def test_a_marker_stands_for_an_entry_point_of_the_group(site: Site) -> None:
    site.install(Distribution("Acme-Docs", files={f"Acme_Docs-1.0.dist-info/{MARKER}": "{}"}))
    point = site.point()
    assert (point.name, point.value, point.distribution) == ("acme_docs", MARKER, "Acme-Docs")
    assert (point.requires, point.missing) == (("deep-folders",), ("deep-folders",))
    assert site.scan("deep.commands") == []


def test_a_marker_beside_an_entry_point_changes_nothing(site: Site) -> None:
    site.install(Distribution("acme-sun", SUN.plugins, {**SUN.files, f"{SUN.dist_info}/{MARKER}": "{}"}))
    assert (site.point().value, site.point().requires) == ("acme_sun", ())


def test_an_index_without_a_marker_finds_none(site: Site) -> None:
    site.install(Distribution("acme-docs", files={f"acme_docs-1.0.dist-info/{MARKER}": "{}"}))
    site.index = site.index._replace(marker="", reader="")
    assert site.scan() == []


# -- what a value names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "module", "attributes"),
    [
        ("acme", "acme", []),
        ("acme.sun : Sun", "acme.sun", ["Sun"]),
        ("acme:Sun.make[pdf, x:y]", "acme", ["Sun", "make"]),
        ("acme [pdf]", "acme", []),
        ("", "", []),
    ],
)
def test_a_value_is_a_module_and_an_object_in_it(value: str, module: str, attributes: list[str]) -> None:
    point = EntryPoint(value=value)
    assert (point.module, point.attributes) == (module, attributes)


def test_load_returns_the_object_that_the_value_names() -> None:
    from fractions import Fraction

    assert EntryPoint(value="fractions:Fraction.from_float").load() == Fraction.from_float
    with pytest.raises(AttributeError):
        EntryPoint(value="fractions:Fraction.nothing").load()
