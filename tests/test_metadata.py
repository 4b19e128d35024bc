"""Reading metadata without a library says what importlib_metadata and packaging say, for what they accept."""

from __future__ import annotations

from pathlib import Path

import importlib_metadata
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from deep_core.names import canonical
from deep_core.plugins.metadata import accepts, read_entry_points, read_metadata

NAMES = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,8}[A-Za-z0-9])?", fullmatch=True)
VERSIONS = st.lists(st.integers(0, 12), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))
CLAUSES = st.tuples(st.sampled_from([">=", "<=", "<", ">", "==", "!=", "~=", "==="]), VERSIONS).map("".join)
RANGES = st.lists(CLAUSES, max_size=3).map(",".join)
MARKERS = st.sampled_from(
    [
        "",
        '; extra == "pdf"',
        "; extra=='x'",
        '; python_version >= "3.9"',
        '; python_version < "3"',
        '; extra == "a" and python_version >= "3"',
        "; sys_platform == 'no'",
        ";",
        "; nonsense",
    ]
)
EXTRAS = st.sampled_from(["", "[a]", "[a,b-c]", " [a , b]"])
REQUIREMENTS = st.tuples(NAMES, EXTRAS, st.sampled_from(["", " "]), RANGES, MARKERS).map("".join)


def written(folder: Path, metadata: str, points: str = "") -> str:
    dist = folder / "x-1.dist-info"
    dist.mkdir(exist_ok=True)
    (dist / "METADATA").write_text(metadata, encoding="utf-8")
    (dist / "entry_points.txt").write_text(points, encoding="utf-8")
    return str(dist)


def expected(texts: list[str]) -> tuple[str, tuple[str, ...]]:
    core_range, requires = "", list[str]()
    for text in texts:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        if canonical(requirement.name) == "deep-core":
            core_range = str(requirement.specifier)
        else:
            requires.append(canonical(requirement.name))
    return core_range, tuple(requires)


@given(st.lists(REQUIREMENTS | st.just("deep-core<1,>=0.1") | st.text("ab [](),;@:/ =<>1.", max_size=12), max_size=4))
def test_requirements_are_read_as_packaging_reads_them(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("site")
    lines = [f"Requires-Dist: {text}" for text in texts]
    dist = written(folder, "\n".join(["Metadata-Version: 2.1", "Name: X.y", "Version: 1.0", *lines, "", "Name: body"]))
    found = read_metadata(dist)
    core_range, requires = expected([text.strip() for text in texts])
    assert (found.name, found.version) == ("X.y", "1.0")
    assert SpecifierSet(found.core_range) == SpecifierSet(core_range)
    assert found.requires == requires


@given(RANGES, VERSIONS | st.sampled_from(["1.0a1", "0.2.dev3", "1!2.0", "1.0.post1"]))
def test_ranges_accept_what_packaging_accepts(specifier: str, version: str) -> None:
    try:
        said = SpecifierSet(specifier).contains(version, prereleases=True)
    except InvalidSpecifier:
        with pytest.raises(ValueError, match="Invalid"):
            accepts(specifier, version)
        return
    assert accepts(specifier, version) is said


@pytest.mark.parametrize(
    "text",
    [
        "[deep]\nweather = acme_weather\n",
        "[console_scripts]\nx = a:b\n\n[deep]\n# comment\nweather = acme.weather:plugin [pdf]\nother=b\n"
        "[deep.commands]\nc = d:e\n",
        "[ deep ]\r\nweather = acme_weather\r\n",
        "  [deep]\n  weather = acme_weather\n",
        "[deep]\n",
        "",
    ],
)
def test_entry_points_are_read_as_importlib_metadata_reads_them(tmp_path: Path, text: str) -> None:
    dist = written(tmp_path, "Name: x\nVersion: 1\n", text)
    points = importlib_metadata.Distribution.at(Path(dist)).entry_points
    for group in ("deep", "deep.commands"):
        assert read_entry_points(dist, group) == [(point.name, point.value) for point in points.select(group=group)]


def test_a_byte_order_mark_hides_no_plugin(tmp_path: Path) -> None:
    dist = written(tmp_path, "Name: x\nVersion: 1\n", "\ufeff[deep]\nweather = acme_weather\n")
    assert read_entry_points(dist, "deep") == [("weather", "acme_weather")]


@pytest.mark.parametrize("text", ["[deep]\nno equals sign\n", "[deep]\n[[\n"])
def test_what_is_no_entry_is_an_error_with_its_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"entry_points.txt, line 2"):
        read_entry_points(written(tmp_path, "Name: x\nVersion: 1\n", text), "deep")


@pytest.mark.parametrize("text", ["", "Version: 1\n", "Name: x\n", "Name:\nVersion: 1\n", "\nName: x\nVersion: 1\n"])
def test_metadata_without_a_name_or_version_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match="no Name or no Version"):
        read_metadata(written(tmp_path, text))


def test_folded_and_repeated_headers(tmp_path: Path) -> None:
    text = "NAME: first\nName: second\nVersion: 1\nRequires-Dist: a\n  >=1;\n python_version > '3'\nSummary: x\n y\n"
    text += "\nName: body\n"
    found = read_metadata(written(tmp_path, text))
    assert (found.name, found.requires) == ("first", ("a",))
