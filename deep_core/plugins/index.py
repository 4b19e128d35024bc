"""Discover installed plugins from distribution metadata alone. No plugin is imported here.

The index reads only the interpreter's site directories, never the current directory and never `sys.path`'s `''`: a file
that the model wrote into the working directory cannot become a plugin.
"""

from __future__ import annotations

import codecs
import os
import sys
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..names import canonical
from . import cache

GROUP = "deep"
"""The entry-point group of plugins."""

MARKER = "agent_plugins.json"
"""The file of a dist-info folder by which a distribution brings skills and MCP servers without code."""

ASIDE = {"conftest", "docs", "examples", "setup", "test", "tests"}
"""Modules that distributions install by mistake and that every project has: no plugin imports them."""

Status = Literal["active", "disabled", "blocked", "incompatible", "needs-plugin", "needs-extra", "failed"]


class PluginRecord:
    """One plugin, whatever its status.

    Attributes:
        name: the name of its entry point.
        distribution: the distribution that installed it; None if given by hand.
        version: that distribution's version; "" if given by hand.
        path: the folder of its dist-info, or the editable project.
        status: before loading, `active` means that the plugin would load; afterwards, that it did.
        reason: for any other status, why, and what to type.
        error: the exception of a plugin that failed, with its traceback.
        import_ms: the duration of the import in milliseconds; None before the import.
        hooks: the hooks that it implements; None before the import.
        asleep: the hooks that it implements of absent plugins, each with that plugin's name.
        editable: whether it is an editable install.
    """

    # Not a dataclass: those import `inspect`, which `deep plugins list` would pay for.
    def __init__(self, name: str, distribution: str | None, version: str, path: str, *, editable: bool = False) -> None:
        self.name, self.distribution, self.version = name, distribution, version
        self.path, self.editable = path, editable
        self.status: Status = "active"
        self.reason = ""
        self.error: BaseException | None = None
        self.import_ms: float | None = None
        self.hooks: tuple[str, ...] | None = None
        self.asleep: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"<PluginRecord {self.label}: {self.status}>"

    @property
    def label(self) -> str:
        """`weather 0.1.0 (acme-weather)`, the plugin's name in errors."""
        dist = f" ({self.distribution})" if self.distribution else " (given by hand)"
        return f"{self.name} {self.version}".rstrip() + dist

    @property
    def summary(self) -> str:
        """`plugin weather 0.1.0 (acme-weather) is disabled: …`, with the reason."""
        return f"plugin {self.label} is {self.status}: {self.reason}".rstrip(": ")

    def fail(self, status: Status, reason: str, error: BaseException | None = None) -> None:
        """Take the plugin out of use for this reason."""
        self.status, self.reason, self.error = status, reason, error


class Candidate(NamedTuple):
    """One entry point of group `deep`, with what its distribution's metadata says.

    Attributes:
        record: the plugin's record, shared with the kernel.
        value: the entry point's value, `module` or `module:object`; `MARKER` without an entry point.
        dist_info: the dist-info folder (or egg-info).
        core_range: the deep-core versions it accepts, as a specifier ("" for any).
        requires: distributions it needs, canonical names.
        missing: those of them that are not installed.
        accepts_core: whether this deep-core is in `core_range`.
        stamp: of the files that all this was read from.
        given: the module or object, if the application gave it by hand.
    """

    record: PluginRecord
    value: str = ""
    dist_info: Path = Path()
    core_range: str = ""
    requires: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    accepts_core: bool = True
    stamp: Sequence[int] = ()
    given: object = None

    @property
    def module(self) -> str:
        """The module that the entry point names."""
        return self.value.partition("[")[0].partition(":")[0].strip()


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


