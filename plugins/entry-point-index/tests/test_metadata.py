"""What the index knows of a distribution is what importlib_metadata and packaging say of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import importlib_metadata
import pytest
from entry_point_index import canonical
from entry_point_index.metadata import Metadata, read_entry_points
from entry_point_index.metadata import read_metadata as read_for
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet

HOST, VERSION = "deep-agent-core", "0.1.0"
NAMES = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,8}[A-Za-z0-9])?", fullmatch=True)
NAMES |= st.sampled_from(["deep-agent-core", "Deep_Agent_Core", "deep.agent.core"])
VERSIONS = st.lists(st.integers(0, 3), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))
VERSIONS |= st.sampled_from([VERSION, "0.1.0a1", "0.2.dev3", "1!2.0", "1.0.post1", "0.1.*", "x"])
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
TEXTS = st.lists(REQUIREMENTS | st.text("ab [](),;@:/ =<>1.", max_size=12), max_size=5)
NAME_AND_VERSION = "Metadata-Version: 2.1\nName: X.y\nVersion: 1.0\n"
LINES = st.sampled_from(
    ["[deep]", "[deep.commands]", "[other]", "a = b", "a=b:c", "d = e:f [x, y]", "# c", "", "  g = h"]
)


def folder(site: Path, kind: str = "dist-info", **files: str) -> str:
    """A distribution's folder with these files; `METADATA`, for one, is a keyword."""
    made = site / f"x-1.{kind}"
    made.mkdir(exist_ok=True)
    for name, text in files.items():
        path = made / name.replace("_TXT", ".txt").replace("_JSON", ".json")
        path.write_text(text, encoding="utf-8")
    return str(made)


def read_metadata(dist: str) -> Metadata:
    """What the index reads for this host."""
    return read_for(dist, [], HOST, VERSION)


def requirements(texts: list[str]) -> list[Requirement]:
    """Those of them that packaging reads, and that hold here without extras."""
    found: list[Requirement] = []
    for text in texts:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            found.append(requirement)
    return found


# -- requirements ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(texts=TEXTS, kind=st.sampled_from(["dist-info", "egg-info"]))
def test_requirements_are_those_of_the_libraries(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], kind: str
) -> None:
    lines = "".join(f"Requires-Dist: {text}\n" for text in texts)
    file = {"dist-info": "METADATA", "egg-info": "PKG-INFO"}[kind]
    dist = folder(tmp_path_factory.mktemp("site"), kind, **{file: f"{NAME_AND_VERSION}{lines}\nRequires-Dist: body\n"})
    expected = requirements(importlib_metadata.Distribution.at(dist).requires or [])
    ranges = [requirement.specifier for requirement in expected if canonical(requirement.name) == "deep-agent-core"]
    found = read_metadata(dist)
    assert (found["name"], found["version"]) == ("X.y", "1.0")
    assert found["requires"] == [canonical(r.name) for r in expected if canonical(r.name) != "deep-agent-core"]
    assert SpecifierSet(found["host_range"]) == SpecifierSet(",".join(map(str, ranges)))
    assert found["accepts_host"] is all(one.contains(VERSION, prereleases=True) for one in ranges)


@given(texts=st.lists(REQUIREMENTS, max_size=3), extra=st.lists(REQUIREMENTS, max_size=2))
def test_an_egg_info_folder_may_keep_its_requirements_in_a_file(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], extra: list[str]
) -> None:
    text = "\n".join([*texts, "", "[pdf]", *extra, ""])
    dist = folder(tmp_path_factory.mktemp("site"), "egg-info", **{"PKG-INFO": NAME_AND_VERSION, "requires.txt": text})
    expected = requirements(importlib_metadata.Distribution.at(dist).requires or [])
    assert read_metadata(dist)["requires"] == [
        canonical(r.name) for r in expected if canonical(r.name) != "deep-agent-core"
    ]


def test_a_folded_requirement_is_read_and_the_first_name_counts(tmp_path: Path) -> None:
    text = "NAME: first\nName: second\nVersion: 1\nRequires-Dist: a\n  >=1;\n python_version > '3'\nSummary: x\n y\n"
    found = read_metadata(folder(tmp_path, METADATA=f"{text}\nName: body\n"))
    assert (found["name"], found["requires"]) == ("first", ["a"])


@pytest.mark.parametrize("text", ["", "Version: 1\n", "Name: x\n", "Name:\nVersion: 1\n", "\nName: x\nVersion: 1\n"])
def test_metadata_without_a_name_or_version_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(Exception, match="metadata"):
        read_metadata(folder(tmp_path, METADATA=text))


# -- entry points ------------------------------------------------------------------------------------------------------


@given(st.lists(LINES, max_size=9).map("\n".join))
def test_entry_points_are_those_of_importlib_metadata(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    dist = folder(tmp_path_factory.mktemp("site"), entry_points_TXT=text)
    points = importlib_metadata.Distribution.at(dist).entry_points
    assert read_entry_points(dist, "deep") == [[p.group, p.name, p.value] for p in points if p.group != "other"]


def test_a_byte_order_mark_hides_no_plugin_and_no_name(tmp_path: Path) -> None:
    metadata = "\ufeffName: x\nVersion: 1\n"
    dist = folder(tmp_path, METADATA=metadata, entry_points_TXT="\ufeff[deep]\r\nweather = acme_weather\r\n")
    assert read_entry_points(dist, "deep") == [["deep", "weather", "acme_weather"]]
    assert read_metadata(dist)["name"] == "x"


@pytest.mark.parametrize("text", ["[deep]\nno equals sign\n", "[deep]\n[[\n", "[other]\n; a comment of an editor\n"])
def test_a_line_that_is_no_entry_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"entry_points.txt has a line that is not name = value"):
        read_entry_points(folder(tmp_path, entry_points_TXT=text), "deep")


# -- editable installs -------------------------------------------------------------------------------------------------


def editable(site: Path, direct_url: Any) -> str | None:
    """The project that direct_url.json names."""
    text = direct_url if isinstance(direct_url, str) else json.dumps(direct_url)
    return read_metadata(folder(site, METADATA=NAME_AND_VERSION, direct_url_JSON=text))["editable"]


@pytest.mark.parametrize("scheme", ["file://", "file://localhost"])
def test_the_project_of_an_editable_install_is_a_real_path(tmp_path: Path, scheme: str) -> None:
    project = tmp_path / "a project"
    project.mkdir()
    (tmp_path / "link").symlink_to(project)
    url = f"{scheme}{(tmp_path / 'link').as_posix()}"
    assert editable(tmp_path, {"url": url, "dir_info": {"editable": True}}) == os.path.realpath(project)
    assert editable(tmp_path, {"url": url, "dir_info": {"editable": False}}) is None
    assert editable(tmp_path, {"url": url, "dir_info": {}}) is None
    assert editable(tmp_path, {"url": url}) is None


@pytest.mark.parametrize(
    "url",
    ["file:///", "file:////", "file:///tmp/..", "file:", "file:x", "file://", "file://host/x", "https://x/y", "\0", 7],
)
def test_an_editable_install_cannot_be_of_everything_or_of_the_working_directory(tmp_path: Path, url: object) -> None:
    assert editable(tmp_path, {"url": url, "dir_info": {"editable": True}}) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        "null",
        '{"url": "file:///x", "dir_info": 3}',
        '{"url": "file:///\\u0000", "dir_info": {"editable": true}}',
    ],
)
def test_a_damaged_direct_url_means_that_the_install_is_not_editable(tmp_path: Path, text: str) -> None:
    assert editable(tmp_path, text) is None
