"""Find entry points from the metadata of installed distributions alone. Nothing is imported here.

The index reads only the interpreter's site directories, never the current directory and never `sys.path`'s `''`: a file
that somebody wrote into the working directory cannot become a plugin.
"""

from __future__ import annotations

import codecs
import os
import sys
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from . import canonical
from .cache import Cache, Entry, Notes, stamp


class EntryPoint(NamedTuple):
    """One entry point, with what the metadata of its distribution says.

    Attributes:
        group: its group, the section of `entry_points.txt`.
        name: its name.
        value: `module`, `module:object` or `module:object [extras]`; the marker's file name without an entry point; ""
            if `entry_points.txt` cannot be read.
        distribution: the name of the distribution that installed it, in its author's spelling.
        version: that distribution's version.
        dist_info: the dist-info folder (or egg-info).
        root: the folder that its modules come from: the site directory, or the project of an editable install.
        editable: whether it is an editable install.
        host_range: the versions of the host that the distribution accepts, as a specifier; "" for any.
        accepts_host: whether the host's version is one of them.
        requires: the other distributions that it needs here, canonical names.
        missing: those of them that are not installed.
        stamp: of the files that all this was read from.
        error: why the metadata cannot be read; then only the fields up to `root` hold.
    """

    group: str = ""
    name: str = ""
    value: str = ""
    distribution: str = ""
    version: str = ""
    dist_info: Path = Path()
    root: str = ""
    editable: bool = False
    host_range: str = ""
    accepts_host: bool = True
    requires: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    stamp: Sequence[int] = ()
    error: Exception | None = None

    @property
    def module(self) -> str:
        """The module that the value names."""
        return self.value.partition("[")[0].partition(":")[0].strip()

    @property
    def attributes(self) -> list[str]:
        """The path of the object in the module: `["Plugin", "make"]` of `module:Plugin.make`; empty for the module."""
        return [part for part in self.value.partition("[")[0].partition(":")[2].strip().split(".") if part]

    def load(self) -> Any:
        """Import the module and return what the value names. Ask `misplaced_module` first."""
        return reduce(getattr, self.attributes, import_module(self.module))


