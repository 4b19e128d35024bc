"""Discover, one distribution: its metadata read from the dist-info folder.

The plain forms, which nearly all metadata has, are read here: importing importlib_metadata and packaging for them would
cost a fifth of the time in which a bare agent sends its first request. Whatever is not plain is left to those two.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..names import canonical

__all__ = ["Metadata", "accepts", "read_entry_points", "read_metadata"]

# The others are compiled when they are used, which `re` remembers: most who import this module read no metadata.
_REQUIREMENT = (
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?) *(?:\[[A-Za-z0-9._, -]*\])? *"
    r"(?P<range>(?:(?:>=|<=|==|!=|<|>) *\d+(?:\.\d+)* *(?:, *(?=[><=!]))?)*)(?:; *(?P<marker>.*))?"
)
_EXTRA = r"""extra *== *(?P<quote>['"])[A-Za-z0-9._-]+(?P=quote)"""
_CLAUSE = r"(>=|<=|==|!=|<|>) *(\d+(?:\.\d+)*)"
_RELEASE = r"\d+(?:\.\d+)*"


class Metadata(NamedTuple):
    """What the index needs of one distribution.

    Attributes:
        name: as its author spells it.
        version: of the distribution.
        core_range: the deep-core versions that it accepts, as a specifier; "" for any.
        requires: the other distributions that it always needs, canonical names.
    """

    name: str
    version: str
    core_range: str
    requires: tuple[str, ...]


def read_metadata(dist_info: str) -> Metadata:
    """Read METADATA.

    Raises:
        OSError: it cannot be read.
        ValueError: it names no distribution, or is not UTF-8.
    """
    with open(os.path.join(dist_info, "METADATA"), encoding="utf-8") as file:
        headers = list(_headers(file))
    single = dict(reversed(headers))  # the first of a name counts
    if not single.get("name") or "version" not in single:
        raise ValueError("METADATA has no Name or no Version")
    core_range, requires = "", list[str]()
    for key, text in headers:
        found = _requirement(text) if key == "requires-dist" else None
        if found is None:
            continue
        name, wanted = found
        if name == "deep-core":
            core_range = wanted
        else:
            requires.append(name)
    return Metadata(single["name"], single["version"], core_range, tuple(requires))


def _headers(lines: Iterator[str] | Any) -> Iterator[tuple[str, str]]:
    key, value = "", ""
    for raw in lines:
        line = raw.rstrip("\r\n")
        if line[:1] in (" ", "\t"):
            value += line  # folded
            continue
        if key:
            yield key, value.strip()
        if not line:
            return
        key, _, value = line.partition(":")
        key = key.lower()
    if key:
        yield key, value.strip()


def _requirement(text: str) -> tuple[str, str] | None:
    """(name, range) of a requirement that holds here without extras; None for others, and for what is none."""
    plain = re.fullmatch(_REQUIREMENT, text)
    marker = plain["marker"] if plain else None
    if marker is not None and re.fullmatch(_EXTRA, marker.strip()):
        return None
    if plain is not None and marker is None:
        return canonical(plain["name"]), plain["range"].strip()
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return None
    if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
        return None
    return canonical(requirement.name), str(requirement.specifier)


def read_entry_points(dist_info: str, group: str) -> list[tuple[str, str]]:
    """The (name, value) pairs of a group in entry_points.txt; none where there is no such file or section.

    Raises:
        ValueError: the section is there, and a line of the file is no entry, or the file is not UTF-8.
    """
    # A thousand distributions are asked, and few have the section: no buffer, no decoding, no pattern before that.
    # It may stand after spaces, and after the mark with which editors of Windows begin a file.
    try:
        with open(os.path.join(dist_info, "entry_points.txt"), "rb", buffering=0) as file:
            content = file.read()
    except OSError:
        return []
    header = f"[{group}]".encode()
    if header not in content:
        return []
    if header not in map(bytes.strip, content.removeprefix(codecs.BOM_UTF8).splitlines()):
        return []  # an entry's extras
    section, found = "", list[tuple[str, str]]()
    for number, raw in enumerate(content.decode("utf-8-sig").splitlines(), 1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line[0] == "[" and line[-1] == "]":
            section = line[1:-1]
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise ValueError(f"entry_points.txt, line {number}: {line!r} is not name = value")
        if section == group:
            found.append((name.strip(), value.strip()))
    return found


def accepts(specifier: str, version: str) -> bool:
    """Whether a version is in a range, pre-releases included.

    Raises:
        ValueError: the range is none.
    """
    clauses = [re.fullmatch(_CLAUSE, clause.strip()) for clause in specifier.split(",") if clause.strip()]
    if not re.fullmatch(_RELEASE, version) or None in clauses:
        from packaging.specifiers import SpecifierSet

        return SpecifierSet(specifier).contains(version, prereleases=True)
    ours = _numbers(version)
    return all(_holds(clause[1], ours, _numbers(clause[2])) for clause in clauses if clause)


def _numbers(release: str) -> tuple[int, ...]:
    numbers = [int(part) for part in release.split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()  # 1.0 is 1
    return tuple(numbers)


def _holds(operator: str, ours: tuple[int, ...], theirs: tuple[int, ...]) -> bool:
    if operator == "==":
        return ours == theirs
    if operator == "!=":
        return ours != theirs
    if operator in ("<", "<="):
        return ours < theirs or (operator == "<=" and ours == theirs)
    return ours > theirs or (operator == ">=" and ours == theirs)
