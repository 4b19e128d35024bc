"""Discover: which plugins are installed, told from distribution metadata alone. No plugin is imported here.

Only the interpreter's site directories are read, never the current directory and never `sys.path`'s `''`, so a file
that somebody (the model, say) put into the working directory cannot become a plugin.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from ..names import canonical
from .metadata import read_entry_points, read_metadata

__all__ = [
    "GROUP",
    "Candidate",
    "PluginRecord",
    "Status",
    "origin_problem",
    "scan",
    "shield_pydantic",
    "site_directories",
]

GROUP = "deep"
"""The entry-point group that plugins stand in."""

Status = Literal["active", "disabled", "blocked", "incompatible", "needs-plugin", "needs-extra", "failed"]


class PluginRecord:
    """What is known of one plugin: always listed, whatever became of it.

    Attributes:
        name: the plugin's name (its entry point's).
        distribution: the distribution that installed it, None for one given by hand.
        version: that distribution's version, "" for one given by hand.
        path: where it is installed: the folder of its dist-info, or the editable project.
        status: `active` means "would load" before loading and "did load" after it.
        reason: for any other status, why, and what to type.
        error: the exception, with its traceback, of a plugin that failed.
        import_ms: how long the import took, in milliseconds; None while not imported.
        hooks: the hooks it implements; None while not imported.
        editable: whether it is an editable install.
    """

    # Not a dataclass: `deep plugins list` would import `inspect` for this alone.
    def __init__(self, name: str, distribution: str | None, version: str, path: str, *, editable: bool = False) -> None:
        self.name, self.distribution, self.version = name, distribution, version
        self.path, self.editable = path, editable
        self.status: Status = "active"
        self.reason = ""
        self.error: BaseException | None = None
        self.import_ms: float | None = None
        self.hooks: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return f"<PluginRecord {self.label}: {self.status}>"

    @property
    def label(self) -> str:
        """`weather 0.1.0 (acme-weather)`, as errors name it."""
        dist = f" ({self.distribution})" if self.distribution else " (given by hand)"
        return f"{self.name} {self.version}".rstrip() + dist

    @property
    def summary(self) -> str:
        """`plugin weather 0.1.0 (acme-weather) is disabled: …`, with the reason."""
        return f"plugin {self.label} is {self.status}: {self.reason}".rstrip(": ")

    def fail(self, status: Status, reason: str, error: BaseException | None = None) -> None:
        """Take the plugin out of use, saying why."""
        self.status, self.reason, self.error = status, reason, error


class Candidate(NamedTuple):
    """One entry point of group `deep`, with what its distribution's metadata says.

    Attributes:
        record: the plugin's record, shared with the kernel.
        value: the entry point's value, `module` or `module:object`.
        dist_info: the dist-info folder.
        core_range: the deep-core versions it accepts, as a specifier ("" for any).
        requires: distributions it needs, canonical names.
        missing: those of them that are not installed.
        roots: folders that its modules may come from.
        listed: whether a file below the site directory belongs to the distribution is told by its RECORD.
    """

    record: PluginRecord
    value: str
    dist_info: Path
    core_range: str
    requires: tuple[str, ...]
    missing: tuple[str, ...]
    roots: tuple[str, ...]
    listed: bool

    @property
    def module(self) -> str:
        """The module that the entry point names."""
        return self.value.partition("[")[0].partition(":")[0].strip()


def site_directories() -> list[str]:
    """The interpreter's site directories, real paths, in the order of `sys.path` where they stand in it."""
    import site
    import sysconfig

    found = [*site.getsitepackages(), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    if site.ENABLE_USER_SITE:
        found.append(site.getusersitepackages())
    real = dict.fromkeys(os.path.realpath(path) for path in found if os.path.isdir(path))
    rank = {os.path.realpath(path): i for i, path in enumerate(sys.path) if path}
    return sorted(real, key=lambda path: rank.get(path, len(rank)))


def scan(directories: Sequence[str] | None = None, *, group: str = GROUP) -> list[Candidate]:
    """Every plugin that is installed, in the order of name, then distribution.

    Args:
        directories: where to look; None means `site_directories()`.
        group: the entry-point group.
    """
    paths: dict[str, str] = {}
    for directory in site_directories() if directories is None else directories:
        for name, path in _dist_infos(directory):
            paths.setdefault(name, path)  # the first on the path shadows the later, as for import
    found: list[Candidate] = []
    for path in paths.values():
        found.extend(_candidates(path, paths, group))
    return sorted(found, key=lambda c: (c.record.name, c.record.distribution or ""))


def shield_pydantic(candidates: Iterable[Candidate]) -> None:
    """Turn pydantic's own plugins off where a distribution's entry points cannot be read.

    Pydantic reads those of every distribution when its first model is made, and the garbage would end the application
    there. Without its own plugins it does not look.
    """
    if any(candidate.record.distribution and not candidate.value for candidate in candidates):
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def _dist_infos(directory: str) -> Iterator[tuple[str, str]]:
    try:
        # With `~` begins what pip has set aside to uninstall it, and left there when it was killed.
        names = sorted(name for name in os.listdir(directory) if name.endswith(".dist-info") and name[0] != "~")
    except OSError:
        return
    for name in names:
        yield canonical(name.removesuffix(".dist-info").partition("-")[0]), os.path.join(directory, name)


def _candidates(path: str, installed: dict[str, str], group: str) -> list[Candidate]:
    points: list[tuple[str, str]] | None = None
    try:
        points = read_entry_points(path, group)
        return _read(path, points, installed) if points else []
    except Exception as error:  # noqa: BLE001 - whatever one distribution's metadata does, the others are untouched
        return [_unreadable(path, name, value, error) for name, value in points or [(_guessed(path), "")]]


def _guessed(path: str) -> str:
    """The plugin's name, where entry_points.txt does not tell."""
    return os.path.basename(path).partition("-")[0].lower().removeprefix("deep_")


def _unreadable(path: str, plugin: str, value: str, error: Exception) -> Candidate:
    name, _, version = os.path.basename(path).removesuffix(".dist-info").partition("-")
    record = PluginRecord(plugin, name.replace("_", "-"), version, os.path.dirname(path))
    reason = f"its metadata cannot be read ({type(error).__name__}: {error}); pip install --force-reinstall"
    record.fail("failed", f"{reason} {record.distribution}", error)
    return Candidate(record, value, Path(path), "", (), (), (), listed=False)


def _read(path: str, points: Sequence[tuple[str, str]], installed: dict[str, str]) -> list[Candidate]:
    metadata = read_metadata(path)
    site_directory = os.path.dirname(os.path.realpath(path))
    editable = _editable_root(_text(os.path.join(path, "direct_url.json")))
    return [
        Candidate(
            record=PluginRecord(
                name=name,
                distribution=metadata.name,
                version=metadata.version,
                path=editable or site_directory,
                editable=editable is not None,
            ),
            value=value,
            dist_info=Path(path),
            core_range=metadata.core_range,
            requires=metadata.requires,
            missing=tuple(name for name in metadata.requires if name not in installed),
            roots=(editable, site_directory) if editable else (site_directory,),
            listed=editable is None,
        )
        for name, value in points
    ]


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return None


def _editable_root(direct_url: str | None) -> str | None:
    if not direct_url:
        return None
    import json
    from urllib.parse import unquote, urlsplit

    try:
        raw: object = json.loads(direct_url)
    except ValueError:
        return None
    if not isinstance(raw, dict):
        return None
    data = cast("dict[str, Any]", raw)
    info: Any = data.get("dir_info")
    if not isinstance(data.get("url"), str) or not isinstance(info, dict) or not cast("Any", info).get("editable"):
        return None
    url = urlsplit(str(data["url"]))
    return os.path.realpath(unquote(url.path)) if url.scheme == "file" else None


def origin_problem(candidate: Candidate) -> str | None:
    """Why the candidate's module must not be imported, or None: it would come from where its distribution put it.

    Nothing is imported to find out: the finders are asked level by level, as `import` would.
    """
    search: list[str] | None = None
    parts = candidate.module.split(".")
    for depth in range(len(parts)):
        name = ".".join(parts[: depth + 1])
        spec = _find_spec(name, search)
        if spec is None:
            return f"its module {name!r} is not there; {_again(candidate)}"
        if spec.origin is not None and spec.has_location:
            problem = _outside(candidate, name, os.path.realpath(spec.origin))
            if problem:
                return problem
        search = _locations(spec, parts[depth], search)
        if search is None and depth + 1 < len(parts):
            return f"its module {candidate.module!r} is not there: {name!r} is no package; {_again(candidate)}"
    return None


def _again(candidate: Candidate) -> str:
    """What brings back files that are gone: `pip install` leaves a distribution alone that is there by its metadata."""
    record = candidate.record
    way = f"install {record.path} again" if record.editable else f"pip install --force-reinstall {record.distribution}"
    return f"{way}, or plugins.disable = [{record.name!r}]"


def _locations(spec: Any, part: str, search: list[str] | None) -> list[str] | None:
    """Where a package's modules are looked for. A namespace package's own list asks for its parent, imported."""
    if spec.submodule_search_locations is None:
        return None
    if spec.origin is not None:
        return list(spec.submodule_search_locations)
    folders = (os.path.join(folder or os.getcwd(), part) for folder in (sys.path if search is None else search))
    return [folder for folder in folders if os.path.isdir(folder)]


def _find_spec(name: str, path: list[str] | None) -> Any:
    loaded = sys.modules.get(name)
    spec = getattr(loaded, "__spec__", None)
    if spec is not None:
        return spec
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(name, path)
        except KeyError:
            # PathFinder found a namespace package in one that is not imported, and asks sys.modules for that.
            spec = ModuleSpec(name, None, is_package=True)
        if spec is not None:
            return spec
    return None


def _outside(candidate: Candidate, name: str, origin: str) -> str | None:
    for root in candidate.roots:
        if not origin.startswith(root.rstrip(os.sep) + os.sep):
            continue
        if not candidate.listed or _in_record(candidate, os.path.relpath(origin, root)):
            return None
    return (
        f"module {name!r} would come from {origin}, which {candidate.record.distribution} did not install; "
        "rename that file, or start Python with -P so that the working directory is not searched, or "
        f"plugins.disable = [{candidate.record.name!r}]"
    )


def _in_record(candidate: Candidate, relative: str) -> bool:
    try:
        record = (candidate.dist_info / "RECORD").read_text(encoding="utf-8")
    except OSError:
        return True  # a system package manager may not ship RECORD; the folder is still the interpreter's own
    wanted = relative.replace(os.sep, "/")
    return any(line.startswith((wanted + ",", f'"{wanted}",')) for line in record.splitlines())