def site_directories() -> list[str]:
    """Return the interpreter's site directories as real paths, in the order of `sys.path`."""
    import site
    import sysconfig

    found = [*site.getsitepackages(), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    if site.ENABLE_USER_SITE:
        found.append(site.getusersitepackages())
    real = dict.fromkeys(os.path.realpath(path) for path in found if os.path.isdir(path))
    rank = {os.path.realpath(path): i for i, path in enumerate(sys.path) if path}
    return sorted(real, key=lambda path: rank.get(path, len(rank)))


class Index(NamedTuple):
    """The installed entry points of one application.

    Attributes:
        group: the group of its entry points. The groups below it (`deep.commands` for `deep`) are read with it.
        host: the distribution that the entry points extend, such as `deep-agent-core`.
        version: the host's version.
        cache: a folder for this index alone.
        marker: a file of a dist-info folder by which a distribution without an entry point of the group has one, named
            after the distribution, with this file name as its value; "" for none.
        reader: the distribution that reads such files, which each of those entry points requires.
    """

    group: str
    host: str
    version: str
    cache: Path
    marker: str = ""
    reader: str = ""

    def scan(self, group: str | None = None, directories: Sequence[str] | None = None) -> list[EntryPoint]:
        """Return every installed entry point, in the order of the directories, then of their distributions.

        Args:
            group: the index's group by default, or one below it.
            directories: where to look; None for `site_directories()`.
        """
        group, paths, cache = group or self.group, dict[str, str](), self._cache()
        for directory in site_directories() if directories is None else directories:
            for name, path in _distributions(directory):
                # The first on the path shadows later ones, as for import, unless an uninstall left only a part of it.
                if name not in paths or not _has_metadata(paths[name]):
                    paths[name] = path
        known = ChainMap[str, Entry]({}, cache.load())
        declared = (path for path in paths.values() if self._declares(path, group))
        found = [point for path in declared for point in self._points(path, group, paths, known)]
        if fresh := known.maps[0]:
            cache.store({**cache.load(), **fresh})
        return found

    def notes(self) -> Notes:
        """Open what the application noted about its entry points."""
        return Notes(self._cache())

    def _cache(self) -> Cache:
        return Cache(self.cache, (self.group, self.host, self.version, self.marker, self.reader))

    def _declares(self, path: str, group: str) -> bool:
        """Whether entry_points.txt has the group's section: of a thousand distributions, the index reads only these."""
        if group == self.group and self._has_marker(path):
            return True
        try:
            with open(os.path.join(path, "entry_points.txt"), "rb", buffering=0) as file:
                content, header = file.read(), f"[{group}]".encode()
        except OSError:
            return False
        # Spaces and a byte order mark may precede the header; inside a line, `[deep]` is an entry's extras.
        return header in content and header in map(bytes.strip, content.removeprefix(codecs.BOM_UTF8).splitlines())

    def _points(
        self, path: str, group: str, installed: Mapping[str, str], known: ChainMap[str, Entry]
    ) -> list[EntryPoint]:
        entry, named = known.get(path), [("", "")]
        try:
            now = stamp(os.path.join(path, name) for name in os.listdir(path))
            if entry is None or entry["stamp"] != now:
                from .metadata import read_entry_points, read_metadata

                points = read_entry_points(path, self.group)
                named = [(name, value) for where, name, value in points if where == group]
                metadata = read_metadata(path, points, self.host, self.version)
                entry = known[path] = {"stamp": now, "metadata": metadata, "notes": {}}
                if not any(where == self.group for where, _, _ in points) and self._has_marker(path):
                    points.append([self.group, _python_name(path), self.marker])
                    metadata["requires"].append(self.reader)
        except Exception as error:  # noqa: BLE001 - a broken distribution must not affect the others
            return [_unreadable(path, group, name, value, error) for name, value in named]
        return list(_read(path, entry, group, installed))

    def _has_marker(self, path: str) -> bool:
        return bool(self.marker) and os.path.exists(os.path.join(path, self.marker))


def _distributions(directory: str) -> list[tuple[str, str]]:
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return []
    # pip renames what it uninstalls to `~…`, and leaves that behind if it is killed.
    names = [name for name in names if name.endswith((".dist-info", ".egg-info")) and name[0] != "~"]
    return [(canonical(_name_and_version(name)[0]), os.path.join(directory, name)) for name in names]


def _name_and_version(path: str) -> tuple[str, str]:
    name, _, version = os.path.splitext(os.path.basename(path))[0].partition("-")
    return name, version


def _python_name(path: str) -> str:
    """Name an entry point after its distribution."""
    return canonical(_name_and_version(path)[0]).replace("-", "_")


def _has_metadata(path: str) -> bool:
    return any(os.path.exists(os.path.join(path, name)) for name in ("METADATA", "PKG-INFO"))


def _unreadable(path: str, group: str, name: str, value: str, error: Exception) -> EntryPoint:
    distribution, version = _name_and_version(path)
    name, folder = name or _python_name(path), os.path.dirname(path)
    distribution = distribution.replace("_", "-")
    return EntryPoint(group, name, value, distribution, version, Path(path), folder, error=error)


def _read(path: str, entry: Entry, group: str, installed: Mapping[str, str]) -> Iterator[EntryPoint]:
    said, editable = entry["metadata"], entry["metadata"]["editable"]
    requires = tuple(said["requires"])
    for where, name, value in said["points"]:
        if where == group:
            yield EntryPoint(
                group=group,
                name=name,
                value=value,
                distribution=said["name"],
                version=said["version"],
                dist_info=Path(path),
                root=editable or os.path.dirname(os.path.realpath(path)),
                editable=editable is not None,
                host_range=said["host_range"],
                accepts_host=said["accepts_host"],
                requires=requires,
                missing=tuple(name for name in requires if name not in installed),
                stamp=entry["stamp"],
            )
