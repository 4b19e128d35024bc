"""Read one distribution's metadata with importlib_metadata and packaging.

`index.py` imports this module only for a distribution that is not in the cache: the two libraries take longer to import
than everything else that a scan does.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypedDict
from urllib.parse import unquote, urlsplit

from importlib_metadata import EntryPoint, PathDistribution
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet

from . import canonical

MOST_POINTS = 1_000
"""Maximum entry points of a distribution: each of them costs its application a check at every start."""


class Metadata(TypedDict):
    """What the index needs of one distribution, as JSON keeps it.

    Attributes:
        name: in its author's spelling.
        version: of the distribution.
        host_range: the versions of the host that it accepts, as a specifier; "" for any.
        accepts_host: whether the host's version is one of them, pre-releases included.
        requires: canonical names of the other distributions that it always needs here.
        editable: the project's folder if the install is editable.
        points: [group, name, value] of each entry point in the index's group and below it.
    """

    name: str
    version: str
    host_range: str
    accepts_host: bool
    requires: list[str]
    editable: str | None
    points: list[list[str]]


class _Distribution(PathDistribution):
    def read_text(self, filename: str | os.PathLike[str]) -> str | None:
        text = super().read_text(filename)
        return text and text.removeprefix("\ufeff")  # the byte order mark that some Windows editors write


def read_entry_points(folder: str, group: str) -> list[list[str]]:
    """Read [group, name, value] of every entry point in a group and in those below it (`deep.commands` for `deep`).

    Args:
        folder: the distribution's dist-info or egg-info folder.
        group: the group.

    Raises:
        ValueError: a line of entry_points.txt is not an entry, there are too many, or the file is not UTF-8.
    """
    try:
        points: list[EntryPoint] = list(_Distribution(Path(folder)).entry_points)
    except TypeError as error:
        raise ValueError("entry_points.txt has a line that is not name = value") from error
    ours = [[point.group, point.name, point.value] for point in points if f"{point.group}.".startswith(f"{group}.")]
    if len(ours) > MOST_POINTS:
        raise ValueError(f"entry_points.txt has {len(ours):,} entry points of {group}, more than {MOST_POINTS:,}")
    return ours


def read_metadata(folder: str, points: list[list[str]], host: str, version: str) -> Metadata:
    """Read METADATA (PKG-INFO in an egg-info folder) and direct_url.json.

    Args:
        folder: the distribution's dist-info or egg-info folder.
        points: its entry points.
        host: the distribution that they extend.
        version: the host's version.

    Raises:
        OSError: a file cannot be read.
        ValueError: the name or the version is missing, or a file is not UTF-8.
    """
    distribution = _Distribution(Path(folder))
    headers = distribution.metadata
    name, own_version = headers.get("Name"), headers.get("Version")
    if not name or not own_version:
        raise ValueError("its metadata has no Name or no Version")
    found = [_requirement(text) for text in headers.get_all("Requires-Dist") or distribution.requires or ()]
    requires = [(canonical(requirement.name), requirement.specifier) for requirement in found if requirement]
    host = canonical(host)
    accepted = SpecifierSet(",".join(str(specifier) for other, specifier in requires if other == host))
    return Metadata(
        name=name,
        version=own_version,
        host_range=str(accepted),
        accepts_host=accepted.contains(version, prereleases=True),
        requires=[other for other, _ in requires if other != host],
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
