"""Where an import would find an entry point's modules, asked before any import."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from entry_point_index import Misplaced, misplaced_module

from tests.environments import Distribution, plugin
from tests.sites import Site

SUN = plugin("sun")
RAISING = "raise SystemExit('imported')"


def package(*paths: str, value: str = "acme_sun") -> Distribution:
    """The distribution acme-sun with these files."""
    return Distribution("acme-sun", {"sun": value}, dict.fromkeys(paths, RAISING))


def put(path: str) -> str:
    """Write a file into the working directory."""
    file = Path.cwd() / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(RAISING, encoding="utf-8")
    importlib.invalidate_caches()
    return str(file.resolve())


SHAPES = [
    package("acme_sun.py"),
    package("acme_sun/__init__.py", "acme_sun/inner.py"),
    package("acme/sky/sun.py", value="acme.sky.sun"),
    package("acme/sun/__init__.py", value="acme.sun:Sun"),
]


@pytest.mark.parametrize("distribution", SHAPES)
def test_what_the_distribution_installed_is_in_its_place(site: Site, distribution: Distribution) -> None:
    site.install(distribution)
    assert misplaced_module(site.point()) is None


@pytest.mark.parametrize("distribution", SHAPES)
def test_a_file_in_the_working_directory_is_found_out(site: Site, distribution: Distribution) -> None:
    site.install(distribution)
    (path, *_) = distribution.files
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    assert misplaced_module(site.point()) is None
    file = put(path)
    assert misplaced_module(site.point()) == Misplaced(module, file)


def test_another_outermost_module_of_the_distribution_is_checked_too(site: Site) -> None:
    site.install(package("acme_sun.py", "moon_helper.py"))
    assert misplaced_module(site.point()) is None
    file = put("moon_helper.py")
    assert misplaced_module(site.point()) == Misplaced("moon_helper", file)


@pytest.mark.parametrize("path", ["tests/__init__.py", "conftest.py", "docs/__init__.py", "setup.py"])
def test_what_every_project_has_and_no_plugin_imports_is_not_checked(site: Site, path: str) -> None:
    site.install(package("acme_sun.py", path))
    put(path)
    assert misplaced_module(site.point()) is None


def test_a_package_that_only_lies_in_the_site_directory_is_not_the_distributions(site: Site) -> None:
    site.install(SUN)
    stray = site.path / "acme_sun" / "__init__.py"
    stray.parent.mkdir()
    stray.write_text(RAISING, encoding="utf-8")
    importlib.invalidate_caches()
    assert misplaced_module(site.point()) == Misplaced("acme_sun", str(stray.resolve()))


def test_without_record_the_site_directory_owns_its_files(site: Site) -> None:
    """As Debian's packages are installed."""
    site.install(SUN)
    (site.path / SUN.dist_info / "RECORD").unlink()
    assert misplaced_module(site.point()) is None
    file = put("acme_sun.py")
    assert misplaced_module(site.point()) == Misplaced("acme_sun", file)


def test_a_module_that_is_imported_already_is_the_one_that_counts(site: Site) -> None:
    site.install(SUN)
    Path("acme_sun.py").write_text("", encoding="utf-8")
    importlib.invalidate_caches()
    importlib.import_module("acme_sun")
    Path("acme_sun.py").unlink()
    problem = misplaced_module(site.point())
    assert problem == Misplaced("acme_sun", str(Path("acme_sun.py").resolve()))


def test_a_module_that_does_not_exist_has_no_origin(site: Site) -> None:
    site.install(package("acme/sky.py", value="acme.sky.sun"), plugin("rain"))
    (site.path / "acme_rain.py").unlink()
    importlib.invalidate_caches()
    rain, sky = site.scan()
    assert misplaced_module(rain) == Misplaced("acme_rain", None)
    assert misplaced_module(sky) == Misplaced("acme.sky.sun", None)


def test_an_editable_project_owns_its_folder_and_nothing_beside_it(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "acme_sun.py").write_text(RAISING, encoding="utf-8")
    site.install(Distribution("acme-sun", {"sun": "acme_sun"}, editable=project))
    monkeypatch.setattr(sys, "path", [*sys.path, str(project)])
    assert misplaced_module(site.point()) is None
    beside = put("acme_sun.py")
    assert misplaced_module(site.point()) == Misplaced("acme_sun", beside)
