"""Read one distribution's metadata with importlib_metadata and packaging.

`index.py` imports this module only for a distribution that is not in the cache: the two libraries take longer to import
than everything else that `deep plugins list` does.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypedDict
from urllib.parse import unquote, urlsplit

from importlib_metadata import EntryPoint, PathDistribution
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet

from .. import __version__
from ..names import canonical

MOST_POINTS = 1_000
"""Maximum plugins and commands of a distribution: each of them costs a check at every start."""


class Metadata(TypedDict):
    """What the index needs of one distribution, as JSON keeps it.

    Attributes:
        name: in its author's spelling.
        version: of the distribution.
        core_range: the deep-core versions that it accepts, as a specifier; "" for any.
        accepts_core: whether this deep-core is one of them, pre-releases included.
        requires: canonical names of the other distributions that it always needs here.
        editable: the project's folder if the install is editable.
        points: [group, name, value] of each entry point of deep.
    """

    name: str
    version: str
    core_range: str
    accepts_core: bool
    requires: list[str]
    editable: str | None
    points: list[list[str]]


class _Distribution(PathDistribution):
    def read_text(self, filename: str | os.PathLike[str]) -> str | None:
        text = super().read_text(filename)
        return text and text.removeprefix("\ufeff")  # the byte order mark that some Windows editors write


def read_entry_points(folder: str) -> list[list[str]]:
    """Read [group, name, value] of every entry point in the group `deep` and in those below it (`deep.commands`).

    Args:
        folder: the distribution's dist-info or egg-info folder.

    Raises:
        ValueError: a line of entry_points.txt is not an entry, there are too many, or the file is not UTF-8.
    """
    try:
        points: list[EntryPoint] = list(_Distribution(Path(folder)).entry_points)
    except TypeError as error:
        raise ValueError("entry_points.txt has a line that is not name = value") from error
    ours = [[point.group, point.name, point.value] for point in points if point.group.partition(".")[0] == "deep"]
    if len(ours) > MOST_POINTS:
        raise ValueError(f"entry_points.txt has {len(ours):,} plugins and commands, more than {MOST_POINTS:,}")
    return ours


def read_metadata(folder: str, points: list[list[str]]) -> Metadata:
    """Read METADATA (PKG-INFO in an egg-info folder) and direct_url.json.

    Args:
        folder: the distribution's dist-info or egg-info folder.
        points: its entry points.

    Raises:
        OSError: a file cannot be read.
        ValueError: the name or the version is missing, or a file is not UTF-8.
    """
    distribution = _Distribution(Path(folder))
    headers = distribution.metadata
    name, version = headers.get("Name"), headers.get("Version")
    if not name or not version:
        raise ValueError("its metadata has no Name or no Version")
    found = [_requirement(text) for text in headers.get_all("Requires-Dist") or distribution.requires or ()]
    requires = [(canonical(requirement.name), requirement.specifier) for requirement in found if requirement]
    core_range = SpecifierSet(",".join(str(specifier) for other, specifier in requires if other == "deep-core"))
    return Metadata(
        name=name,
        version=version,
        core_range=str(core_range),
        accepts_core=core_range.contains(__version__, prereleases=True),
        requires=[other for other, _ in requires if other != "deep-core"],
        editable=_editable_root(distribution),
        points=points,
    )


def _requirement(text: str) -> Requirement | None:
    """Parse a requirement; return None if it is malformed or does not apply here without extras."""
    try:
        requirement = Requirement(" ".join(text.split()))  # a header may be folded
    except InvalidRequirement:
        return None
    return requirement if requirement.marker is None or requirement.marker.evaluate({"extra": ""}) else None


def _editable_root(distribution: Any) -> str | None:
    """Return the project's folder, by direct_url.json (PEP 610).

    None for a relative folder, which would be the working directory, and for `/`, which holds everything.
    """
    try:
        origin = distribution.origin
        url = urlsplit(str(origin.url))
        path = os.path.realpath(unquote(url.path))
        local = url.scheme == "file" and url.netloc in ("", "localhost") and os.path.isabs(url.path)
        return path if origin.dir_info.editable and local and path != os.path.dirname(path) else None
    except (AttributeError, ValueError):
        return None  # no direct_url.json, or a malformed one: then RECORD decides what may be imported
