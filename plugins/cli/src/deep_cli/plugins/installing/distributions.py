"""Read installed distributions from their dist-info folders, before and after an installation."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit
from urllib.request import url2pathname

from deep_core.plugin_api import canonical, site_directories

from .spec import InstallSpec

__all__ = ["Dist", "again", "dependents", "distributions", "names_of", "requirements_of"]


@dataclass(frozen=True)
class Dist:
    """One installed distribution.

    Attributes:
        version: from its folder's name.
        path: its dist-info folder.
        stamp: changes when it is reinstalled.
    """

    version: str
    path: str
    stamp: int


def distributions() -> dict[str, Dist]:
    """Every distribution of the site directories by canonical name; the first on the path wins, as for import."""
    by_name: dict[str, Dist] = {}
    for directory in site_directories():
        with os.scandir(directory) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.name.endswith(".dist-info"):
                    name, _, version = entry.name.removesuffix(".dist-info").partition("-")
                    by_name.setdefault(canonical(name), Dist(version, entry.path, entry.stat().st_ctime_ns))
    return by_name


def names_of(spec: InstallSpec, after: Mapping[str, Dist], before: Mapping[str, Dist]) -> list[str]:
    """The distributions that an argument was installed as; empty if it is not installed."""
    if spec.name:
        return [spec.name] if spec.name in after else []
    asked = _plain(spec.address)
    same = [name for name, dist in after.items() if (address := _address(dist)) and asked.startswith(_plain(address))]
    return [name for name in same if before.get(name) != after[name]] or same


def again(name: str, dist: Dist) -> list[str]:
    """Return the arguments of `deep plugins install` that install a distribution as it is now."""
    data = _direct_url(dist)
    address, commit = _address(dist), data.get("vcs_info", {}).get("commit_id")
    if not address:
        return [f"{name}=={dist.version}"]
    if commit:
        return [f"{data['vcs_info'].get('vcs', 'git')}+{address}@{commit}"]
    parts = urlsplit(address)
    place = url2pathname(parts.path) if parts.scheme == "file" else address
    return ["-e", place] if data.get("dir_info", {}).get("editable") else [place]


def _address(dist: Dist) -> str:
    return str(_direct_url(dist).get("url", ""))


def _direct_url(dist: Dist) -> dict[str, Any]:
    """`direct_url.json` (PEP 610), whose url has neither a password nor the name of the version control."""
    try:
        data: Any = json.loads(Path(dist.path, "direct_url.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}


def _plain(address: str) -> str:
    return re.sub(r"^(?:[a-z]+\+)?([a-z]+://)(?:[^/@]*@)?", r"\1", address)


def requirements_of(dist: Dist) -> Iterator[str]:
    """The canonical names that a distribution requires; what only an extra requires does not count."""
    from importlib.metadata import Distribution

    from packaging.requirements import InvalidRequirement, Requirement

    for text in Distribution.at(dist.path).requires or ():
        try:
            need = Requirement(text)
        except InvalidRequirement:
            continue  # deep doctor tells of broken metadata
        if need.marker is None or need.marker.evaluate({"extra": ""}):
            yield canonical(need.name)


def dependents(name: str) -> list[str]:
    """The installed distributions that require one, by name."""
    return sorted(other for other, dist in distributions().items() if name in requirements_of(dist))