def scan(directories: Sequence[str] | None = None, *, group: str = GROUP) -> list[Candidate]:
    """Return every installed plugin, by name, then by distribution.

    Args:
        directories: where to look; None for `site_directories()`.
        group: the entry-point group: `deep`, or one that begins with `deep.`.
    """
    paths: dict[str, str] = {}
    for directory in site_directories() if directories is None else directories:
        for name, path in _distributions(directory):
            # The first on the path shadows later ones, as for import, unless an uninstall left only a part of it.
            if name not in paths or not _has_metadata(paths[name]):
                paths[name] = path
    known = ChainMap[str, cache.Entry]({}, cache.load())
    found = [c for path in paths.values() if _declares(path, group) for c in _candidates(path, group, paths, known)]
    if fresh := known.maps[0]:
        cache.store({**cache.load(), **fresh})
    return sorted(found, key=lambda c: (c.record.name, c.record.distribution or ""))


def shield_pydantic(candidates: Iterable[Candidate]) -> None:
    """Turn pydantic's own plugins off if a distribution's entry points cannot be read.

    Pydantic reads the entry points of every distribution when it builds its first model, and would raise there.
    """
    if any(candidate.record.distribution and not candidate.value for candidate in candidates):
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


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


def _has_metadata(path: str) -> bool:
    return any(os.path.exists(os.path.join(path, name)) for name in ("METADATA", "PKG-INFO"))


def _declares(path: str, group: str) -> bool:
    """Whether entry_points.txt has the group's section: of a thousand distributions, the index reads only these."""
    if group == GROUP and os.path.exists(os.path.join(path, MARKER)):
        return True
    try:
        with open(os.path.join(path, "entry_points.txt"), "rb", buffering=0) as file:
            content, header = file.read(), f"[{group}]".encode()
    except OSError:
        return False
    # Spaces and a byte order mark may precede the header; inside a line, `[deep]` is an entry's extras.
    return header in content and header in map(bytes.strip, content.removeprefix(codecs.BOM_UTF8).splitlines())


def _candidates(
    path: str, group: str, installed: Mapping[str, str], known: ChainMap[str, cache.Entry]
) -> list[Candidate]:
    entry, named = known.get(path), [("", "")]
    try:
        stamp = cache.stamp(os.path.join(path, name) for name in os.listdir(path))
        if entry is None or entry["stamp"] != stamp:
            from .metadata import read_entry_points, read_metadata

            points = read_entry_points(path)
            named = [(name, value) for where, name, value in points if where == group]
            entry = known[path] = {"stamp": stamp, "metadata": read_metadata(path, points), "outcomes": {}}
            if not any(where == GROUP for where, _, _ in points) and os.path.exists(os.path.join(path, MARKER)):
                points.append([GROUP, canonical(_name_and_version(path)[0]).replace("-", "_")[:40], MARKER])
                entry["metadata"]["requires"].append("deep-folders")  # which reads what the distribution brings
    except Exception as error:  # noqa: BLE001 - a broken distribution must not affect the others
        return [_unreadable(path, name, value, error) for name, value in named]
    return list(_read(path, entry, group, installed))


def _unreadable(path: str, plugin: str, value: str, error: Exception) -> Candidate:
    name, version = _name_and_version(path)
    plugin = plugin or name.lower().removeprefix("deep_")  # a guess if entry_points.txt cannot be read
    record = PluginRecord(plugin, name.replace("_", "-"), version, os.path.dirname(path))
    reason = f"its metadata cannot be read ({type(error).__name__}: {error}); pip install --force-reinstall"
    record.fail("failed", f"{reason} {record.distribution}", error)
    return Candidate(record, value, Path(path))


def _read(path: str, entry: cache.Entry, group: str, installed: Mapping[str, str]) -> Iterator[Candidate]:
    said, editable = entry["metadata"], entry["metadata"]["editable"]
    folder, requires = editable or os.path.dirname(os.path.realpath(path)), tuple(said["requires"])
    missing = tuple(name for name in requires if name not in installed)
    same = (Path(path), said["core_range"], requires, missing, said["accepts_core"], entry["stamp"])
    for where, name, value in said["points"]:
        if where == group:
            record = PluginRecord(name, said["name"], said["version"], folder, editable=editable is not None)
            yield Candidate(record, value, *same)


