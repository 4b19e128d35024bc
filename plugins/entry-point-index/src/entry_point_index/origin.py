"""Tell, before an import, whether it would run files of the distribution that declares the entry point.

A file in the working directory, or a stray folder in a site directory, comes first on `sys.path` more often than one
thinks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .index import EntryPoint


ASIDE = {"conftest", "docs", "examples", "setup", "test", "tests"}
"""Modules that distributions install by mistake and that every project has: no plugin imports them."""


class Misplaced(NamedTuple):
    """A module that the distribution did not install where `import` looks first.

    Attributes:
        module: its name.
        origin: the file that `import` would run; None if there is no such module.
    """

    module: str
    origin: str | None


def misplaced_module(point: EntryPoint) -> Misplaced | None:
    """Return why the entry point must not be imported; None if its modules come from its own distribution.

    Checks the entry point's module, the packages that it is in, and every outermost module of the distribution. Asks
    the finders level by level, as `import` would, and imports nothing.
    """
    files = _installed(point.dist_info)
    for module in (point.module, *_outermost(files or ())):
        for name, spec in _specs(module):
            if spec is None and module == point.module:
                return Misplaced(name, None)
            origin = os.path.realpath(spec.origin) if spec and spec.origin and spec.has_location else None
            if origin and not _owns(point, origin, files):
                return Misplaced(name, origin)
    return None


def module_file(point: EntryPoint) -> str | None:
    """Return the file of the entry point's module, or of its outermost package with a file; import nothing."""
    return next((spec.origin for _, spec in _specs(point.module) if spec and spec.has_location and spec.origin), None)


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


def _installed(dist_info: Path) -> set[str] | None:
    """Return the distribution's files; None if a system package manager left RECORD out."""
    try:
        record = (dist_info / "RECORD").read_text(encoding="utf-8")
    except OSError:
        return None
    return {line.rsplit(",", 2)[0].strip('"') for line in record.splitlines()}


def _outermost(files: Iterable[str]) -> list[str]:
    """List the modules that are in no package: Python looks for others in their package's folder alone."""
    modules = {file.removesuffix(".py").removesuffix("/__init__") for file in files if file.endswith(".py")}
    tops = {module: module.partition("/")[0] for module in modules - ASIDE if module.replace("/", "").isidentifier()}
    return [module.replace("/", ".") for module, top in tops.items() if module == top or top not in modules]


def _owns(point: EntryPoint, origin: str, files: set[str] | None) -> bool:
    for root in (point.root, os.path.realpath(point.dist_info.parent)):
        below = origin.startswith(root.rstrip(os.sep) + os.sep)
        inside = files is None or os.path.relpath(origin, root).replace(os.sep, "/") in files
        if below and (point.editable or inside):
            return True
    return False
