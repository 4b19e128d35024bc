"""Read installed distributions and plugins from dist-info folders, before and after an installation."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from deep_core.plugin_api import Candidate, canonical, scan, site_directories

from .spec import InstallSpec

__all__ = ["Dist", "distributions", "names_of", "plugins_of", "version_of"]


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


def version_of(name: str) -> str:
    """The version of an installed distribution, "" if it is not installed or its metadata is broken."""
    from importlib import metadata

    try:
        return metadata.version(name)
    except (metadata.PackageNotFoundError, KeyError, ValueError):
        return ""


def dependents(name: str) -> list[str]:
    """The installed distributions that require one, by name; what only an extra requires does not count."""
    from importlib import metadata

    from packaging.requirements import InvalidRequirement, Requirement

    out: set[str] = set()
    for found in metadata.distributions(path=site_directories()):
        for text in found.requires or ():
            try:
                need = Requirement(text)
            except InvalidRequirement:
                continue  # deep doctor tells of broken metadata
            applies = need.marker is None or need.marker.evaluate({"extra": ""})
            if applies and canonical(need.name) == name:
                out.add(found.name)
    return sorted(out)


def names_of(spec: InstallSpec, after: Mapping[str, Dist], before: Mapping[str, Dist]) -> list[str]:
    """The distributions that an argument was installed as; empty if it is not installed."""
    if spec.name:
        return [spec.name] if spec.name in after else []
    same = [name for name, dist in after.items() if _address(dist) == spec.address]
    return [name for name in same if before.get(name) != after[name]] or same


def _address(dist: Dist) -> str:
    try:
        data: Any = json.loads(Path(dist.path, "direct_url.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return str(cast("dict[str, Any]", data).get("url", "")) if isinstance(data, dict) else ""


def plugins_of(names: Sequence[str], after: Mapping[str, Dist]) -> list[Candidate]:
    """List the plugins of these distributions without importing them.

    A distribution without a plugin (deep-everything) has those of its direct requirements.
    """
    plugins = scan()
    own = [c for c in plugins if canonical(c.record.distribution or "") in names]
    requirements = {name for dist in names for name in _requirement_names(after[dist])}
    return own or [c for c in plugins if canonical(c.record.distribution or "") in requirements]


def _requirement_names(dist: Dist) -> set[str]:
    from importlib.metadata import Distribution

    from packaging.requirements import InvalidRequirement, Requirement

    distribution = Distribution.at(dist.path)
    names: set[str] = set()
    for text in distribution.requires or ():
        try:
            names.add(canonical(Requirement(text).name))
        except InvalidRequirement:
            continue
    return names
