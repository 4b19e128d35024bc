"""Find the plugin under test: by its entry point's name, by its module's name, or as an object."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from deep_core.plugin_api import Candidate, candidate_from_object, scan, site_directories, static_attribute, suggest

__all__ = ["Subject", "find_subject", "installed_names"]


@dataclass(frozen=True)
class Subject:
    """A plugin under test.

    Attributes:
        name: the plugin's name.
        obj: the object with its hooks: a module, or an object.
        module: the module of its entry point, or the given one.
        candidate: its installed metadata; None if it is not installed, or has no entry point.
        sources: files and folders of its code.
    """

    name: str
    obj: object
    module: str
    candidate: Candidate | None
    sources: tuple[Path, ...]

    @property
    def label(self) -> str:
        """The plugin's name in errors: `weather 0.1.0 (acme-weather)`."""
        return self.candidate.record.label if self.candidate is not None else self.name

    @property
    def hooks(self) -> dict[str, str | None]:
        """The hooks that it implements, each with the plugin that owns it (None: the kernel)."""
        functions = _hooks(self.obj).items()
        return {function.deep_impl.get("specname") or name: function.deep_order.of for name, function in functions}

    def wrote(self, file: str) -> bool:
        """Whether a source file is the plugin's."""
        return _wrote(self.sources, file)


@lru_cache(maxsize=8192)
def _wrote(sources: tuple[Path, ...], file: str) -> bool:
    # Called for every loaded module and function: compare texts, because paths are slow to compare.
    path = os.path.normpath(file)
    return any(path == own or path.startswith(own + os.sep) for own in map(os.path.normpath, sources))


def find_subject(plugin: object) -> Subject:
    """Find the plugin.

    Args:
        plugin: an entry point's name, else a module's name; or a module, or an object with hooks as methods.

    Raises:
        LookupError: no installed plugin and no module has that name; the message has the nearest one.
    """
    if isinstance(plugin, str):
        return _find_by_name(plugin)
    unnamed = candidate_from_object(plugin)
    obj: object = plugin() if isinstance(plugin, type) else plugin
    path = obj.__name__ if isinstance(obj, ModuleType) else None
    candidate = next((c for c in _installed_candidates() if c.point.value == path), None)
    name = candidate.record.name if candidate is not None else unnamed.record.name
    return _subject(name, obj, candidate)


def _find_by_name(name: str) -> Subject:
    installed = {candidate.record.name: candidate for candidate in _installed_candidates()}
    if name in installed:
        candidate = installed[name]
        obj = candidate.point.load()
        return _subject(name, obj() if isinstance(obj, type) else obj, candidate)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise LookupError(
            f"no installed plugin and no module is named {name!r}.{suggest(name, installed)} "
            "Install the plugin into this environment (pip install -e .), or name its module."
        ) from error
    return find_subject(module)


def installed_names() -> set[str]:
    """The names of the installed plugins."""
    return {candidate.record.name for candidate in _installed_candidates()}


def _installed_candidates() -> list[Candidate]:
    """The installed plugins; read again when a site directory changes. Every check calls this."""
    return _scan_directories(tuple((path, os.stat(path).st_mtime_ns) for path in site_directories()))


@lru_cache(maxsize=1)
def _scan_directories(directories: tuple[tuple[str, int], ...]) -> list[Candidate]:
    return scan([path for path, _ in directories])


def _subject(name: str, obj: object, candidate: Candidate | None) -> Subject:
    module = obj.__name__ if isinstance(obj, ModuleType) else type(obj).__module__
    return Subject(name, obj, candidate.point.module if candidate else module, candidate, tuple(_sources(obj)))


def _sources(obj: object) -> list[Path]:
    """The folder of its package, or its file; and the files of its hooks."""
    name = obj.__name__ if isinstance(obj, ModuleType) else type(obj).__module__
    paths: dict[Path, None] = dict.fromkeys(_package(name))
    parts: list[Any] = [obj if isinstance(obj, ModuleType) else type(obj), *_hooks(obj).values()]
    for part in parts:
        try:
            file = inspect.getsourcefile(inspect.unwrap(part))
        except TypeError:
            continue  # without a file, as from exec()
        if file is not None:
            paths[Path(file)] = None
    return list(paths)


def _package(module: str) -> list[Path]:
    """The folders of the outermost package that is not a namespace, which others may share."""
    names = module.split(".")
    for end in range(1, len(names) + 1):
        package = sys.modules.get(".".join(names[:end]))
        if getattr(package, "__file__", None) is not None:
            return [Path(folder) for folder in getattr(package, "__path__", ())]
    return []


def _hooks(obj: object) -> dict[str, Any]:
    names = [name for name in dir(obj) if getattr(static_attribute(obj, name), "deep_impl", None) is not None]
    return {name: getattr(obj, name) for name in names}