def origin_problem(candidate: Candidate) -> str | None:
    """Return why the plugin must not be imported; None if its modules come from its own distribution.

    Asks the finders level by level, as `import` would, and imports nothing.
    """
    files = _installed(candidate)
    for module in (candidate.module, *_outermost(files or ())):
        for name, spec in _specs(module):
            if spec is None and module == candidate.module:
                return f"its module {name!r} does not exist; {_again(candidate)}"
            origin = os.path.realpath(spec.origin) if spec and spec.origin and spec.has_location else None
            if origin and (problem := _outside(candidate, name, origin, files)):
                return problem
    return None


def module_file(candidate: Candidate) -> str | None:
    """Return the file of the candidate's module, or of its outermost package with a file; import nothing."""
    return next(
        (spec.origin for _, spec in _specs(candidate.module) if spec and spec.has_location and spec.origin), None
    )


def _specs(module: str) -> Iterator[tuple[str, Any]]:
    """Yield (name, spec) for each level of the module, outermost first; the spec is None if none exists."""
    parts, search = module.split("."), None
    for depth, part in enumerate(parts):
        name = ".".join(parts[: depth + 1])
        spec = _find_spec(name, search) if depth == 0 or search is not None else None
        yield name, spec
        if spec is None:
            return
        search = _locations(spec, part, search)


def _again(candidate: Candidate) -> str:
    """Say how to restore missing files: a plain `pip install` skips a distribution whose metadata exists."""
    record = candidate.record
    way = f"install {record.path} again" if record.editable else f"pip install --force-reinstall {record.distribution}"
    return f"{way}, or plugins.disable = [{record.name!r}]"


def _locations(spec: Any, part: str, search: list[str] | None) -> list[str] | None:
    """Return the search path of a package's modules. A namespace package's own list would import its parent."""
    found = spec.submodule_search_locations
    if found is None or spec.origin is not None:
        return found and list(found)
    folders = (os.path.join(folder or os.getcwd(), part) for folder in (sys.path if search is None else search))
    return [folder for folder in folders if os.path.isdir(folder)]


def _find_spec(name: str, path: list[str] | None) -> Any:
    spec = getattr(sys.modules.get(name), "__spec__", None)
    if spec is not None:
        return spec
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(name, path)
        except KeyError:
            # PathFinder found a namespace package whose parent is not imported, and looks for that in sys.modules.
            spec = ModuleSpec(name, None, is_package=True)
        if spec is not None:
            return spec
    return None


def _installed(candidate: Candidate) -> set[str] | None:
    """Return the distribution's files; None if a system package manager left RECORD out."""
    try:
        record = (candidate.dist_info / "RECORD").read_text(encoding="utf-8")
    except OSError:
        return None
    return {line.rsplit(",", 2)[0].strip('"') for line in record.splitlines()}


def _outermost(files: Iterable[str]) -> list[str]:
    """List the modules that are in no package: Python looks for others in their package's folder alone."""
    modules = {file.removesuffix(".py").removesuffix("/__init__") for file in files if file.endswith(".py")}
    tops = {module: module.partition("/")[0] for module in modules - ASIDE if module.replace("/", "").isidentifier()}
    return [module.replace("/", ".") for module, top in tops.items() if module == top or top not in modules]


def _outside(candidate: Candidate, name: str, origin: str, files: set[str] | None) -> str | None:
    for root in (candidate.record.path, os.path.realpath(candidate.dist_info.parent)):
        below = origin.startswith(root.rstrip(os.sep) + os.sep)
        inside = files is None or os.path.relpath(origin, root).replace(os.sep, "/") in files
        if below and (candidate.record.editable or inside):
            return None
    return (
        f"module {name!r} would come from {origin}, which {candidate.record.distribution} did not install; "
        "rename that file, or start Python with -P so that the working directory is not searched, or "
        f"plugins.disable = [{candidate.record.name!r}]"
    )
